"""Whether the conda side of a lock is still what its specification asks for. Offline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.utils import canonicalize_name

from envlock.lock.model import Lock, LockedCondaPackage
from envlock.platforms import Platform
from envlock.spec.conda import spec_name
from envlock.spec.model import EnvSpec, Requirement

__all__ = ["conda_differences", "unmet"]


def conda_differences(spec: EnvSpec, lock: Lock) -> Iterator[str]:
    """What differs, in words."""
    if spec.conda is None or lock.conda is None:
        if spec.conda is not None:
            yield "[conda] is asked for, and is not locked"
        if lock.conda is not None:
            yield "a conda side is locked, and is not asked for"
        return
    for platform in lock.platforms:
        for dependency in spec.conda.dependencies:
            name = canonicalize_name(spec_name(dependency.text))
            if spec.conda.wins.get(name) != "wheel":
                yield from unmet(dependency, lock.conda_for(platform), platform)
    if spec.conda.lock is None:
        known = set(spec.conda.channels)
        for package in lock.conda.packages:
            if package.channel not in known:
                yield f"{package.name} is locked from the channel {package.channel}, which is not asked for"


def unmet(dependency: Requirement, packages: Iterable[LockedCondaPackage], platform: Platform) -> Iterator[str]:
    """What a dependency has against the packages that are locked for a platform."""
    from rattler import BuildString, MatchSpec, PackageRecord  # noqa: PLC0415 (only where there is a conda side)

    wanted = MatchSpec(dependency.text, strict=False)
    name = spec_name(dependency.text)
    found = next((each for each in packages if each.name == name), None)
    if found is None:
        yield f"{dependency.origin}: {dependency.text} is not locked for {platform}"
        return
    number = found.build.rpartition("_")[2]
    record = PackageRecord(
        name, found.version, BuildString(found.build), int(number) if number.isdecimal() else 0, found.subdir
    )
    if not wanted.matches(record):
        yield f"{dependency.origin}: {dependency.text}, and {name} {found.version} {found.build} is locked"
