"""What is known of CUDA: driver floors, which code runs on which GPU, what builds of torch hold. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from packaging.version import Version

from envlock.platforms import Platform
from envlock.spec.gpus import by_number

__all__ = [
    "TorchBuild",
    "exists_for",
    "find_build",
    "lowest_driver",
    "majors",
    "newest_runtime",
    "own_driver",
    "reaches",
    "released",
    "runs_machine_code",
    "runs_ptx",
    "torch_builds",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """One build of torch: `version` with its local label ("2.10.0+cu126"), and what it has GPU code for."""

    version: Version
    machine: str
    cuda: str
    cubin: tuple[str, ...]
    ptx: tuple[str, ...]


@cache
def torch_builds() -> tuple[TorchBuild, ...]:
    """Every known build, newest first."""
    builds = [
        TorchBuild(
            version=Version(version + (f"+{row['local']}" if "local" in row else "")),
            machine=row["machine"],
            cuda=row["cuda"],
            cubin=tuple(row["cubin"]),
            ptx=tuple(row["ptx"]),
        )
        for row in _table("torch_builds.toml")["build"]
        for version in row["torch"]
    ]
    return tuple(sorted(builds, key=lambda build: (build.version, build.machine), reverse=True))


def find_build(version: str, cuda: str | None, platform: Platform) -> TorchBuild | None:
    """The build of this version for this platform and CUDA runtime; None where none is known."""
    wanted = (Version(version), platform.machine, cuda)
    found = (build for build in torch_builds() if (build.version, build.machine, build.cuda) == wanted)
    return next(found, None)


def exists_for(build: TorchBuild, python: str) -> bool:
    """Whether torch of that version has wheels for a Python ("3.13"); True where that is not known."""
    oldest = _table("torch_builds.toml")["oldest"].get(python)
    return oldest is None or build.version >= Version(oldest)


def runs_machine_code(cubin: Iterable[str], capability: str) -> bool:
    """Whether machine code for one of `cubin` runs on a GPU of `capability`: same major, equal or higher minor."""
    major, minor = by_number(capability)
    if capability in _table("cuda_facts.toml")["tegra"]["capabilities"]:
        return capability in cubin
    return any(of == major and least <= minor for of, least in map(by_number, cubin))


def runs_ptx(ptx: Iterable[str], capability: str) -> bool:
    """Whether PTX for one of `ptx` can be compiled for a GPU of `capability`: any that is not older."""
    return any(by_number(made) <= by_number(capability) for made in ptx)


def lowest_driver(cuda: str) -> str | None:
    """The lowest driver that runs a CUDA runtime ("12.8"); None where the major version is not known."""
    floors: dict[str, str] = _table("cuda_facts.toml")["lowest-driver"]
    return floors.get(cuda.partition(".")[0])


def majors() -> tuple[int, ...]:
    """The major versions of CUDA that are known, lowest first."""
    return tuple(sorted(map(int, _table("cuda_facts.toml")["lowest-driver"])))


def own_driver(cuda: str) -> str | None:
    """The driver that came out with a CUDA runtime; None where it is not known."""
    drivers: dict[str, str] = _table("cuda_facts.toml")["own-driver"]
    return drivers.get(cuda)


def newest_runtime(driver: str | None) -> str:
    """The newest CUDA that a driver knows by itself; without a driver, the newest that is known."""
    drivers: dict[str, str] = _table("cuda_facts.toml")["own-driver"]
    known = sorted(drivers, key=released)
    return next((cuda for cuda in reversed(known) if driver is None or reaches(driver, drivers[cuda])), known[0])


def reaches(driver: str, floor: str) -> bool:
    """Whether a driver is at least `floor`. One given by its branch alone ("535") stands for all of the branch."""
    have, need = released(driver), released(floor)
    return have >= need[: len(have)]


def released(version: str) -> tuple[int, ...]:
    """A dotted version as numbers."""
    return tuple(int(part) for part in version.split("."))


@cache
def _table(file: str) -> dict[str, Any]:
    return tomllib.loads(files("envlock.lock").joinpath(file).read_text(encoding="utf-8"))
