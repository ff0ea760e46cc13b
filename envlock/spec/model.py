"""What the user wants, as read from envlock.toml: plain frozen data, checked before it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath

from envlock.digest import Digest
from envlock.platforms import Platform

__all__ = [
    "CONDA_SOLVERS",
    "OWN_INDEXES",
    "RESOLVERS",
    "AccessSpec",
    "BaseSpec",
    "CondaSpec",
    "CopySpec",
    "DataKind",
    "DataSpec",
    "EnvSpec",
    "ImageSpec",
    "IndexSpec",
    "PythonSpec",
    "Requirement",
    "SourceSpec",
    "TargetSpec",
]

RESOLVERS = ("uv", "pip-tools")
CONDA_SOLVERS = ("py-rattler", "conda-lock")
OWN_INDEXES = frozenset({"default", "direct", "local", "built"})
"""Index names that locks use for themselves: see LockedWheel. No [[index]] can be called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement or constraint and where it was written.

    `text` is PEP 508 text (name, extras, specifier, marker, `@ URL`); local wheels appear as `name @ file:///...`
    in memory. `origin` reads like `envlock.toml: python.requirements[2]` or `requirements.txt:14`.
    """

    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSpec:
    """`[python]`: what the resolver is asked for. `-r` and `-c` files are already read in."""

    requirements: tuple[Requirement, ...]
    constraints: tuple[Requirement, ...] = ()
    exclude_newer: str | None = None  # RFC 3339 timestamp, UTC
    resolver: str = "uv"  # "uv" or "pip-tools"
    allow_sdist: frozenset[str] = frozenset()  # normalised names
    allow_pure_sdist: bool = False  # allow-sdist = "pure": any package, as long as the wheel it makes is pure


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaSpec:
    """`[conda]`: what comes from conda's channels.

    `channels` are names, or URLs without credentials (http, https, file). The texts of `dependencies` are conda's
    match specs. `mirrors` are other places of a channel. `lock` is an existing conda-lock.yml (absolute) that is
    taken as it is. `wins` says of a project that both sides have which one is installed ("conda" or "wheel").
    `allow_scripts` are packages whose post-link scripts may go unrun.
    """

    channels: tuple[str, ...] = ()
    dependencies: tuple[Requirement, ...] = ()
    mirrors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    solver: str = "py-rattler"  # or "conda-lock"
    lock: Path | None = None
    wins: dict[str, str] = field(default_factory=dict)
    allow_scripts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """`[[index]]`: a simple index or a folder of wheels, and the packages that come from it alone.

    `url` is an http(s) or file URL, or an absolute folder path. With no `packages` the index is tried after the
    user's own ones. `packages` are normalised names.
    """

    name: str
    url: str
    packages: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """`[target]`: the machines the environment must run on."""

    driver: str | None = None  # lowest NVIDIA driver, "535" or "535.104.05"; the `>=` is dropped
    gpus: tuple[str, ...] = ()  # compute capabilities, "8.9", sorted numerically; names are already looked up
    cuda: str = "auto"  # "auto", "cpu", or a runtime version such as "12.8"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSpec:
    """`[base]`: a Debian suite and the packages asked for by name."""

    debian: str = "trixie"
    packages: tuple[str, ...] = ()
    mirror: str | None = None  # None: the user's own apt configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec:
    """`[[image.copy]]`: the user's own files. `tracked` takes only what git tracks below `source`."""

    source: Path  # absolute
    to: PurePosixPath
    ignore: tuple[str, ...] = ()  # gitignore-style patterns, relative to source
    tracked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """`[image]`: how the image is made."""

    prefix: PurePosixPath = PurePosixPath("/opt/env")
    user: str | None = None  # "name", "uid", "uid:gid"; None is root
    env: dict[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: PurePosixPath | None = None
    labels: dict[str, str] = field(default_factory=dict)
    archive_compression: str = "gzip"  # of the docker-archive's layers: "gzip" (as in the layout) or "none"
    bytecode: bool = True
    copy: tuple[CopySpec, ...] = ()


class DataKind(StrEnum):
    """What kind of place a data directory is."""

    DATA_DISK = "data-disk"
    NETWORK = "network"
    SCRATCH = "scratch"
    CACHE = "cache"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """`[[data]]`: a directory excluded from the image by design.

    `on_stop` and `on_release` say what becomes of it ("kept", "cleared", "lost", "kept 15 days", ...; free text).
    `env` are variables that point into it: name -> path below (or equal to) `path`.
    """

    path: PurePosixPath
    kind: DataKind
    purpose: str
    on_stop: str = "unknown"
    on_release: str = "unknown"
    required: bool = False
    min_free: int | None = None  # bytes
    env: dict[str, PurePosixPath] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSpec:
    """`[access]`: ways into the running container; each adds what it needs to base and requirements."""

    ssh: bool = False
    jupyter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """`[[source]]`: a model or data set that is used, and whether its licence was confirmed."""

    name: str
    kind: str  # "model" or "dataset"
    licence: str | None = None
    confirmed: bool = False
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """A whole envlock.toml. `file` is its absolute path.

    `digest` is over everything that the *lock* depends on, with the contents of requirement files and local wheels,
    but not comments or order of keys, nor what only the build reads ([image], [[data]], [[source]]).
    """

    file: Path
    name: str
    python_version: str  # "3.13"
    platforms: tuple[Platform, ...]
    python: PythonSpec
    indexes: tuple[IndexSpec, ...]
    target: TargetSpec
    base: BaseSpec
    image: ImageSpec
    data: tuple[DataSpec, ...]
    access: AccessSpec
    sources: tuple[SourceSpec, ...]
    digest: Digest
    conda: CondaSpec | None = None
