"""What to ask of a resolver next, when the wheels that it chose do not fit the target. Pure.

Two kinds of limits are laid on the versions. Those of the *runtime* say which CUDA the target takes, by the packages
that CUDA's own version shows in; a resolver then finds the newest torch that agrees. Those of *torch* say which of
its versions are known to have code for the target's GPUs, which no metadata tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from envlock.lock.contract import Kind, Mismatch, contract_of_build, judge, runtimes, torch_of
from envlock.lock.cuda_facts import TorchBuild, lowest_driver, majors, reaches, torch_builds
from envlock.lock.model import HostContract, LockedWheel
from envlock.platforms import Platform
from envlock.spec.model import IndexSpec, TargetSpec

__all__ = ["Attempt", "describe_target", "next_limits", "other_indexes"]

_FAMILY = ("torch", "torchvision", "torchaudio")  # built together, for one CUDA, and published together
_TOOLKIT = ("cuda-toolkit", "nvidia-cuda-runtime")  # of any CUDA; nvidia-cuda-runtime-cu12 is of one major version


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one resolution came to. `limits` are the constraints it was under, beside the user's own."""

    wheels: tuple[LockedWheel, ...]
    contract: HostContract
    mismatches: tuple[Mismatch, ...]
    limits: tuple[str, ...] = ()
    alone: Mapping[str, str] = field(default_factory=dict)

    @property
    def torch(self) -> LockedWheel | None:
        """The torch in it."""
        return torch_of(self.wheels)

    @property
    def title(self) -> str:
        """What to call it."""
        cuda = f"CUDA {self.contract.cuda}" if self.contract.cuda else "no CUDA"
        return f"torch {self.torch.version} with {cuda}" if self.torch else f"a set of wheels with {cuda}"


def next_limits(attempt: Attempt, target: TargetSpec) -> tuple[str, ...]:
    """The limits to try after this attempt, those it was under included; () where there is nothing left to try."""
    limits = (*attempt.limits, *_runtime_limits(target, attempt.wheels))
    if attempt.torch is not None:
        more = _torch_limits(attempt, attempt.torch, target)
        if more is None:
            return ()
        limits = (*limits, *more)
    distinct = tuple(dict.fromkeys(limits))
    if distinct != attempt.limits:
        return distinct
    # The same limits led here, so metadata and version disagree about CUDA: go on without this version.
    return (*distinct, f"torch!={_public(attempt.torch)}") if attempt.torch is not None else ()


def _runtime_limits(target: TargetSpec, wheels: Iterable[LockedWheel]) -> tuple[str, ...]:
    """Limits by which only such CUDA runtimes are left as the target takes."""
    by_major = {major: f"nvidia-cuda-runtime-cu{major}" for major in majors()}
    if target.cuda == "cpu":
        kept: frozenset[int] = frozenset()
        limits = [f"{name}<0" for name in _TOOLKIT]
    elif target.cuda != "auto":
        kept = frozenset({int(target.cuda.partition(".")[0])})
        limits = [f"{name}=={target.cuda}.*" for name in _TOOLKIT]
        limits += [f"{by_major[major]}=={target.cuda}.*" for major in kept if major in by_major]
    elif target.driver:
        kept = frozenset(major for major in majors() if _reached(target.driver, f"{major}.0"))
        limits = [f"{name}<{max(kept, default=-1) + 1}" for name in _TOOLKIT]
    else:
        return ()
    limits += [f"{name}<0" for major, name in by_major.items() if major not in kept]
    shown = runtimes(wheels)
    others = (name for name in sorted(shown) if name not in (*_TOOLKIT, *by_major.values()))
    limits += [f"{name}<0" for name in others if int(shown[name].partition(".")[0]) not in kept]
    return tuple(limits)


def _fitting_builds(target: TargetSpec, platform: Platform, label: str | None) -> tuple[TorchBuild, ...]:
    """The known builds of torch with this local label that the target runs, newest first."""
    return tuple(
        build
        for build in _builds(platform, label)
        if not judge(contract_of_build(build, platform), target, torch=str(build.version))
    )


def other_indexes(wheels: Sequence[LockedWheel], indexes: Iterable[IndexSpec]) -> tuple[Mapping[str, str], ...]:
    """Other places to take torch and what is built with it from: for each index the packages that come from it alone.

    An index that the spec keeps for some packages is not meant for others.
    """
    bound = {name for index in indexes for name in index.packages}
    locked = {wheel.name for wheel in wheels}
    family = [name for name in _FAMILY if name in locked and name not in bound]
    if "torch" not in family:
        return ()
    return tuple(dict.fromkeys(family, index.name) for index in indexes if not index.packages)


def describe_target(target: TargetSpec) -> str:
    """The target in a few words."""
    parts = []
    if target.driver:
        parts.append(f"NVIDIA driver {target.driver}")
    if target.gpus:
        parts.append(f"GPUs of capability {', '.join(target.gpus)}")
    if target.cuda != "auto":
        parts.append("no CUDA" if target.cuda == "cpu" else f"CUDA {target.cuda}")
    return "; ".join(parts)


def _torch_limits(attempt: Attempt, torch: LockedWheel, target: TargetSpec) -> tuple[str, ...] | None:
    """Limits on torch's own version; None where no version of its kind can do."""
    kinds = {mismatch.kind for mismatch in attempt.mismatches}
    if not kinds & {Kind.GPU, Kind.NO_CUDA} and not target.gpus:
        return ()  # which CUDA it has shows in metadata: the runtime's limits will do
    if target.cuda == "cpu":
        return ()
    label = Version(torch.version).local
    platform = attempt.contract.platform
    fitting = _fitting_builds(target, platform, label)
    if not fitting:
        return None
    newest, oldest = fitting[0].version, fitting[-1].version
    unfit = (build.version for build in _builds(platform, label) if build not in fitting)
    between = sorted({version.public for version in unfit if oldest < version < newest}, key=Version)
    return (
        f"torch<={newest.public}",
        f"torch>={oldest.public}",
        *(f"torch!={version}" for version in between),
    )


def _builds(platform: Platform, label: str | None) -> tuple[TorchBuild, ...]:
    known = torch_builds()
    return tuple(build for build in known if (build.machine, build.version.local) == (platform.machine, label))


def _reached(driver: str, cuda: str) -> bool:
    floor = lowest_driver(cuda)
    return floor is not None and reaches(driver, floor)


def _public(torch: LockedWheel) -> str:
    return Version(torch.version).public
