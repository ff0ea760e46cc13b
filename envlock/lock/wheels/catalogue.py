"""The files that a lock may choose from: where each project comes from, what fits, and what a choice means."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from envlock.errors import FaultyInput
from envlock.fetch.model import IndexFile, IndexUrl
from envlock.fetch.streams import Fetched
from envlock.lock.model import LockedWheel
from envlock.lock.wheels.offers import Offer, Offers, Rules, sort_out
from envlock.lock.wheels.tags import Fit
from envlock.platforms import Platform

__all__ = ["Catalogue", "PackageIndex", "Project", "Ready", "Routes"]


class PackageIndex(Protocol):
    """What is asked of indexes; `fetch.simple.IndexClient` answers."""

    def files(self, project: str, index: IndexUrl) -> tuple[IndexFile, ...]:
        """The files of a project on one index; () where it is not known there."""

    def wheel_metadata(self, file: IndexFile) -> bytes:
        """A wheel's METADATA."""

    def whole(self, file: IndexFile) -> Fetched:
        """The file itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Which index a project comes from.

    `indexes` are tried in order, and the first that has the project is the project's: a name that someone adds to a
    later one shadows nothing. A project in `alone` comes from its index there and from no other.
    """

    indexes: tuple[IndexUrl, ...]
    alone: Mapping[str, IndexUrl]

    def places(self, project: str) -> tuple[IndexUrl, ...]:
        """The indexes to ask, in order."""
        return (self.alone[project],) if project in self.alone else self.indexes


@dataclass(frozen=True, slots=True)
class Ready:
    """A wheel that is at hand, whole: built here, or named by URL or path."""

    wheel: LockedWheel
    path: Path
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What the catalogue has of a project. `index` is None where no index knows it (or it is a direct wheel)."""

    name: str
    index: IndexUrl | None
    offers: Mapping[Version, Offer]
    direct: Ready | None = None
    found: Offers | None = None

    @property
    def versions(self) -> tuple[Version, ...]:
        """The versions that can be chosen, lowest first."""
        if self.direct is not None:
            return (Version(self.direct.wheel.version),)
        return tuple(sorted(self.offers))


class Catalogue:
    """Answers for one resolution; safe to use from several threads. Projects are read when first asked for.

    `direct` are wheels that stand for their project alone, `build` makes a wheel of an sdist that is offered,
    `known` are wheels of an earlier lock, whose computed hashes are not computed again, `size_of` finds out the
    size of a file where its index gives none, if anybody knows it.
    """

    def __init__(
        self,
        *,
        client: PackageIndex,
        routes: Routes,
        rules: Rules,
        fit: Fit,
        direct: Mapping[str, Ready],
        build: Callable[[str, Offer], Ready],
        known: Sequence[LockedWheel] = (),
        size_of: Callable[[IndexFile], int | None],
    ) -> None:
        self.fit = fit
        self._client = client
        self._routes = routes
        self._rules = rules
        self._direct = direct
        self._build = build
        self._known = {(wheel.index, wheel.file): wheel for wheel in known}
        self._size_of = size_of
        self._projects: dict[str, Project] = {}
        self._builds: dict[tuple[str, Version], Ready] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    @property
    def asked(self) -> tuple[Project, ...]:
        """The projects that were asked for so far, by name."""
        with self._guard:
            return tuple(self._projects[name] for name in sorted(self._projects))

    def project(self, name: str) -> Project:
        """What there is of a project; asks its indexes the first time. Raises what the index client raises."""
        with self._lock(f"project {name}"):
            if name not in self._projects:
                project = self._look_up(name)
                with self._guard:
                    self._projects[name] = project
            return self._projects[name]

    def versions(self, name: str) -> tuple[Version, ...] | None:
        """The versions that can be chosen; None where no index knows the project."""
        project = self.project(name)
        known = project.index is not None or project.direct is not None
        return project.versions if known else None

    def metadata(self, name: str, version: Version) -> bytes:
        """METADATA of the wheel that a choice means; builds it where it is offered from source."""
        project = self.project(name)
        if project.direct is not None:
            return project.direct.metadata
        offer = self._offer(project, version)
        if offer.source:
            return self._built(name, offer).metadata
        return self._client.wheel_metadata(offer.file)

    def pick(self, name: str, version: Version, platform: Platform) -> LockedWheel:
        """The wheel that a choice means, with its hash and size, found out where the index does not give them."""
        project = self.project(name)
        if project.direct is not None:
            return project.direct.wheel
        offer = self._offer(project, version)
        if offer.source:
            return self._built(name, offer).wheel
        file = offer.file
        sha256, size = file.sha256, file.size
        known = self._known.get((offer.index.name, file.file))
        changeable = file.url.startswith("file:")
        if sha256 is None and known is not None and size in (None, known.size) and not changeable:
            sha256, size = known.sha256, known.size
        if sha256 is None:
            whole = self._client.whole(file)
            sha256, size = whole.sha256, whole.size
        elif size is None:
            size = known.size if known is not None and known.sha256 == sha256 else self._size_of(file)
            size = size if size is not None else self._client.whole(file).size
        return LockedWheel(
            name=name,
            version=str(version),
            file=file.file,
            size=size,
            sha256=sha256,
            index=offer.index.name,
            platforms=(platform,),
            hash_source="index" if file.sha256 is not None else "computed",
        )

    def _built(self, name: str, offer: Offer) -> Ready:
        with self._lock(f"build {name} {offer.version}"):
            if (name, offer.version) not in self._builds:
                self._builds[name, offer.version] = self._build(name, offer)
            return self._builds[name, offer.version]

    def _offer(self, project: Project, version: Version) -> Offer:
        if version not in project.offers:
            raise FaultyInput(
                f"{project.name} {version} was chosen, and is not on offer",
                hint="Run it again; if it comes back, try the other resolver.",
                code="resolver-faulty",
            )
        return project.offers[version]

    def _look_up(self, name: str) -> Project:
        if name in self._direct:
            return Project(name=name, index=None, offers={}, direct=self._direct[name])
        for index in self._routes.places(name):
            files = self._client.files(name, index)
            if files:
                found = sort_out(name, files, index, self.fit, self._rules)
                return Project(name=name, index=index, offers=found.offers, found=found)
        return Project(name=name, index=None, offers={})

    def _lock(self, key: str) -> threading.Lock:
        with self._guard:
            return self._locks[key]
