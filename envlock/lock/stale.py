"""Whether a lock is still what its specification asks for: `envlock lock --check`. Offline and pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urldefrag

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Pep508
from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock.digest import Digest
from envlock.lock.codec import dumps
from envlock.lock.conda.sides import conda_cuda, with_cuda
from envlock.lock.conda.stale import conda_differences
from envlock.lock.contract import derive_contract, judge, torch_of
from envlock.lock.derived import derived_files
from envlock.lock.model import Lock, LockedWheel
from envlock.lock.needs import base_packages, requirements_with_access
from envlock.lock.wheels.target import Target
from envlock.platforms import Platform
from envlock.spec.model import OWN_INDEXES, EnvSpec, Requirement

__all__ = ["differences"]

_CREDENTIALS = re.compile(r"(?<=://)[^/]*@")


def differences(spec: EnvSpec, lock: Lock, *, text: str, derived: Mapping[str, str | None]) -> tuple[str, ...]:
    """What differs, in words, one thing each; () where nothing does.

    `text` is the lock as it stands on the disk, `derived` the texts of the files beside it by name (None: absent).
    A lock that was just written differs in nothing.
    """
    found = [*_environment(spec, lock), *_requirements(spec, lock), *_base(spec, lock), *_target(spec, lock)]
    found += conda_differences(spec, lock)
    if not found and lock.spec != spec.digest:
        found.append(
            f"{spec.file.name} or a file that it names is not as it was locked; what differs (a range that the pins "
            "still meet, indexes, exclude-newer, allow-sdist, order, or the content of a local wheel) does not show "
            "in the pins"
        )
    if text != dumps(lock):
        found.append(f"{lock.name}.lock is not written as envlock writes it: it was edited or merged by hand")
    if lock.conda is not None:
        beside = derived.get(lock.conda.file)
        if beside is None:
            found.append(f"{lock.conda.file} is missing")
        elif Digest.of(beside.encode()) != lock.conda.sha256:
            found.append(f"{lock.conda.file} is not the one that was locked: it was edited or merged by hand")
    for name, wanted in derived_files(lock).items():
        if derived.get(name) is None:
            found.append(f"{name} is missing")
        elif derived[name] != wanted:
            found.append(f"{name} is not what the lock gives")
    return tuple(found)


def _environment(spec: EnvSpec, lock: Lock) -> Iterator[str]:
    if lock.name != spec.name:
        yield f"the lock is of {lock.name}, and the specification is of {spec.name}"
    if lock.python != spec.python_version:
        yield f"python: {spec.python_version} is asked for, and {lock.python} is locked"
    for platform in spec.platforms:
        if platform not in lock.platforms:
            yield f"platforms: {platform} is asked for, and is not locked"
    for platform in lock.platforms:
        if platform not in spec.platforms:
            yield f"platforms: {platform} is locked, and is not asked for"
    if lock.made_by.resolver != spec.python.resolver:
        yield f"python.resolver: {spec.python.resolver} is asked for, and {lock.made_by.resolver} made the lock"


def _requirements(spec: EnvSpec, lock: Lock) -> Iterator[str]:
    """What requirements, constraints and indexes have against the wheels; what holds for all platforms once."""
    platforms = _common(spec, lock)
    found: dict[str, list[Platform]] = {}
    asked: dict[Platform, frozenset[str]] = {}
    for platform in platforms:
        wheels = {wheel.name: wheel for wheel in lock.wheels_for(platform)}
        requirements = list(_holding(requirements_with_access(spec), lock, platform))
        constraints = list(_holding(spec.python.constraints, lock, platform))
        asked[platform] = frozenset(canonicalize_name(parsed.name) for _, parsed in requirements)
        lines = [*_unmet(requirements, wheels), *_violated(constraints, wheels)]
        for line in dict.fromkeys(lines):
            found.setdefault(line, []).append(platform)
    for line, where in found.items():
        yield line if len(where) == len(platforms) else f"{line} ({', '.join(where)})"
    for wheel in lock.wheels:
        if wheel.requested and not any(wheel.name in asked.get(platform, ()) for platform in wheel.platforms):
            yield f"{wheel.name} {wheel.version} is locked as asked for, and is not asked for any more"
        yield from _misplaced(spec, wheel)


def _unmet(requirements: Iterable[tuple[Requirement, Pep508]], wheels: Mapping[str, LockedWheel]) -> Iterator[str]:
    for requirement, parsed in requirements:
        wheel = wheels.get(canonicalize_name(parsed.name))
        if wheel is None:
            yield f"{requirement.origin}: {requirement.text} is not locked"
        elif parsed.url is None:
            yield from _violated([(requirement, parsed)], wheels)
        elif wheel.direct_url is None and wheel.path is None:
            yield f"{requirement.origin}: {_plain(parsed.url)}, and {wheel.file} of an index is locked"
        elif wheel.direct_url is not None and _plain(parsed.url) != _plain(wheel.direct_url):
            yield f"{requirement.origin}: {_plain(parsed.url)}, and {_plain(wheel.direct_url)} is locked"


def _violated(requirements: Iterable[tuple[Requirement, Pep508]], wheels: Mapping[str, LockedWheel]) -> Iterator[str]:
    """The specifiers that the locked version does not meet."""
    for requirement, parsed in requirements:
        wheel = wheels.get(canonicalize_name(parsed.name))
        if wheel is not None and not parsed.specifier.contains(Version(wheel.version), prereleases=True):
            yield f"{requirement.origin}: {requirement.text}, and {wheel.name} {wheel.version} is locked"


def _plain(url: str) -> str:
    """A URL as locks have it: without credentials; and without fragment, which only some have."""
    return _CREDENTIALS.sub("", urldefrag(url).url)


def _misplaced(spec: EnvSpec, wheel: LockedWheel) -> Iterator[str]:
    indexes = {index.name for index in spec.indexes}
    if wheel.index not in OWN_INDEXES | indexes:
        yield f"{wheel.name} is locked from the index {wheel.index}, which is not in the specification"
    alone = {name: index.name for index in spec.indexes for name in index.packages}
    if wheel.name in alone and wheel.index not in OWN_INDEXES - {"default"} | {alone[wheel.name]}:
        yield f"{wheel.name} is to come from the index {alone[wheel.name]} alone, and is locked from {wheel.index}"


def _holding(
    requirements: Iterable[Requirement], lock: Lock, platform: Platform
) -> Iterator[tuple[Requirement, Pep508]]:
    """The requirements that hold on a platform, parsed. One that cannot be read never got into a lock: left out."""
    target = Target(python=lock.python, python_full=lock.python_full, machine=platform.machine, glibc=lock.base.glibc)
    environment = target.environment()
    for requirement in requirements:
        try:
            parsed = Pep508(requirement.text)
            holds = parsed.marker is None or parsed.marker.evaluate(environment)
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            continue
        if holds:
            yield requirement, parsed


def _base(spec: EnvSpec, lock: Lock) -> Iterator[str]:
    if spec.base.debian != lock.base.suite:
        yield f"base.debian: {spec.base.debian} is asked for, and {lock.base.suite} is locked"
    wanted = base_packages(spec, lock.wheels)
    present = {deb.name: deb.requested for deb in lock.base.debs}
    # A package that another one provides is locked under that one's name, with the reason of what was asked for.
    reasons = set(present.values())
    for name, reason in wanted.items():
        changed = reason == "spec" and lock.spec != spec.digest
        if name not in present and (reason not in reasons or changed):
            yield f"base: {name} is asked for ({reason}), and is not locked"
    for name, why in present.items():
        if why == "spec" and name not in wanted and lock.spec != spec.digest:
            yield f"base: {name} is locked as asked for, and is not asked for any more"


def _target(spec: EnvSpec, lock: Lock) -> Iterator[str]:
    for platform in _common(spec, lock):
        contract = lock.contract_for(platform)
        wheels = lock.wheels_for(platform)
        torch = torch_of(wheels)
        for mismatch in judge(contract, spec.target, torch=torch.version if torch else None):
            title = f"torch {torch.version}" if torch else "what is locked"
            yield f"target: {title} for {platform} {mismatch.words}"
        derived = with_cuda(derive_contract(wheels, platform), conda_cuda(lock.conda_for(platform)))
        if (contract.cuda, contract.driver) != (derived.cuda, derived.driver):
            yield f"contract: that of {platform} is not the one that the locked wheels have"


def _common(spec: EnvSpec, lock: Lock) -> tuple[Platform, ...]:
    return tuple(platform for platform in lock.platforms if platform in spec.platforms)
