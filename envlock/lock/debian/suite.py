"""A Debian suite as an environment's base: its facts, and the locked closure of what is wanted of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from envlock.errors import EnvlockError, MachineLacks
from envlock.fetch.apt import MAIN, SECURITY, AptSettings
from envlock.fetch.download import Downloader
from envlock.fetch.http import Http
from envlock.fetch.store import Store
from envlock.lock.debian.indexes import index_files, read_indexes
from envlock.lock.debian.merged import MergedIndex, python_minor
from envlock.lock.debian.packages import Package, PackageIndex
from envlock.lock.debian.pinning import close_keeping
from envlock.lock.debian.release import Release, Source, Web, read_release, require_architectures
from envlock.lock.debian.signature import Trust
from envlock.lock.debian.version import Version
from envlock.lock.model import LockedDeb
from envlock.platforms import Platform
from envlock.progress import Progress

__all__ = ["DebianSuite", "SuiteFacts", "facts_of", "open_suite"]

_ROLLING = frozenset({"sid", "unstable", "experimental"})  # suites without updates or security beside them
_COMPONENT = "main"
_AT_ONCE = 4
_PYTHON_FULL = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?")
_GLIBC = re.compile(r"[0-9]+\.[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFacts:
    """What wheels are checked against: interpreter ("3.13" and "3.13.5") and C library ("2.41")."""

    python: str
    python_full: str
    glibc: str


class DebianSuite:
    """A suite with its updates and security updates, for some platforms. `name` is its codename."""

    def __init__(self, name: str, indexes: Mapping[Platform, MergedIndex]) -> None:
        self.name = name
        self._indexes = dict(indexes)

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """The platforms that closures are made for."""
        return tuple(sorted(self._indexes))

    def facts(self, *, pins: Iterable[LockedDeb] = ()) -> SuiteFacts:
        """The facts of a base with just an interpreter in it, with an earlier lock's versions where given."""
        return facts_of(self.close({"python3": "python"}, pins=pins))

    def close(self, wanted: Mapping[str, str], *, pins: Iterable[LockedDeb] = ()) -> tuple[LockedDeb, ...]:
        """Everything that the wanted packages (name -> reason) and the Essential ones need, on every platform.

        `pins` are the packages of an earlier lock whose versions are kept where they can be: see `pinning`. The
        same file on several platforms is one LockedDeb. `requested` is the reason for wanted packages, "essential"
        for Essential ones, and None for what these need. Sorted by name, version and pool path. Raises Unsatisfiable
        "unknown-package", "unmet-dependency" or "package-conflict".
        """
        kept = tuple(pins)
        merged: dict[LockedDeb, tuple[Platform, ...]] = {}
        for platform in self.platforms:
            for deb in self._close_one(platform, wanted, kept):
                merged[deb] = (*merged.get(deb, ()), platform)
        debs = (replace(deb, platforms=platforms) for deb, platforms in merged.items())
        return tuple(sorted(debs, key=lambda deb: (deb.name, deb.version, deb.pool)))

    def _close_one(
        self, platform: Platform, wanted: Mapping[str, str], pins: Sequence[LockedDeb]
    ) -> Iterable[LockedDeb]:
        index = self._indexes[platform]
        reasons = dict.fromkeys(index.essential, "essential") | dict(wanted)
        chosen = close_keeping(
            index,
            reasons,
            {deb.name: deb for deb in pins if platform in deb.platforms},
            where=f"Debian {self.name} for {platform.architecture}",
        )
        names = {package.name for package in chosen}
        for package in chosen:
            provided = (reasons[p.name] for p in package.provides if p.name in reasons and p.name not in names)
            yield _locked(package, reasons.get(package.name) or next(provided, None))


