"""Resolving until the target can run what was chosen: try, judge, tighten, try again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from packaging.version import Version

from envlock.errors import Unsatisfiable
from envlock.lock.conda.sides import with_cuda
from envlock.lock.contract import derive_contract, judge, torch_of
from envlock.lock.model import Concession, HostContract, LockedWheel
from envlock.lock.nearest import contract_unmet
from envlock.lock.tightening import Attempt, next_limits, other_indexes
from envlock.lock.wheels.resolve import Resolution, WheelRequest
from envlock.progress import Progress
from envlock.spec.model import EnvSpec, Requirement

__all__ = ["Fitted", "Resolve", "fit"]

_ROUNDS = 12  # of tightening on one way; from the second on, each takes away at least one version of torch
_ORIGIN = "[target]"

Resolve = Callable[[WheelRequest], Resolution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Wheels that the target runs, who chose them, their contract, and what was given up for it."""

    wheels: tuple[LockedWheel, ...]
    resolver: str
    resolver_version: str
    contract: HostContract
    concessions: tuple[Concession, ...] = ()


def fit(
    request: WheelRequest, spec: EnvSpec, *, resolve: Resolve, wished: Mapping[str, str], progress: Progress
) -> Fitted:
    """Resolve so that `spec.target` can run what is chosen.

    `request.pins` are kept in every attempt but the first, which has the pins `wished`: those that were chosen
    freely, and not for the target's sake. Where the first attempt does not fit, the spec's other indexes and ever
    tighter limits are tried, and what has the newest torch is taken. Raises Unsatisfiable "contract-unmet" with the
    nearest choices, and what `resolve` raises.
    """
    run = _Run(request, spec, resolve)
    first = run.attempt(pins=wished)
    if not first.mismatches:
        return run.fitted(first, ())
    progress.say(f"{_told(first)} ({request.platform}): looking for what fits")
    found = [attempt for way in run.ways(first) if (attempt := run.tighten(way)) is not None]
    if not found:
        raise contract_unmet(run.tried, spec, request.platform, refusals=run.refusals)
    best = max(found, key=_torch_version)
    concessions = tuple(_concessions(first, best))
    for concession in concessions:
        progress.say(f"{concession.package} {concession.wanted} -> {concession.got}: {concession.reason}")
    return run.fitted(best, concessions)


@dataclass(slots=True)
class _Run:
    """The attempts for one platform."""

    request: WheelRequest
    spec: EnvSpec
    resolve: Resolve
    tried: list[Attempt] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)  # what the resolver said where it found nothing
    resolver: tuple[str, str] = ("", "")  # name and version

    def attempt(
        self,
        *,
        limits: Iterable[str] = (),
        alone: Mapping[str, str] | None = None,
        pins: Mapping[str, str] | None = None,
    ) -> Attempt:
        """One more resolution, judged."""
        request = self.request
        asked = replace(
            request,
            constraints=(*request.constraints, *(Requirement(text=limit, origin=_ORIGIN) for limit in limits)),
            alone={**request.alone, **(alone or {})},
            pins=request.pins if pins is None else pins,
        )
        resolution = self.resolve(asked)
        self.resolver = (resolution.resolver, resolution.resolver_version)
        contract = with_cuda(derive_contract(resolution.wheels, request.platform), request.conda_cuda)
        torch = torch_of(resolution.wheels)
        attempt = Attempt(
            wheels=resolution.wheels,
            contract=contract,
            mismatches=judge(contract, self.spec.target, torch=torch.version if torch else None),
            limits=tuple(limits),
            alone=alone or {},
        )
        self.tried.append(attempt)
        return attempt

    def ways(self, first: Attempt) -> Iterator[Attempt]:
        """Where tightening starts: at the first attempt, and at one for each other index that has torch."""
        yield first
        for alone in other_indexes(first.wheels, self.spec.indexes):
            attempt = self._unless_unsolvable(alone=alone)
            if attempt is not None:
                yield attempt

    def tighten(self, start: Attempt) -> Attempt | None:
        """The first attempt on this way that fits, if any does."""
        attempt: Attempt | None = start
        for _ in range(_ROUNDS):
            if attempt is None or not attempt.mismatches:
                return attempt
            limits = next_limits(attempt, self.spec.target)
            attempt = self._unless_unsolvable(limits=limits, alone=attempt.alone) if limits else None
        return None

    def _unless_unsolvable(self, *, alone: Mapping[str, str], limits: tuple[str, ...] = ()) -> Attempt | None:
        try:
            return self.attempt(limits=limits, alone=alone)
        except Unsatisfiable as exc:
            if exc.code != "no-resolution":
                raise
            self.refusals.append(exc.message)
            return None

    def fitted(self, attempt: Attempt, concessions: tuple[Concession, ...]) -> Fitted:
        """The end of it."""
        return Fitted(
            wheels=attempt.wheels,
            resolver=self.resolver[0],
            resolver_version=self.resolver[1],
            contract=attempt.contract,
            concessions=concessions,
        )


def _concessions(first: Attempt, taken: Attempt) -> Iterator[Concession]:
    """The packages whose version is not the one that would have been taken freely."""
    wanted = {wheel.name: wheel.version for wheel in first.wheels}
    for wheel in taken.wheels:
        before = wanted.get(wheel.name)
        if before is None or Version(before) == Version(wheel.version):
            continue
        leads = taken.torch is None or wheel.name == "torch"
        reason = _told(first) if leads else f"goes with {taken.title}"
        yield Concession(package=wheel.name, wanted=before, got=wheel.version, reason=reason)


def _told(attempt: Attempt) -> str:
    return f"{attempt.title} {'; '.join(mismatch.words for mismatch in attempt.mismatches)}"


def _torch_version(attempt: Attempt) -> Version:
    return Version(Version(attempt.torch.version).public) if attempt.torch is not None else Version("0")
