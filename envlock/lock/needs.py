"""What the base must hold for the wheels and the ways in: Debian packages that no metadata of a wheel tells. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from envlock.lock.model import LockedWheel
from envlock.spec.model import EnvSpec, Requirement

__all__ = ["Need", "base_packages", "needs_of_wheels", "requirements_with_access"]

_ALWAYS: Mapping[str, str] = {
    "python3": "python",
    "apt": "packages",  # a later `apt-get install` works, as on any Debian; it brings the archive's keys too
    "ca-certificates": "tls",
    "libstdc++6": "wheels",  # every manylinux policy leaves libstdc++ to the system
}
"""What is in every base, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Debian packages that some wheels need, and why, in words that follow the wheel's name."""

    wheels: frozenset[str]
    reason: str
    debs: tuple[str, ...]
    words: str


def base_packages(spec: EnvSpec, wheels: Iterable[LockedWheel]) -> Mapping[str, str]:
    """The packages to put into the base (name -> reason), by name; the reason of what the spec names is "spec"."""
    wanted = dict(_ALWAYS)
    for need in needs_of_wheels(wheels):
        wanted.update(dict.fromkeys(need.debs, need.reason))
    if spec.access.ssh:
        wanted["openssh-server"] = "ssh"
    wanted.update(dict.fromkeys(spec.base.packages, "spec"))
    return dict(sorted(wanted.items()))


def needs_of_wheels(wheels: Iterable[LockedWheel]) -> tuple[Need, ...]:
    """The needs of these wheels."""
    names = {wheel.name for wheel in wheels}
    return tuple(need for need in _needs() if need.wheels & names)


def requirements_with_access(spec: EnvSpec) -> tuple[Requirement, ...]:
    """The spec's requirements, and those of its ways in."""
    own = spec.python.requirements
    if not spec.access.jupyter:
        return own
    return (*own, Requirement(text="jupyterlab", origin=f"{spec.file.name}: access.jupyter"))


@cache
def _needs() -> tuple[Need, ...]:
    data = tomllib.loads(files("envlock.lock").joinpath("base_needs.toml").read_text(encoding="utf-8"))
    return tuple(
        Need(wheels=frozenset(row["wheels"]), reason=row["reason"], debs=tuple(row["debs"]), words=row["words"])
        for row in data["need"]
    )
