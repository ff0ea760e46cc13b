"""What the target is to conda's solver: virtual packages, from the specification and the base, not from this host."""

from __future__ import annotations

from collections.abc import Mapping

from envlock.lock.cuda_facts import newest_runtime
from envlock.platforms import Platform
from envlock.spec.model import EnvSpec

__all__ = ["virtual_packages"]

# The kernels that the suites came out with: what a package may count on where it asks for `__linux`.
_KERNELS: Mapping[str, str] = {"bookworm": "6.1", "trixie": "6.12"}


def virtual_packages(spec: EnvSpec, platform: Platform, glibc: str) -> dict[str, tuple[str, str]]:
    """Name -> (version, build) of each; without `__cuda` where the target has no GPU."""
    found = {
        "__archspec": ("1", platform.machine),
        "__glibc": (glibc, "0"),
        "__linux": (_KERNELS.get(spec.base.debian, "5.10"), "0"),
        "__unix": ("0", "0"),
    }
    cuda = spec.target.cuda
    if cuda != "cpu":
        found["__cuda"] = (newest_runtime(spec.target.driver) if cuda == "auto" else cuda, "0")
    return dict(sorted(found.items()))
