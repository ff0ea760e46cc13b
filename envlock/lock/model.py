"""The lock: everything on the system disk, exact, with sha256 and size, and no mirror's address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envlock.digest import Digest
from envlock.platforms import Platform

__all__ = [
    "LOCK_VERSION",
    "BuildRequirement",
    "BuiltFrom",
    "Concession",
    "HostContract",
    "Lock",
    "LockedBase",
    "LockedConda",
    "LockedCondaPackage",
    "LockedDeb",
    "LockedWheel",
    "MadeBy",
]

LOCK_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBy:
    """The programs whose versions shape a lock."""

    envlock: str
    resolver: str  # "uv" or "pip-tools"
    resolver_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequirement:
    """A wheel that was in the isolated environment in which another wheel was built."""

    name: str
    version: str
    file: str
    size: int
    sha256: Digest
    index: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFrom:
    """The source of a wheel that envlock built itself: an sdist of an index, or a commit of a git repository.

    For an sdist `file`, `size`, `sha256` and `index` are set; for git `url` and `commit` are (no credentials).
    `python` is the X.Y of the interpreter that ran the build.
    """

    file: str | None = None
    size: int | None = None
    sha256: Digest | None = None
    index: str | None = None
    url: str | None = None
    commit: str | None = None
    subdirectory: str | None = None
    python: str
    requires: tuple[BuildRequirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel:
    """One wheel, for the platforms that install it.

    `index` is an index *name*: "default" for the user's own index configuration, a name from the spec's [[index]],
    "direct" (then `direct_url` is set), "local" (a file beside the spec, then `path` is set, relative to the spec)
    or "built" (then `built_from` is set). `requires` are the names of locked packages it depends on, sorted.
    """

    name: str  # normalised
    version: str
    file: str
    size: int
    sha256: Digest
    index: str
    platforms: tuple[Platform, ...]
    hash_source: Literal["index", "computed"] = "index"
    requested: bool = False  # named by the spec itself
    requires: tuple[str, ...] = ()
    direct_url: str | None = None
    path: str | None = None
    built_from: BuiltFrom | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedDeb:
    """One Debian package. `pool` is its path below the archive's root, `archive` is "debian" or "debian-security"."""

    name: str
    version: str
    architecture: str  # "amd64", "arm64" or "all"
    archive: str
    pool: str
    size: int
    sha256: Digest
    platforms: tuple[Platform, ...]
    requested: str | None = None  # why, where it is not just a dependency: "essential", "spec", "triton", "ssh", ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedBase:
    """The Debian base: suite, the facts that wheels are checked against, and the packages."""

    suite: str
    python: str  # full version of the suite's python3, "3.13.5"
    glibc: str  # "2.41"
    debs: tuple[LockedDeb, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedCondaPackage:
    """One conda package. `channel` is as the spec names it; `subdir` and `file` are its place below the channel."""

    name: str
    version: str
    build: str
    channel: str
    subdir: str  # "linux-64", "linux-aarch64" or "noarch"
    file: str
    size: int
    sha256: Digest
    platforms: tuple[Platform, ...]
    requested: bool = False  # named by the spec itself


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedConda:
    """The conda side: `file` is the conda-lock.yml beside the lock, `sha256` that of its bytes."""

    file: str
    sha256: Digest
    packages: tuple[LockedCondaPackage, ...]

    @property
    def python(self) -> str | None:
        """The full version of the interpreter, where it comes from here."""
        return next((package.version for package in self.packages if package.name == "python"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContract:
    """What a machine must have for the environment to run on it, for one platform.

    `cuda` is the CUDA runtime's X.Y (None: no CUDA is in the environment), `driver` the lowest NVIDIA driver branch
    or version that runs it. `cubin` and `ptx` are the compute capabilities ("8.6") that torch has machine code and
    PTX for; both are empty where that is not known, and `architectures_known` tells the two apart. `glibc` is the
    highest floor among the wheels' manylinux tags.
    """

    platform: Platform
    cuda: str | None
    driver: str | None
    architectures_known: bool
    cubin: tuple[str, ...]
    ptx: tuple[str, ...]
    glibc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Concession:
    """Something given up so that the target can run the environment: `package` went from `wanted` to `got`."""

    package: str
    wanted: str
    got: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A whole lock. Tuples are sorted: wheels and debs by (name, version, file), contracts by platform."""

    name: str
    spec: Digest
    made_by: MadeBy
    python: str  # "3.13"
    platforms: tuple[Platform, ...]
    base: LockedBase
    wheels: tuple[LockedWheel, ...]
    contracts: tuple[HostContract, ...]
    concessions: tuple[Concession, ...] = ()
    conda: LockedConda | None = None

    @property
    def python_full(self) -> str:
        """The full version of the interpreter that wheels are for: conda's where it has one, else the base's."""
        return (self.conda.python if self.conda is not None else None) or self.base.python

    def conda_for(self, platform: Platform) -> tuple[LockedCondaPackage, ...]:
        """The conda packages installed on one platform."""
        packages = () if self.conda is None else self.conda.packages
        return tuple(package for package in packages if platform in package.platforms)

    def wheels_for(self, platform: Platform) -> tuple[LockedWheel, ...]:
        """The wheels installed on one platform."""
        return tuple(wheel for wheel in self.wheels if platform in wheel.platforms)

    def debs_for(self, platform: Platform) -> tuple[LockedDeb, ...]:
        """The Debian packages unpacked on one platform."""
        return tuple(deb for deb in self.base.debs if platform in deb.platforms)

    def contract_for(self, platform: Platform) -> HostContract:
        """The host contract of one platform."""
        return next(contract for contract in self.contracts if contract.platform == platform)
