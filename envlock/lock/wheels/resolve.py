"""Requirements -> pinned, hashed wheels for one platform: the front of this room."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version

from envlock.errors import FaultyInput
from envlock.fetch.model import IndexFile, IndexUrl
from envlock.fetch.simple import IndexClient
from envlock.fetch.store import Store
from envlock.lock.model import LockedWheel
from envlock.lock.wheels.asks import Ask, prerelease_names, read_asks, versions_pinned
from envlock.lock.wheels.build_needs import BuildNeeds
from envlock.lock.wheels.builder import Builder
from envlock.lock.wheels.catalogue import Catalogue, Ready, Routes
from envlock.lock.wheels.consult import Consultation, consult
from envlock.lock.wheels.direct import Directs, without_urls
from envlock.lock.wheels.git import Git
from envlock.lock.wheels.graph import needs_of
from envlock.lock.wheels.interpreter import Interpreter, ask_interpreter
from envlock.lock.wheels.metadata import WheelMetadata, read_wheel_metadata
from envlock.lock.wheels.offers import Rules
from envlock.lock.wheels.pip_tools import PipTools
from envlock.lock.wheels.resolver import Resolver
from envlock.lock.wheels.sizes import size_of
from envlock.lock.wheels.tags import Fit
from envlock.lock.wheels.target import Target
from envlock.lock.wheels.uv import Uv
from envlock.lock.wheels.workshop import Rebuilder, Workshop
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS, Progress
from envlock.spec.model import IndexSpec, Requirement

__all__ = ["Resolution", "WheelRequest", "WheelResolver"]

_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelRequest:
    """What is to be resolved for one platform.

    `python` is "3.13", `python_full` "3.13.5", `glibc` "2.41". `pins` (normalised name -> version) are kept wherever
    the requirements allow; leave out what is to be upgraded. `previous` are the wheels of the lock that `pins` come
    from: what was found out then (commits of git refs, build requirements, computed hashes) is kept for the names in
    `pins` too. `alone` (name -> name of an [[index]]) adds to what the spec's own `packages` say. `conda_cuda` is the
    CUDA runtime (X.Y) that conda packages bring beside the wheels.
    """

    requirements: tuple[Requirement, ...]
    constraints: tuple[Requirement, ...]
    platform: Platform
    python: str
    python_full: str
    glibc: str
    resolver: str
    exclude_newer: str | None
    allow_sdist: frozenset[str]
    allow_pure_sdist: bool
    pins: Mapping[str, str]
    spec_folder: Path
    previous: tuple[LockedWheel, ...] = ()
    alone: Mapping[str, str] = field(default_factory=dict)
    conda_cuda: str | None = None

    @property
    def target(self) -> Target:
        """What wheels must fit."""
        return Target(
            python=self.python, python_full=self.python_full, machine=self.platform.machine, glibc=self.glibc
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The wheels, sorted by (name, version, file), each for the request's platform; and who chose them."""

    wheels: tuple[LockedWheel, ...]
    resolver: str
    resolver_version: str


