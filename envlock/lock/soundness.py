"""What must hold between the values of a lock, each of which is well-formed by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from envlock.lock.model import (
    BuildRequirement,
    BuiltFrom,
    HostContract,
    Lock,
    LockedCondaPackage,
    LockedDeb,
    LockedWheel,
)
from envlock.spec.model import OWN_INDEXES

__all__ = ["unsound"]

_NO_INDEXES = OWN_INDEXES - {"default"}


def unsound(lock: Lock) -> Iterator[str]:
    """Every fault, with the key path it stands at, in the order of `lock`'s tuples."""
    yield from _contracts(lock)
    names = {wheel.name for wheel in lock.wheels}
    for at, wheel in enumerate(lock.wheels):
        yield from _wheel(wheel, f"wheel[{at}]", names)
    yield from _twice(("wheel", wheel.name, wheel.file, wheel.platforms) for wheel in lock.wheels)
    for at, deb in enumerate(lock.base.debs):
        yield from _deb(deb, f"base.deb[{at}]")
    for at, package in enumerate(lock.conda.packages if lock.conda is not None else ()):
        yield from _conda_package(package, f"conda.package[{at}]")
    packages = lock.conda.packages if lock.conda is not None else ()
    yield from _twice(
        ("conda.package", item.name, f"{item.channel} {item.subdir}/{item.file}", item.platforms) for item in packages
    )
    yield from _twice(("base.deb", deb.name, deb.pool, deb.platforms) for deb in lock.base.debs)


def _contracts(lock: Lock) -> Iterator[str]:
    found = [contract.platform for contract in lock.contracts]
    for platform in lock.platforms:
        if found.count(platform) != 1:
            yield f"contract is there {found.count(platform)} times for {platform}; it must be there once"
    for at, contract in enumerate(lock.contracts):
        if contract.platform not in lock.platforms:
            yield f"contract[{at}].platform is {contract.platform}, which the lock is not for"
        yield from _architectures(contract, f"contract[{at}]")


def _architectures(contract: HostContract, at: str) -> Iterator[str]:
    if contract.driver is not None and contract.cuda is None:
        yield f"{at}.driver is there without a cuda"
    if not contract.architectures_known and (contract.cubin or contract.ptx):
        yield f"{at}.architectures-known is false, and cubin or ptx are given"


def _wheel(wheel: LockedWheel, at: str, names: set[str]) -> Iterator[str]:
    yield from _named(wheel, at)
    given = {"local": wheel.path is not None, "built": wheel.built_from is not None}
    keys = {"direct": "direct-url", "local": "path", "built": "built-from"}
    # What was built from a place that the specification names has that place's URL beside its source.
    given["direct"] = wheel.direct_url is not None and wheel.index != "built"
    for index, there in given.items():
        if (wheel.index == index) != there:
            yield f'{at}.index is "{wheel.index}" {"with" if there else "without"} {keys[index]}'
    for name in wheel.requires:
        if name not in names:
            yield f"{at}.requires has {name}, which is not locked"
    if wheel.built_from is not None:
        yield from _built_from(wheel.built_from, f"{at}.built-from")


def _built_from(source: BuiltFrom, at: str) -> Iterator[str]:
    sdist = (source.file, source.size, source.sha256, source.index)
    from_sdist = None not in sdist and source.commit is None and source.subdirectory is None
    from_git = None not in (source.url, source.commit) and sdist == (None, None, None, None)
    if not (from_sdist or from_git):
        yield f"{at} must have either file, size, sha256 and index of a source distribution, or url and commit of git"
    if from_sdist and (source.url is not None) != (source.index == "direct"):
        yield f'{at}.url goes with the index "direct" alone'
    for index, requirement in enumerate(source.requires):
        yield from _named(requirement, f"{at}.requires[{index}]")
        if requirement.index in _NO_INDEXES:
            yield f'{at}.requires[{index}].index is "{requirement.index}"; build requirements come from indexes'
    yield from _twice((f"{at}.requires", item.name, item.file, ()) for item in source.requires)


def _named(wheel: LockedWheel | BuildRequirement, at: str) -> Iterator[str]:
    """A wheel's file says the name and the version that the lock gives it."""
    name, version, _, _ = parse_wheel_filename(wheel.file)
    if canonicalize_name(name) != wheel.name:
        yield f"{at}.file is of {canonicalize_name(name)}, not of {wheel.name}"
    if version != Version(wheel.version):
        yield f"{at}.file is of version {version}, not {wheel.version}"


def _deb(deb: LockedDeb, at: str) -> Iterator[str]:
    if deb.architecture != "all" and {platform.architecture for platform in deb.platforms} != {deb.architecture}:
        yield f"{at}.architecture is {deb.architecture}, which does not fit {', '.join(deb.platforms)}"


def _conda_package(package: LockedCondaPackage, at: str) -> Iterator[str]:
    stem = f"{package.name}-{package.version}-{package.build}"
    if package.file not in {f"{stem}.conda", f"{stem}.tar.bz2"}:
        yield f"{at}.file is {package.file}, which is not {stem}"
    if package.subdir != "noarch" and {platform.conda for platform in package.platforms} != {package.subdir}:
        yield f"{at}.subdir is {package.subdir}, which does not fit {', '.join(package.platforms)}"


def _twice(found: Iterable[tuple[str, str, str, Iterable[object]]]) -> Iterator[str]:
    """The same file twice, or one name twice on a platform."""
    files: dict[str, int] = {}
    places: dict[tuple[str, object], int] = {}
    for at, (kind, name, file, platforms) in enumerate(found):
        if file in files:
            yield f"{kind}[{at}] is {file} again, after {kind}[{files[file]}]"
            continue
        files[file] = at
        for platform in tuple(platforms) or ("",):
            if (name, platform) in places:
                again = f" for {platform}" if platform else ""
                yield f"{kind}[{at}] is {name}{again} again, after {kind}[{places[name, platform]}]"
            places.setdefault((name, platform), at)
