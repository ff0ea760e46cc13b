"""Which Debian packages an environment needs, beside those that its spec names: plain tables.

Each function gives package names and, for each, the reason that stands in the lock.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["base_packages", "packages_for_wheels", "ssh_packages"]

_BASE = {
    # `apt-get install` works in the image, as on any Debian; it brings the archive's keys too.
    "apt": "base",
    "ca-certificates": "base",
    # The manylinux policies let a wheel rely on it (torch and triton do), but nothing that is Essential does.
    "libstdc++6": "base",
    "python3": "python",
    "python3-venv": "python",
}

_TRITON = {
    # Triton compiles a launcher for each kernel at run time: a C compiler, the C library's and Python's headers.
    "gcc": "triton",
    "libc6-dev": "triton",
    "libpython3-dev": "triton",
}

_WHEELS = {"triton": _TRITON}

_SSH = {"openssh-server": "ssh"}


def base_packages() -> dict[str, str]:
    """What every base has, beside the Essential packages."""
    return dict(_BASE)


def packages_for_wheels(names: Iterable[str]) -> dict[str, str]:
    """What wheels (normalised names) need of the base at run time; their metadata cannot say it."""
    needed: dict[str, str] = {}
    for name in sorted(names):
        needed.update(_WHEELS.get(name, {}))
    return needed


def ssh_packages() -> dict[str, str]:
    """What logging in over ssh needs."""
    return dict(_SSH)
