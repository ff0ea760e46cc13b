"""What a machine must have to run the locked wheels, and whether a target has it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from envlock.lock.cuda_facts import (
    TorchBuild,
    find_build,
    lowest_driver,
    own_driver,
    reaches,
    released,
    runs_machine_code,
    runs_ptx,
)
from envlock.lock.model import HostContract, LockedWheel
from envlock.platforms import Platform
from envlock.spec.model import TargetSpec

__all__ = [
    "Kind",
    "Mismatch",
    "contract_of_build",
    "derive_contract",
    "judge",
    "runtimes",
    "torch_of",
]

_RUNTIME = re.compile(r"cuda-toolkit|nvidia-cuda-runtime(?:-cu\d+)?")  # their versions are the runtime's
_BY_NAME = re.compile(r"(?:cupy-cuda|jax-cuda)(\d+)(?:x|-plugin|-pjrt)")  # only the major version shows
_LABEL = re.compile(r"cu(\d\d)(\d+)")
_FIRST_CUDA = 10  # lower "versions" of the runtime are placeholders that hold nothing
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(.+)")
_OLDEST = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


class Kind(StrEnum):
    """What does not fit."""

    DRIVER = "driver"  # older than the CUDA runtime needs
    GPU = "gpu"  # torch has no code for one of the GPUs
    NO_CUDA = "no-cuda"  # a GPU is to be used, and torch is built without CUDA, or nothing brings a runtime
    OTHER_CUDA = "other-cuda"  # another runtime than the one asked for
    UNWANTED_CUDA = "unwanted-cuda"  # CUDA in an environment for the CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One thing that a target lacks, in words that follow the name of a stack: "needs ...", "has no ..."."""

    kind: Kind
    words: str
    gpu: str | None = None


def derive_contract(wheels: Iterable[LockedWheel], platform: Platform) -> HostContract:
    """The contract of the wheels that are installed on a platform."""
    installed = [wheel for wheel in wheels if platform in wheel.platforms]
    found = runtimes(installed)
    torch = torch_of(installed)
    torch_cuda = _torch_cuda(torch, found)
    every = sorted({*found.values(), *([torch_cuda] if torch_cuda else [])}, key=released)
    cuda = torch_cuda or (every[-1] if every else None)
    floors = [lowest_driver(version) for version in every]
    known = [floor for floor in floors if floor is not None]
    build = find_build(torch.version, torch_cuda, platform) if torch is not None else None
    return HostContract(
        platform=platform,
        cuda=cuda,
        driver=max(known, key=released) if known and len(known) == len(floors) else None,
        architectures_known=cuda is None or build is not None,
        cubin=build.cubin if build is not None else (),
        ptx=build.ptx if build is not None else (),
        glibc=_glibc(installed, platform),
    )


def contract_of_build(build: TorchBuild, platform: Platform) -> HostContract:
    """The contract of an environment with this build of torch, but for glibc, which other wheels may raise."""
    return HostContract(
        platform=platform,
        cuda=build.cuda,
        driver=lowest_driver(build.cuda),
        architectures_known=True,
        cubin=build.cubin,
        ptx=build.ptx,
        glibc=_glibc((), platform),
    )


def torch_of(wheels: Iterable[LockedWheel]) -> LockedWheel | None:
    """The wheel of torch among those of one platform."""
    return next((wheel for wheel in wheels if wheel.name == "torch"), None)


def runtimes(wheels: Iterable[LockedWheel]) -> dict[str, str]:
    """The packages that show a CUDA runtime, and its X.Y. Where only the major version shows, it is X.0."""
    found: dict[str, str] = {}
    for wheel in wheels:
        release = Version(wheel.version).release
        by_name = _BY_NAME.fullmatch(wheel.name)
        if _RUNTIME.fullmatch(wheel.name) and release[0] >= _FIRST_CUDA:
            found[wheel.name] = ".".join(map(str, (*release, 0)[:2]))
        elif by_name:
            found[wheel.name] = f"{by_name[1]}.0"
    return found


def _cuda_of_label(version: str) -> str | None:
    """The CUDA runtime that a local label names: 12.6 of 2.10.0+cu126."""
    found = _LABEL.fullmatch(Version(version).local or "")
    return f"{found[1]}.{found[2]}" if found else None


