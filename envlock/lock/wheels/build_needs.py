"""What a build needs, locked: wheels with hashes, chosen for the interpreter that builds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from envlock.errors import Unsatisfiable
from envlock.fetch.model import IndexFile
from envlock.fetch.store import Store
from envlock.lock.model import BuildRequirement, LockedWheel
from envlock.lock.wheels.asks import Ask, prerelease_names, read_asks, versions_pinned
from envlock.lock.wheels.catalogue import Catalogue, PackageIndex, Ready, Routes
from envlock.lock.wheels.consult import Consultation, consult
from envlock.lock.wheels.interpreter import Interpreter
from envlock.lock.wheels.offers import Offer, Rules
from envlock.lock.wheels.resolver import Resolver
from envlock.lock.wheels.tags import Fit
from envlock.platforms import Platform
from envlock.spec.model import Requirement

__all__ = ["BuildNeeds"]


class BuildNeeds:
    """Locks build requirements, the same ones once. Of `rules` only exclude-newer holds; `constraints` hold."""

    def __init__(
        self,
        *,
        client: PackageIndex,
        store: Store,
        routes: Routes,
        interpreter: Interpreter,
        resolver: Resolver,
        rules: Rules,
        constraints: Sequence[Requirement],
        size_of: Callable[[IndexFile], int | None],
    ) -> None:
        self._client = client
        self._store = store
        self._routes = routes
        self._interpreter = interpreter
        self._resolver = resolver
        self._rules = rules
        self._constraints = constraints
        self._size_of = size_of
        self._known: dict[object, tuple[BuildRequirement, ...]] = {}
        self._guard = threading.Lock()

    def lock(
        self, wanted: Sequence[str], kept: Sequence[BuildRequirement], builds: str
    ) -> tuple[BuildRequirement, ...]:
        """The wheels to install before `builds` is built, by name. `kept` are those of an earlier lock.

        Raises Unsatisfiable "build-needs", FaultyInput "requirement-faulty", and what indexes raise.
        """
        key = (tuple(sorted(wanted)), tuple(kept))
        with self._guard:
            if key not in self._known:
                self._known[key] = self._lock(sorted(wanted), kept, builds)
            return self._known[key]

    def _lock(
        self, wanted: Sequence[str], kept: Sequence[BuildRequirement], builds: str
    ) -> tuple[BuildRequirement, ...]:
        target = self._interpreter.target
        origin = f"the build requirements of {builds}"
        asks = read_asks([Requirement(text=text, origin=origin) for text in wanted], target)
        if not asks:
            return ()
        _refuse_urls(asks, builds)
        constraints = tuple(ask for ask in read_asks(self._constraints, target) if not ask.url)
        pins = {each.name: each.version for each in kept}
        rules = Rules(
            exclude_newer=self._rules.exclude_newer,
            prereleases=prerelease_names((*asks, *constraints)),
            pinned=versions_pinned((*asks, *constraints), pins.items()),
        )
        catalogue = Catalogue(
            client=self._client,
            routes=self._routes,
            rules=rules,
            fit=Fit(target),
            direct={},
            build=_refuse,
            size_of=self._size_of,
        )
        consultation = Consultation(asks=asks, constraints=constraints, pins=pins)
        try:
            chosen = consult(self._resolver, catalogue, consultation, store=self._store)
        except Unsatisfiable as exc:
            raise Unsatisfiable(
                f"what {builds} needs for being built cannot be had: {exc.message}", hint=exc.hint, code="build-needs"
            ) from exc
        # Which platform is named does not matter: it does not come into a BuildRequirement.
        wheels = [catalogue.pick(name, version, Platform.AMD64) for name, version in chosen.items()]
        return tuple(_requirement(wheel) for wheel in wheels)


def _refuse_urls(asks: Iterable[Ask], builds: str) -> None:
    by_url = [ask.name for ask in asks if ask.url]
    if by_url:
        raise Unsatisfiable(
            f"{builds} wants {', '.join(by_url)} from a URL for being built, which cannot be locked",
            hint="Choose another version of it, or build its wheel yourself and name that.",
            code="build-needs",
        )


def _requirement(wheel: LockedWheel) -> BuildRequirement:
    return BuildRequirement(
        name=wheel.name,
        version=wheel.version,
        file=wheel.file,
        size=wheel.size,
        sha256=wheel.sha256,
        index=wheel.index,
    )


def _refuse(name: str, offer: Offer) -> Ready:
    raise AssertionError(f"{name} {offer.version} was offered as a source, which the rules do not allow")
