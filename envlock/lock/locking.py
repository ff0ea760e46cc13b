"""`lock_environment`: a specification to a whole lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from packaging.version import Version

from envlock.errors import FaultyInput, Unsatisfiable
from envlock.lock.conda.sides import CondaSide, conda_cuda, refuse_both_sides, without_conda
from envlock.lock.contract import torch_of
from envlock.lock.debian.suite import SuiteFacts, facts_of
from envlock.lock.fitting import Fitted, Resolve, fit
from envlock.lock.model import Concession, Lock, LockedBase, LockedCondaPackage, LockedDeb, LockedWheel, MadeBy
from envlock.lock.needs import base_packages, needs_of_wheels, requirements_with_access
from envlock.lock.wheels.resolve import WheelRequest
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS, Progress
from envlock.spec.model import EnvSpec, Requirement

__all__ = ["Suite", "Upgrade", "lock_environment", "merge_wheels"]


class Suite(Protocol):
    """What is asked of a Debian suite; `lock.debian.suite.DebianSuite` answers."""

    @property
    def name(self) -> str:
        """Its codename."""

    def facts(self, *, pins: Iterable[LockedDeb] = ()) -> SuiteFacts:
        """Interpreter and C library."""

    def close(self, wanted: Mapping[str, str], *, pins: Iterable[LockedDeb] = ()) -> tuple[LockedDeb, ...]:
        """The packages (name -> reason) and all that they need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """Whose pins are let go: everyone's, or those of some wheels and Debian packages, by (normalised) name."""

    everything: bool = False
    packages: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Kept:
    """What an earlier lock has to say."""

    spec: EnvSpec
    previous: Lock | None
    upgrade: Upgrade

    @property
    def _pinning(self) -> Lock | None:
        return None if self.upgrade.everything else self.previous

    @property
    def same_spec(self) -> bool:
        """Whether it was made from the same specification: then what was conceded then is conceded still."""
        return self._pinning is not None and self._pinning.spec == self.spec.digest

    def wheels(self, platform: Platform) -> tuple[LockedWheel, ...]:
        """The wheels whose pins are kept."""
        known = () if self._pinning is None else self._pinning.wheels_for(platform)
        return tuple(wheel for wheel in known if wheel.name not in self.upgrade.packages)

    def debs(self, suite: Suite) -> tuple[LockedDeb, ...]:
        """The Debian packages whose pins are kept; those of another suite are no pins."""
        if self._pinning is None or self._pinning.base.suite != suite.name:
            return ()
        return tuple(deb for deb in self._pinning.base.debs if deb.name not in self.upgrade.packages)

    @property
    def concessions(self) -> tuple[Concession, ...]:
        """What was conceded, of pins that are kept."""
        known = () if self._pinning is None else self._pinning.concessions
        return tuple(item for item in known if item.package not in self.upgrade.packages)

    def alone(self, platform: Platform) -> Mapping[str, str]:
        """The indexes of the spec that pinned wheels came from, so that they are looked for there again.

        What comes from one index goes together: where some of it is let go, all of it is looked for freely.
        """
        if not self.same_spec or self.previous is None:
            return {}
        let_go = {wheel.index for wheel in self.previous.wheels if wheel.name in self.upgrade.packages}
        names = {index.name for index in self.spec.indexes} - let_go
        bound = {name for index in self.spec.indexes for name in index.packages}
        wheels = self.wheels(platform)
        return {wheel.name: wheel.index for wheel in wheels if wheel.index in names and wheel.name not in bound}