def judge(contract: HostContract, target: TargetSpec, *, torch: str | None) -> tuple[Mismatch, ...]:
    """What a target lacks; () where it runs all. `torch` is the locked version of torch, where there is one.

    GPUs are not judged where the architectures are not known.
    """
    if target.cuda == "cpu":
        unwanted = Mismatch(
            kind=Kind.UNWANTED_CUDA, words=f'brings CUDA {contract.cuda}, and cuda = "cpu" is asked for'
        )
        return (unwanted,) if contract.cuda is not None else ()
    return tuple(_judge_cuda(contract, target, torch)) if contract.cuda else tuple(_judge_absence(target, torch))


def _judge_absence(target: TargetSpec, torch: str | None) -> Iterator[Mismatch]:
    if target.cuda != "auto":
        yield Mismatch(kind=Kind.NO_CUDA, words=f'brings no CUDA, and cuda = "{target.cuda}" is asked for')
    elif torch is not None and (target.driver or target.gpus):
        yield Mismatch(kind=Kind.NO_CUDA, words="is built without CUDA, so no GPU would be used")


def _judge_cuda(contract: HostContract, target: TargetSpec, torch: str | None) -> Iterator[Mismatch]:
    if target.cuda not in ("auto", contract.cuda):
        words = f'brings CUDA {contract.cuda}, and cuda = "{target.cuda}" is asked for'
        yield Mismatch(kind=Kind.OTHER_CUDA, words=words)
    if target.driver and contract.driver is None:
        words = f"brings CUDA {contract.cuda}, whose lowest driver is not known"
        yield Mismatch(kind=Kind.DRIVER, words=words)
    elif target.driver and contract.driver and not reaches(target.driver, contract.driver):
        words = f"needs an NVIDIA driver of {contract.driver} or later, and the target's may be {target.driver}"
        yield Mismatch(kind=Kind.DRIVER, words=words)
    if torch is not None and contract.architectures_known:
        for gpu in target.gpus:
            yield from _judge_gpu(contract, target, gpu)


def _judge_gpu(contract: HostContract, target: TargetSpec, gpu: str) -> Iterator[Mismatch]:
    if runs_machine_code(contract.cubin, gpu):
        return
    if not runs_ptx(contract.ptx, gpu):
        has = ", ".join((*contract.cubin, *(f"{made}+PTX" for made in contract.ptx)))
        yield Mismatch(kind=Kind.GPU, words=f"has no code for a GPU of capability {gpu} (it has {has})", gpu=gpu)
        return
    floor = own_driver(contract.cuda or "")
    if target.driver and floor and not reaches(target.driver, floor):
        words = (
            f"has only PTX for a GPU of capability {gpu}, and compiling PTX of CUDA {contract.cuda} needs an NVIDIA "
            f"driver of {floor} or later; the target's may be {target.driver}"
        )
        yield Mismatch(kind=Kind.GPU, words=words, gpu=gpu)


def _torch_cuda(torch: LockedWheel | None, found: dict[str, str]) -> str | None:
    """The runtime that torch itself uses: by its label, else by what it depends on."""
    if torch is None:
        return None
    label = _cuda_of_label(torch.version)
    if label is not None or Version(torch.version).local is not None:
        return label
    own = [found[name] for name in torch.requires if name in found]
    return max(own, key=released, default=None)


def _glibc(wheels: Sequence[LockedWheel], platform: Platform) -> str:
    """The highest floor among the wheels; of one wheel's several tags the lowest counts."""
    floors = [min(tagged) for wheel in wheels if (tagged := list(_floors(wheel.file, platform.machine)))]
    highest = max(floors, default=_OLDEST["manylinux2014" if platform is Platform.ARM64 else "manylinux1"])
    return f"{highest[0]}.{highest[1]}"


def _floors(file: str, machine: str) -> Iterator[tuple[int, int]]:
    for tag in parse_wheel_filename(file)[3]:
        if found := _MANYLINUX.fullmatch(tag.platform):
            if found[3] == machine:
                yield int(found[1]), int(found[2])
        elif tag.platform.removesuffix(f"_{machine}") in _OLDEST:
            yield _OLDEST[tag.platform.removesuffix(f"_{machine}")]