class WheelResolver:
    """Resolves requests over the user's indexes and the spec's.

    `indexes` are the user's own places in their order, `spec_indexes` the [[index]] entries. `python` is the
    interpreter that builds from source run on.
    """

    def __init__(
        self,
        *,
        client: IndexClient,
        store: Store,
        indexes: Sequence[IndexUrl],
        spec_indexes: Sequence[IndexSpec] = (),
        environ: Mapping[str, str],
        python: Path = Path(sys.executable),
        progress: Progress = NO_PROGRESS,
    ) -> None:
        self._client = client
        self._store = store
        self._user_indexes = tuple(indexes)
        self._specs = tuple(spec_indexes)
        self._environ = environ
        self._python = python
        self._progress = progress
        self._asked: Interpreter | None = None
        self._guard = threading.Lock()
        self._rebuilder = Rebuilder(
            client=client,
            store=store,
            indexes=(*self._user_indexes, *(IndexUrl(name=spec.name, url=spec.url) for spec in spec_indexes)),
            environ=environ,
            python=python,
            progress=progress,
        )

    def resolve(self, request: WheelRequest) -> Resolution:
        """Choose, find out hashes, build what is to be built.

        Raises Unsatisfiable ("no-resolution", "build-failed", "needs-compiler", "wheel-misfit", ...), FaultyInput
        (requirements, URLs, artefacts), MachineLacks (network, disk, programs).
        """
        resolver = self._resolver(request.resolver)
        asks = read_asks(request.requirements, request.target)
        constraints = read_asks(request.constraints, request.target)
        routes = self._routes(request)
        rules = _rules(request, asks, constraints)
        workshop = self._workshop(request, routes, rules)
        direct = self._direct(request, (*asks, *constraints), workshop)
        catalogue = Catalogue(
            client=self._client,
            routes=routes,
            rules=rules,
            fit=Fit(request.target),
            direct=direct,
            build=lambda name, offer: _plain(workshop.build_offer(name, offer), direct),
            known=tuple(_kept(request).values()),
            size_of=self._size_of,
        )
        consultation = Consultation(
            asks=asks,
            constraints=constraints,
            pins=request.pins,
            direct={name: ready.wheel.version for name, ready in direct.items()},
            allowed=request.allow_sdist,
            indexes=tuple(str(index) for index in routes.indexes),
            label=f"resolving for {request.platform} with {resolver.name}",
        )
        chosen = consult(resolver, catalogue, consultation, store=self._store, progress=self._progress)
        return Resolution(
            wheels=_wheels(catalogue, chosen, asks, request, resolver.name),
            resolver=resolver.name,
            resolver_version=resolver.version,
        )

    def rebuild(self, wheel: LockedWheel) -> Path:
        """The path of a locked wheel with `built_from`, built here unless the store has it; see `Rebuilder`."""
        return self._rebuilder.rebuild(wheel)

    @property
    def _host(self) -> Interpreter:
        with self._guard:
            if self._asked is None:
                self._asked = ask_interpreter(self._python, self._environ)
            return self._asked

    def _resolver(self, name: str) -> Resolver:
        makers: dict[str, Callable[[], Resolver]] = {
            "uv": lambda: Uv(self._environ, python=self._python),
            "pip-tools": lambda: PipTools(self._environ, ask_interpreter(Path(sys.executable), self._environ)),
        }
        if name not in makers:
            raise FaultyInput(
                f"there is no resolver {name!r}", hint=f"Write one of {', '.join(makers)}.", code="no-such-resolver"
            )
        return makers[name]()

    def _routes(self, request: WheelRequest) -> Routes:
        alone = {name: self._named(spec.name) for spec in self._specs for name in spec.packages}
        alone |= {name: self._named(index) for name, index in request.alone.items()}
        rest = tuple(self._named(spec.name) for spec in self._specs if not spec.packages)
        return Routes(indexes=self._user_indexes + rest, alone=alone)

    def _named(self, name: str) -> IndexUrl:
        spec = next((spec for spec in self._specs if spec.name == name), None)
        if spec is None:
            raise FaultyInput(f"no [[index]] is named {name!r}", hint="Add it to the spec.", code="no-such-index")
        return IndexUrl(name=spec.name, url=spec.url)

    def _workshop(self, request: WheelRequest, routes: Routes, rules: Rules) -> Workshop:
        builder = Builder(
            store=self._store,
            interpreter=self._host,
            environ=self._environ,
            bring=self._rebuilder.bring,
            progress=self._progress,
        )
        needs = BuildNeeds(
            client=self._client,
            store=self._store,
            routes=routes,
            interpreter=self._host,
            # Whichever resolver the spec names: these are for this machine, and uv is sure to resolve for it.
            resolver=Uv(self._environ, python=self._python),
            rules=rules,
            constraints=request.constraints,
            size_of=self._size_of,
        )
        return Workshop(
            client=self._client,
            builder=builder,
            needs=needs,
            platform=request.platform,
            kept=_kept(request),
        )

    def _direct(self, request: WheelRequest, asks: Sequence[Ask], workshop: Workshop) -> dict[str, Ready]:
        """The wheels of requirements with URLs, by name."""
        directs = Directs(
            client=self._client,
            git=Git(self._environ),
            build=workshop.build,
            fit=Fit(request.target),
            platform=request.platform,
            spec_folder=request.spec_folder,
            kept=_kept(request),
        )
        named: dict[str, Ask] = {}
        for ask in (ask for ask in asks if ask.url):
            other = named.setdefault(ask.name, ask)
            if other.url != ask.url:
                raise FaultyInput(
                    f"{ask.name} is named at two places, by {other.origin} and by {ask.origin}",
                    hint="Keep one of them.",
                    code="direct-url",
                )
        ready = {name: directs.ready(ask) for name, ask in named.items()}
        return {name: _plain(wheel, ready) for name, wheel in ready.items()}

    def _size_of(self, file: IndexFile) -> int | None:
        return size_of(file, self._client.http)


def _rules(request: WheelRequest, asks: Sequence[Ask], constraints: Sequence[Ask]) -> Rules:
    both = (*asks, *constraints)
    limit = datetime.fromisoformat(request.exclude_newer) if request.exclude_newer else None
    return Rules(
        exclude_newer=limit.replace(tzinfo=limit.tzinfo or UTC) if limit else None,
        prereleases=prerelease_names(both),
        sources=request.allow_sdist,
        all_sources=request.allow_pure_sdist,
        pinned=versions_pinned(both, request.pins.items()),
    )


def _kept(request: WheelRequest) -> dict[str, LockedWheel]:
    """What an earlier lock found out of the packages that are not to be upgraded."""
    return {
        wheel.name: wheel
        for wheel in request.previous
        if wheel.name in request.pins and request.platform in wheel.platforms
    }


def _plain(ready: Ready, direct: Collection[str]) -> Ready:
    return replace(ready, metadata=without_urls(ready, direct))


def _wheels(
    catalogue: Catalogue, chosen: Mapping[str, Version], asks: Sequence[Ask], request: WheelRequest, resolver: str
) -> tuple[LockedWheel, ...]:
    """The chosen versions as locked wheels, sorted."""

    def read(name: str) -> tuple[LockedWheel, WheelMetadata]:
        wheel = catalogue.pick(name, chosen[name], request.platform)
        return wheel, read_wheel_metadata(catalogue.metadata(name, chosen[name]), wheel.file)

    with ThreadPoolExecutor(_THREADS) as pool:
        known = dict(zip(chosen, pool.map(read, chosen), strict=True))
    needs = needs_of(asks, chosen, lambda name: known[name][1], request.target, resolver)
    requested = {ask.name for ask in asks}
    wheels = [replace(wheel, requested=name in requested, requires=needs[name]) for name, (wheel, _) in known.items()]
    return tuple(sorted(wheels, key=lambda wheel: (wheel.name, wheel.version, wheel.file)))