@dataclass(slots=True)
class _Work:
    """One locking under way."""

    spec: EnvSpec
    kept: _Kept
    suite: Suite
    resolve: Resolve
    progress: Progress
    conda: CondaSide | None = None
    fitted: dict[Platform, Fitted] = field(default_factory=dict)

    def request(self, platform: Platform, facts: SuiteFacts) -> WheelRequest:
        """What to resolve for one platform, with all pins."""
        spec = self.spec
        kept = self.kept.wheels(platform)
        return WheelRequest(
            requirements=requirements_with_access(spec),
            constraints=(*spec.python.constraints, *self._of_conda(platform)),
            platform=platform,
            python=self.python(facts)[0],
            python_full=self.python(facts)[1],
            glibc=facts.glibc,
            resolver=spec.python.resolver,
            exclude_newer=spec.python.exclude_newer,
            allow_sdist=spec.python.allow_sdist,
            allow_pure_sdist=spec.python.allow_pure_sdist,
            pins=self._other_platforms() | {wheel.name: wheel.version for wheel in kept},
            spec_folder=spec.file.parent,
            previous=kept,
            alone=self.kept.alone(platform),
            conda_cuda=None if self.conda is None else conda_cuda(_on(self.conda, platform)),
        )

    def python(self, facts: SuiteFacts) -> tuple[str, str]:
        """X.Y and full version of the interpreter: conda's where it has one."""
        full = None if self.conda is None else self.conda.locked.python
        return (facts.python, facts.python_full) if full is None else (".".join(full.split(".")[:2]), full)

    def _of_conda(self, platform: Platform) -> tuple[Requirement, ...]:
        """Constraints that keep wheels to the versions that conda brings."""
        texts = () if self.conda is None else self.conda.constraints(platform)
        return tuple(Requirement(text=text, origin="[conda]") for text in texts)

    def fit(self, platform: Platform, facts: SuiteFacts) -> Fitted:
        """Resolve for one platform."""
        request = self.request(platform, facts)
        conceded = () if self.kept.same_spec else tuple(item.package for item in self.kept.concessions)
        wished = {name: version for name, version in request.pins.items() if name not in conceded}
        fitted = fit(request, self.spec, resolve=self.resolve, wished=wished, progress=self.progress)
        if self.conda is not None:
            refuse_both_sides(fitted.wheels, self.conda, platform)
            fitted = replace(fitted, wheels=without_conda(fitted.wheels, self.conda, platform))
        if not fitted.concessions and self.kept.same_spec:
            # The pins already are what the target takes. What they cost is known from when they were chosen.
            locked = {(wheel.name, wheel.version) for wheel in fitted.wheels}
            known = (item for item in self.kept.concessions if (item.package, item.got) in locked)
            fitted = replace(fitted, concessions=tuple(known))
        self.fitted[platform] = fitted
        return fitted

    def _other_platforms(self) -> dict[str, str]:
        """The versions chosen for the platforms before, but for what depends on the platform: so that they agree."""
        found: dict[str, str] = {}
        for fitted in self.fitted.values():
            conceded = {item.package for item in fitted.concessions}
            for wheel in fitted.wheels:
                if wheel.name not in conceded and Version(wheel.version).local is None:
                    found.setdefault(wheel.name, wheel.version)
        return found


def lock_environment(
    spec: EnvSpec,
    previous: Lock | None,
    *,
    wheels: Resolve,
    suite: Suite,
    upgrade: Upgrade,
    made_by: str,
    progress: Progress = NO_PROGRESS,
    conda: CondaSide | None = None,
) -> Lock:
    """Lock everything: the wheels of each platform, so that the target runs them, and the base under them.

    `previous` is the lock that is there already; its pins are kept but for `upgrade`. `made_by` is envlock's version.
    `conda` is the conda side, which is locked before.
    Raises Unsatisfiable ("contract-unmet", "python-not-in-suite", and what resolving raises), FaultyInput
    ("unknown-package": nothing of that name is there to upgrade).
    """
    kept = _Kept(spec, previous, upgrade)
    pinned_debs = kept.debs(suite)
    facts = suite.facts(pins=pinned_debs)
    work = _Work(spec, kept, suite, wheels, progress, conda)
    _require_python(spec, suite, facts, None if conda is None else conda.locked.python)
    fitted = [work.fit(platform, facts) for platform in sorted(spec.platforms)]
    merged = merge_wheels(wheel for one in fitted for wheel in one.wheels)
    debs = suite.close(base_packages(spec, merged), pins=pinned_debs)
    _tell(spec, fitted, progress)
    lock = Lock(
        name=spec.name,
        spec=spec.digest,
        made_by=MadeBy(envlock=made_by, resolver=fitted[0].resolver, resolver_version=fitted[0].resolver_version),
        python=work.python(facts)[0],
        platforms=tuple(sorted(spec.platforms)),
        base=_base(suite, debs),
        wheels=merged,
        contracts=tuple(one.contract for one in fitted),
        concessions=_merge_concessions(fitted),
        conda=None if conda is None else conda.locked,
    )
    _require_known(upgrade, lock, previous)
    return lock


