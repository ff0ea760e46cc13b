"""What conda and wheels must not both bring, and what one side's choices mean for the other. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name

from envlock.errors import Unsatisfiable
from envlock.lock.cuda_facts import lowest_driver, released
from envlock.lock.model import HostContract, LockedConda, LockedCondaPackage, LockedWheel
from envlock.platforms import Platform

__all__ = ["CondaSide", "conda_cuda", "refuse_both_sides", "with_cuda", "without_conda"]

_RUNTIMES = ("cuda-cudart", "cuda-version", "cudatoolkit")  # their versions are the runtime's
_INTERPRETER = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaSide:
    """The conda side of one locking: what is locked, the conda-lock.yml's text, and the projects that it has.

    `projects` are normalised names of Python projects, with their versions, by platform. `wins` are the projects of
    which conda's package is the one to be installed.
    """

    locked: LockedConda
    text: str
    projects: Mapping[Platform, Mapping[str, str]] = field(default_factory=dict)
    wins: frozenset[str] = frozenset()
    wheels_win: frozenset[str] = frozenset()

    def constraints(self, platform: Platform) -> tuple[str, ...]:
        """What wheels may be asked for of the projects that conda brings and wins: exactly its version."""
        have = self.projects.get(platform, {})
        return tuple(f"{name}=={have[name]}" for name in sorted(self.wins & have.keys()))


def conda_cuda(packages: Iterable[LockedCondaPackage]) -> str | None:
    """The CUDA runtime (X.Y) that conda packages of one platform bring, if they bring one."""
    versions = {package.name: package.version for package in packages}
    found = next((versions[name] for name in _RUNTIMES if name in versions), None)
    match = re.match(r"(\d+)\.(\d+)", found or "")
    return f"{match[1]}.{match[2]}" if match else None


def with_cuda(contract: HostContract, cuda: str | None) -> HostContract:
    """The contract with conda's CUDA runtime in it. Raise Unsatisfiable "two-cuda-runtimes" where wheels differ."""
    if cuda is None or contract.cuda == cuda:
        return contract
    if contract.cuda is None:
        return replace(contract, cuda=cuda, driver=lowest_driver(cuda), architectures_known=False)
    if released(contract.cuda) != released(cuda):
        raise Unsatisfiable(
            f"wheels for {contract.platform} bring CUDA {contract.cuda}, and conda packages bring CUDA {cuda}: "
            "one loader path would have two runtimes",
            hint=f'Ask conda for cuda-version {contract.cuda}.*, or for wheels of CUDA {cuda} (cuda = "{cuda}" in '
            "[target]).",
            code="two-cuda-runtimes",
        )
    return contract


def refuse_both_sides(wheels: Sequence[LockedWheel], side: CondaSide, platform: Platform) -> None:
    """Raise Unsatisfiable "both-sides" with every project that wheels and conda both bring, unless one side wins."""
    have = side.projects.get(platform, {})
    both = [wheel for wheel in wheels if wheel.name in have and wheel.name not in side.wins]
    if both:
        listed = "\n".join(
            f"{wheel.name}: the wheel {wheel.version}, and conda's package {have[wheel.name]}" for wheel in both
        )
        first = both[0].name
        raise Unsatisfiable(
            f"both sides have these projects on {platform}:\n{listed}",
            hint=f'Leave them out on one side, or say which one is installed: wins = {{ {first} = "conda" }} or '
            f'"wheel" in [conda].',
            code="both-sides",
        )
    lacking = sorted(side.wheels_win - {wheel.name for wheel in wheels})
    if lacking:
        raise Unsatisfiable(
            f'wins says "wheel" of {", ".join(lacking)}, and no wheel of it is locked for {platform}',
            hint="Add it to [python] requirements, or delete the entry.",
            code="no-winning-wheel",
        )


def without_conda(wheels: Iterable[LockedWheel], side: CondaSide, platform: Platform) -> tuple[LockedWheel, ...]:
    """The wheels without those that conda's packages take the place of."""
    gone = side.wins & side.projects.get(platform, {}).keys()
    return tuple(
        replace(wheel, requires=tuple(name for name in wheel.requires if name not in gone))
        for wheel in wheels
        if wheel.name not in gone
    )


def project_of(name: str) -> str:
    """The Python project that a conda package of this name is taken for."""
    return canonicalize_name(name)
