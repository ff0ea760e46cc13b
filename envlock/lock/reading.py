"""TOML tables to a Lock: every key typed, faults collected with their key paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from envlock.lock import terms
from envlock.lock.model import (
    BuildRequirement,
    BuiltFrom,
    Concession,
    HostContract,
    Lock,
    LockedBase,
    LockedConda,
    LockedCondaPackage,
    LockedDeb,
    LockedWheel,
    MadeBy,
)
from envlock.lock.tables import Table, boolean, list_of
from envlock.platforms import Platform
from envlock.spec.model import RESOLVERS

__all__ = ["read_lock"]

_name = terms.matching(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", "an environment's name")
_index_name = terms.matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "an index's name")
_minor = terms.matching(r"[0-9]+\.[0-9]+", "a version such as 3.13")
_full = terms.matching(r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?", "a full version such as 3.13.5")
_driver = terms.matching(r"[0-9]+(?:\.[0-9]+){0,3}", "a driver's version such as 580 or 525.60.13")
_commit = terms.matching(r"[0-9a-f]{40}|[0-9a-f]{64}", "a commit in full")
_deb_name = terms.matching(r"[a-z0-9][a-z0-9+.-]+", "a Debian package's name")
_deb_version = terms.matching(r"[A-Za-z0-9.+:~-]+", "a Debian version")
_suite = terms.matching(r"[a-z0-9][a-z0-9.-]*", "a Debian suite's name")
_yml = terms.matching(r"[a-z0-9][a-z0-9._-]*\.conda-lock\.yml", "the name of a conda-lock.yml")
_conda_name = terms.matching(r"[a-z0-9_][a-z0-9_.-]*", "a conda package's name")
_conda_word = terms.matching(r"[A-Za-z0-9_.+!]+", "a version or build of conda")
_conda_file = terms.matching(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.(?:conda|tar\.bz2)", "a conda package's file")
_platforms = list_of(terms.platform, least=1)
_capabilities = list_of(terms.capability)


def read_lock(values: Mapping[str, object], faults: list[str]) -> Lock:
    """The lock, whose version is already known to be ours. With `faults` in it, what is returned means nothing."""
    table = Table(values, "", faults)
    table.require("version", terms.size)
    platforms = table.require("platforms", _platforms) or ()
    lock = Lock(
        name=table.require("name", _name),
        spec=table.require("spec", terms.digest),
        made_by=_made_by(table.table("made-by")),
        python=table.require("python", _minor),
        platforms=tuple(sorted(platforms)),
        base=_base(table.table("base"), platforms),
        wheels=tuple(_wheel(item, platforms) for item in table.tables("wheel")),
        contracts=tuple(_contract(item) for item in table.tables("contract")),
        concessions=tuple(_concession(item) for item in table.tables("concession")),
        conda=_conda(table.optional_table("conda"), platforms),
    )
    table.end()
    return lock


def _made_by(table: Table) -> MadeBy:
    made_by = MadeBy(
        envlock=table.require("envlock", terms.version),
        resolver=table.require("resolver", terms.one_of(*RESOLVERS)),
        resolver_version=table.require("resolver-version", terms.text),
    )
    table.end()
    return made_by


def _contract(table: Table) -> HostContract:
    contract = HostContract(
        platform=table.require("platform", terms.platform),
        cuda=table.take("cuda", _minor, None),
        driver=table.take("driver", _driver, None),
        architectures_known=table.require("architectures-known", boolean),
        cubin=table.require("cubin", _capabilities),
        ptx=table.require("ptx", _capabilities),
        glibc=table.require("glibc", _minor),
    )
    table.end()
    return contract


def _concession(table: Table) -> Concession:
    concession = Concession(
        package=table.require("package", terms.project),
        wanted=table.require("wanted", terms.text),
        got=table.require("got", terms.text),
        reason=table.require("reason", terms.text),
    )
    table.end()
    return concession


def _wheel(table: Table, platforms: Sequence[Platform]) -> LockedWheel:
    source = table.optional_table("built-from")
    wheel = LockedWheel(
        name=table.require("name", terms.project),
        version=table.require("version", terms.version),
        file=table.require("file", terms.wheel_file),
        size=table.require("size", terms.size),
        sha256=table.require("sha256", terms.hex_digest),
        index=table.require("index", _index_name),
        platforms=_some(table, platforms),
        hash_source=_hash_source(table),
        requested=table.take("requested", boolean, default=False),
        requires=tuple(sorted(table.take("requires", list_of(terms.project), ()))),
        direct_url=table.take("direct-url", terms.url, None),
        path=table.take("path", terms.local_path, None),
        built_from=None if source is None else _built_from(source),
    )
    table.end()
    return wheel


def _hash_source(table: Table) -> Literal["index", "computed"]:
    word = table.take("hash-source", terms.one_of("index", "computed"), "index")
    return cast("Literal['index', 'computed']", word)


def _built_from(table: Table) -> BuiltFrom:
    source = BuiltFrom(
        file=table.take("file", terms.sdist_file, None),
        size=table.take("size", terms.size, None),
        sha256=table.take("sha256", terms.hex_digest, None),
        index=table.take("index", _index_name, None),
        url=table.take("url", terms.url, None),
        commit=table.take("commit", _commit, None),
        subdirectory=table.take("subdirectory", terms.clean_path, None),
        python=table.require("python", _minor),
        requires=tuple(_build_requirement(item) for item in table.tables("requires")),
    )
    table.end()
    return source


def _build_requirement(table: Table) -> BuildRequirement:
    requirement = BuildRequirement(
        name=table.require("name", terms.project),
        version=table.require("version", terms.version),
        file=table.require("file", terms.wheel_file),
        size=table.require("size", terms.size),
        sha256=table.require("sha256", terms.hex_digest),
        index=table.require("index", _index_name),
    )
    table.end()
    return requirement


def _base(table: Table, platforms: Sequence[Platform]) -> LockedBase:
    base = LockedBase(
        suite=table.require("suite", _suite),
        python=table.require("python", _full),
        glibc=table.require("glibc", _minor),
        debs=tuple(_deb(item, platforms) for item in table.tables("deb")),
    )
    table.end()
    return base


def _deb(table: Table, platforms: Sequence[Platform]) -> LockedDeb:
    deb = LockedDeb(
        name=table.require("name", _deb_name),
        version=table.require("version", _deb_version),
        architecture=table.require("architecture", terms.one_of("amd64", "arm64", "all")),
        archive=table.require("archive", terms.one_of("debian", "debian-security")),
        pool=table.require("pool", terms.pool_path),
        size=table.require("size", terms.size),
        sha256=table.require("sha256", terms.hex_digest),
        platforms=_some(table, platforms),
        requested=table.take("requested", terms.text, None),
    )
    table.end()
    return deb


def _conda(table: Table | None, platforms: Sequence[Platform]) -> LockedConda | None:
    if table is None:
        return None
    conda = LockedConda(
        file=table.require("file", _yml),
        sha256=table.require("sha256", terms.hex_digest),
        packages=tuple(_conda_package(item, platforms) for item in table.tables("package")),
    )
    table.end()
    return conda


def _conda_package(table: Table, platforms: Sequence[Platform]) -> LockedCondaPackage:
    package = LockedCondaPackage(
        name=table.require("name", _conda_name),
        version=table.require("version", _conda_word),
        build=table.require("build", _conda_word),
        channel=table.require("channel", terms.text),
        subdir=table.require("subdir", terms.one_of("linux-64", "linux-aarch64", "noarch")),
        file=table.require("file", _conda_file),
        size=table.require("size", terms.size),
        sha256=table.require("sha256", terms.hex_digest),
        platforms=_some(table, platforms),
        requested=table.take("requested", boolean, default=False),
    )
    table.end()
    return package


def _some(table: Table, every: Sequence[Platform]) -> tuple[Platform, ...]:
    """The platforms of one artefact: all of the lock's where it names none."""
    found = table.take("platforms", _platforms, tuple(every))
    for platform in found:
        if platform not in every:
            table.fault("platforms", f"has {platform}, which the lock is not for")
    return tuple(sorted(found))