def merge_wheels(wheels: Iterable[LockedWheel]) -> tuple[LockedWheel, ...]:
    """The same file for several platforms as one wheel, all sorted by (name, version, file)."""
    merged: dict[tuple[str, str, str, str], LockedWheel] = {}
    for wheel in wheels:
        key = (wheel.name, wheel.version, wheel.file, wheel.sha256.hex)
        if key in merged:
            known = merged[key]
            merged[key] = replace(
                known,
                platforms=tuple(sorted({*known.platforms, *wheel.platforms})),
                requested=known.requested or wheel.requested,
                requires=tuple(sorted({*known.requires, *wheel.requires})),
            )
        else:
            merged[key] = wheel
    return tuple(sorted(merged.values(), key=lambda wheel: (wheel.name, wheel.version, wheel.file)))


def _on(side: CondaSide, platform: Platform) -> tuple[LockedCondaPackage, ...]:
    return tuple(package for package in side.locked.packages if platform in package.platforms)


def _require_python(spec: EnvSpec, suite: Suite, facts: SuiteFacts, conda: str | None) -> None:
    if conda is not None:
        if not conda.startswith(f"{spec.python_version}."):
            raise Unsatisfiable(
                f"{spec.file}: python is {spec.python_version}, and the conda side has Python {conda}",
                hint=f'Write python = "{".".join(conda.split(".")[:2])}" in [env].',
                code="python-not-in-conda",
            )
        return
    if facts.python != spec.python_version:
        raise Unsatisfiable(
            f"{spec.file}: python is {spec.python_version}, and Debian {suite.name} has Python {facts.python}",
            hint=f'Write python = "{facts.python}" in [env], or name another suite in [base].',
            code="python-not-in-suite",
        )


def _base(suite: Suite, debs: tuple[LockedDeb, ...]) -> LockedBase:
    facts = facts_of(debs)
    return LockedBase(suite=suite.name, python=facts.python_full, glibc=facts.glibc, debs=debs)


def _merge_concessions(fitted: Sequence[Fitted]) -> tuple[Concession, ...]:
    distinct = {concession for one in fitted for concession in one.concessions}
    return tuple(sorted(distinct, key=lambda item: (item.package, item.wanted, item.got, item.reason)))


def _tell(spec: EnvSpec, fitted: Sequence[Fitted], progress: Progress) -> None:
    """Say what was added to the base, and what could not be judged."""
    installed = {wheel.name: wheel for one in fitted for wheel in one.wheels}
    for need in needs_of_wheels(installed.values()):
        added = [name for name in need.debs if name not in spec.base.packages]
        if added:
            wheel = min(need.wheels & installed.keys())
            progress.say(f"{wheel} {need.words}: added {_listed(added)} to the base")
    if spec.access.ssh and "openssh-server" not in spec.base.packages:
        progress.say("ssh is asked for: added openssh-server to the base")
    for one in fitted:
        contract = one.contract
        torch = torch_of(one.wheels)
        if torch is not None and contract.cuda is None and spec.target.cuda != "cpu":
            progress.say(f"torch {torch.version} for {contract.platform} is built without CUDA: it runs on the CPU")
        elif not contract.architectures_known:
            title = f"torch {torch.version}" if torch is not None else f"a set of wheels with CUDA {contract.cuda}"
            progress.say(
                f"which GPUs {title} for {contract.platform} has code for is not known to this envlock, "
                "so GPUs are not judged"
            )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _require_known(upgrade: Upgrade, lock: Lock, previous: Lock | None) -> None:
    known: set[str] = set()
    for one in (lock, previous):
        if one is not None:
            known |= {wheel.name for wheel in one.wheels} | {deb.name for deb in one.base.debs}
            known |= {package.name for package in one.conda.packages} if one.conda is not None else set()
    unknown = sorted(upgrade.packages - known)
    if unknown:
        raise FaultyInput(
            f"nothing named {_listed(unknown)} is locked, so it cannot be upgraded",
            hint="Name wheels or Debian packages of the lock; `envlock lock` alone adds what is new in envlock.toml.",
            code="unknown-package",
        )