def facts_of(debs: Iterable[LockedDeb]) -> SuiteFacts:
    """The facts of a locked base; where platforms differ, the lower ones. ValueError without python3 or libc6."""
    versions: dict[str, list[Version]] = {}
    for deb in debs:
        versions.setdefault(deb.name, []).append(Version.parse(deb.version))
    if "python3" not in versions or "libc6" not in versions:
        raise ValueError("a base without python3 or libc6")
    python = python_minor(min(versions["python3"]).text)
    exact = min(versions.get(f"python{python}", versions["python3"])).upstream.replace("~", "")
    full = _PYTHON_FULL.match(exact)
    glibc = _GLIBC.match(min(versions["libc6"]).upstream)
    if not full or not glibc:
        raise ValueError(f"versions that tell no facts: python3 {exact}, libc6 {versions['libc6'][0]}")
    return SuiteFacts(python=python, python_full=full[0], glibc=glibc[0])


def open_suite(
    suite: str,
    platforms: Iterable[Platform],
    *,
    archives: AptSettings,
    http: Http,
    store: Store,
    progress: Progress,
    now: datetime,
) -> DebianSuite:
    """Read a suite (by codename or by "stable" and the like), its updates and its security updates, all verified.

    `now` (with a time zone) is what Valid-Until is held against. Raises what `read_release` and `read_indexes`
    raise, and Unsatisfiable "debian-architecture-missing".
    """
    wanted = tuple(dict.fromkeys(platforms))
    heads = _heads(suite, _Reader(archives, http, store, now))
    for source, release in heads:
        require_architectures(release, source, [platform.architecture for platform in wanted])
    jobs = [
        (platform, file)
        for platform in wanted
        for source, release in heads
        for file in index_files(source, release, component=_COMPONENT, architecture=platform.architecture)
    ]
    downloader = Downloader(store, http, workers=_AT_ONCE, progress=progress)
    files = [file for _, file in jobs]
    read = read_indexes(files, downloader=downloader, store=store, progress=progress, workers=_AT_ONCE)
    by_platform: dict[Platform, list[PackageIndex]] = {platform: [] for platform in wanted}
    for (platform, _), index in zip(jobs, read, strict=True):
        by_platform[platform].append(index)
    name = heads[0][1].codename
    title = f"Debian {name}"
    return DebianSuite(name, {platform: MergedIndex(found, title=title) for platform, found in by_platform.items()})


def _heads(suite: str, reader: _Reader) -> list[tuple[Source, Release]]:
    """The releases of a suite and of what stands beside it, the suite itself first."""
    main = reader.head((MAIN, suite))
    codename = main[1].codename
    if codename != suite:
        # "stable" and its like are links, and caches on the way see them move at other times than the codename.
        main = reader.head((MAIN, codename))
    if codename in _ROLLING:
        return [main]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [main, *pool.map(reader.head, [(MAIN, f"{codename}-updates"), (SECURITY, f"{codename}-security")])]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the signed heads of suites."""

    archives: AptSettings
    web: Web
    store: Store
    now: datetime

    def head(self, place: tuple[str, str]) -> tuple[Source, Release]:
        """The release of the first mirror that answers and has the suite; a wrong signature ends the search."""
        archive, suite = place
        trust = Trust(keyrings=self.archives.keyrings, keys=self.archives.keys)
        faults: list[EnvlockError] = []
        for url in self.archives.urls(archive):
            source = Source(archive=archive, url=url, suite=suite, trust=trust)
            try:
                return source, read_release(source, web=self.web, store=self.store, now=self.now)
            except EnvlockError as exc:
                if not isinstance(exc, MachineLacks) and exc.code != "unknown-suite":
                    raise
                faults.append(exc)
        raise faults[0]


def _locked(package: Package, reason: str | None) -> LockedDeb:
    return LockedDeb(
        name=package.name,
        version=package.version,
        architecture=package.architecture,
        archive=package.archive,
        pool=package.pool,
        size=package.size,
        sha256=package.sha256,
        platforms=(),
        requested=reason,
    )
