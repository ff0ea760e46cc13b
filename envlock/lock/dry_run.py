"""What a lock would cost and whether it would run, told before anything is downloaded or rented. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from envlock.digest import Digest
from envlock.lock.contract import judge, torch_of
from envlock.lock.model import Concession, HostContract, Lock, LockedWheel
from envlock.platforms import Platform
from envlock.spec.model import TargetSpec

__all__ = ["DryRun", "PlatformRun", "dry_run"]

# Measured on the real stack: what a compressed byte becomes on the disk. Bytecode adds about a tenth to wheels.
_WHEEL_UNPACKED = 2.1
_DEB_UNPACKED = 4.3
_DEB_LAYER = 1.3  # .debs are xz or zstd, layers are gzip
_BYTECODE = 1.1  # of a wheel's compressed size, with its bytecode


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRun:
    """One platform. Sizes in bytes; `unpacked` (on the machine's system disk) is an estimate."""

    platform: Platform
    wheels: int
    debs: int
    compressed: int
    unpacked: int
    contract: HostContract
    mismatches: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        contract = self.contract
        return {
            "platform": self.platform.value,
            "wheels": self.wheels,
            "debs": self.debs,
            "compressed_bytes": self.compressed,
            "unpacked_bytes_estimate": self.unpacked,
            "contract": {
                "cuda": contract.cuda,
                "driver": contract.driver,
                "architectures_known": contract.architectures_known,
                "cubin": list(contract.cubin),
                "ptx": list(contract.ptx),
                "glibc": contract.glibc,
            },
            "fits_target": not self.mismatches,
            "mismatches": list(self.mismatches),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The whole lock, in bytes.

    `fetch` is what is not in the store yet, `build_disk` an estimate of what fetching and building will take on this
    machine beyond what is there.
    """

    name: str
    fetch: int
    in_store: int
    build_disk: int
    platforms: tuple[PlatformRun, ...]
    concessions: tuple[Concession, ...]

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "name": self.name,
            "fetch_bytes": self.fetch,
            "in_store_bytes": self.in_store,
            "build_disk_bytes_estimate": self.build_disk,
            "platforms": [platform.as_json() for platform in self.platforms],
            "concessions": [
                {"package": item.package, "wanted": item.wanted, "got": item.got, "reason": item.reason}
                for item in self.concessions
            ],
        }


def dry_run(lock: Lock, target: TargetSpec, *, present: Callable[[Digest], bool]) -> DryRun:
    """Sum up a lock; `present` tells whether the store has an artefact."""
    artefacts = {deb.sha256: deb.size for deb in lock.base.debs}
    for wheel in lock.wheels:
        artefacts.update(_artefacts(wheel, present))
    missing = sum(size for digest, size in artefacts.items() if not present(digest))
    return DryRun(
        name=lock.name,
        fetch=missing,
        in_store=sum(artefacts.values()) - missing,
        build_disk=missing + sum(_layers(lock, platform) for platform in lock.platforms),
        platforms=tuple(_platform(lock, platform, target) for platform in lock.platforms),
        concessions=lock.concessions,
    )


def _artefacts(wheel: LockedWheel, present: Callable[[Digest], bool]) -> Iterable[tuple[Digest, int]]:
    """What is fetched for a wheel: itself, or, to build it again, its source and what that is built with."""
    source = wheel.built_from
    if source is None or present(wheel.sha256):
        return [(wheel.sha256, wheel.size)]
    found = [(requirement.sha256, requirement.size) for requirement in source.requires]
    if source.sha256 is not None and source.size is not None:
        found.append((source.sha256, source.size))
    return found  # of a git repository the size is not known


def _layers(lock: Lock, platform: Platform) -> int:
    """The size of an image's layers: wheels are copied as they are, but for bytecode; .debs are packed anew."""
    wheels = sum(wheel.size for wheel in lock.wheels_for(platform))
    debs = sum(deb.size for deb in lock.debs_for(platform))
    return int(wheels * _BYTECODE + debs * _DEB_LAYER)


def _platform(lock: Lock, platform: Platform, target: TargetSpec) -> PlatformRun:
    wheels, debs = lock.wheels_for(platform), lock.debs_for(platform)
    wheel_bytes, deb_bytes = sum(wheel.size for wheel in wheels), sum(deb.size for deb in debs)
    contract = lock.contract_for(platform)
    torch = torch_of(wheels)
    title = f"torch {torch.version}" if torch else "what is locked"
    mismatches = judge(contract, target, torch=torch.version if torch else None)
    return PlatformRun(
        platform=platform,
        wheels=len(wheels),
        debs=len(debs),
        compressed=wheel_bytes + deb_bytes,
        unpacked=int(wheel_bytes * _WHEEL_UNPACKED + deb_bytes * _DEB_UNPACKED),
        contract=contract,
        mismatches=tuple(f"{title} {mismatch.words}" for mismatch in mismatches),
    )
