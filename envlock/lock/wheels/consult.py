"""Put one question to a resolver over a catalogue: serve it, run it, and tell its failure in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from envlock.fetch.store import Store
from envlock.lock.wheels.asks import Ask
from envlock.lock.wheels.catalogue import Catalogue
from envlock.lock.wheels.explain import Failure, no_resolution, passed_over
from envlock.lock.wheels.local_index import LocalIndex
from envlock.lock.wheels.resolver import NoAnswer, Question, Resolver
from envlock.progress import NO_PROGRESS, Progress

__all__ = ["Consultation", "consult"]

_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Consultation:
    """What is asked: `direct` maps projects that stand for one wheel to its version, `pins` are kept if possible."""

    asks: Sequence[Ask]
    constraints: Sequence[Ask] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    direct: Mapping[str, str] = field(default_factory=dict)
    allowed: frozenset[str] = frozenset()
    indexes: Sequence[str] = ()
    label: str = "resolving"


def consult(
    resolver: Resolver,
    catalogue: Catalogue,
    consultation: Consultation,
    *,
    store: Store,
    progress: Progress = NO_PROGRESS,
) -> Mapping[str, Version]:
    """The chosen versions by name. Raises Unsatisfiable "no-resolution", and what went wrong while serving."""
    direct = consultation.direct
    task = progress.start(consultation.label, total=None, unit="packages")
    try:
        pins = _living_pins(catalogue, consultation)
        with store.temporary() as folder, LocalIndex(catalogue, noticed=lambda _: task.advance(1)) as index:
            question = Question(
                requirements=sorted({ask.line(direct.get(ask.name)) for ask in consultation.asks}),
                constraints=sorted({ask.bound(direct.get(ask.name)) for ask in consultation.constraints}),
                pins=pins,
                index_url=index.url,
                target=catalogue.fit.target,
                folder=folder,
                stop=index.failed,
            )
            try:
                chosen = resolver.resolve(question)
            except NoAnswer as exc:
                if index.fault is not None:
                    raise index.fault from None
                raise no_resolution(_failure(resolver, exc, catalogue, consultation)) from None
    finally:
        task.finish()
    for line in _remarks(catalogue, consultation, chosen):
        progress.say(line)
    return dict(sorted(chosen.items()))


def _living_pins(catalogue: Catalogue, consultation: Consultation) -> dict[str, str]:
    """The pins that can still be had: pip would take any other for a requirement, and fail."""
    wanted = {name: pin for name, pin in consultation.pins.items() if name not in consultation.direct}
    with ThreadPoolExecutor(_THREADS) as pool:
        versions = dict(zip(wanted, pool.map(catalogue.versions, wanted), strict=True))
    return {name: pin for name, pin in wanted.items() if _version(pin) in (versions[name] or ())}


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _remarks(catalogue: Catalogue, consultation: Consultation, chosen: Mapping[str, Version]) -> Iterator[str]:
    """What a user should know of an answer: pins that could not be kept, newer versions that do not fit."""
    for name, pin in consultation.pins.items():
        if (
            name in chosen
            and name not in consultation.direct
            and _version(pin) not in (catalogue.versions(name) or ())
        ):
            yield f"{name} {pin} was locked and cannot be any more; {chosen[name]} takes its place"
    for name, bound in _bounds(consultation).items():
        if name in chosen and name not in consultation.direct and name not in consultation.pins:
            line = passed_over(catalogue.project(name), chosen[name], bound)
            if line is not None:
                yield line


def _failure(resolver: Resolver, said: NoAnswer, catalogue: Catalogue, consultation: Consultation) -> Failure:
    # pip stops at the first project that it cannot have: look at all, so that one run tells of all.
    bounds = _bounds(consultation)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(catalogue.project, bounds))
    return Failure(
        resolver=resolver.name,
        words=said.words,
        projects=catalogue.asked,
        target=catalogue.fit.target,
        allowed=consultation.allowed,
        bounds=bounds,
        indexes=consultation.indexes,
    )


def _bounds(consultation: Consultation) -> dict[str, SpecifierSet]:
    """What is asked of each project by name, constraints included."""
    bounds = {ask.name: SpecifierSet() for ask in consultation.asks}
    for ask in (*consultation.asks, *consultation.constraints):
        if ask.name in bounds:
            bounds[ask.name] &= ask.specifier
    return bounds
