"""What each layer is made of, as pure data with a key: the same key, the same layer, on any machine."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar

from envlock.digest import Digest
from envlock.image.canonical import canonical_json
from envlock.image.layers.copied import CopiedTree
from envlock.image.layers.debian_accounts import User
from envlock.image.layers.entries import Directory, Entry, File, Hardlink, Symlink
from envlock.image.layers.writer import ENCODER, FORMAT_VERSION
from envlock.image.user import ImageUser
from envlock.lock.model import LockedDeb, LockedWheel

__all__ = [
    "BaseRecipe",
    "CopyRecipe",
    "DebianRecipe",
    "FilesRecipe",
    "Recipe",
    "StdlibRecipe",
    "VenvRecipe",
    "WheelsRecipe",
]

# Raised when a kind of layer comes to hold something else for the same inputs: old keys then name other layers.
_REVISIONS = {"debian": 1, "base": 1, "stdlib": 1, "venv": 1, "wheels": 1, "copy": 1, "files": 1}
# The table of what maintainer scripts do is data that shapes layers: it counts as an input.
_SCRIPTS = Digest.of(files("envlock.image.layers").joinpath("debian_scripts.toml").read_bytes())
# So does the program that the locked Python compiles with.
_COMPILER = Digest.of(files("envlock.image.layers").joinpath("bytecode_program.py").read_bytes())


def _key(kind: str, **inputs: object) -> Digest:
    frame = {"kind": kind, "revision": _REVISIONS[kind], "format": FORMAT_VERSION, "encoder": ENCODER}
    return Digest.of(canonical_json(frame | inputs))


def _bytecode(version: str | None) -> list[str] | None:
    return None if version is None else [version, str(_COMPILER)]


def _packages(debs: tuple[LockedDeb, ...]) -> list[list[str]]:
    """Names and versions are checked against the .debs' own, so they are inputs."""
    return sorted([deb.name, deb.version, deb.architecture, str(deb.sha256)] for deb in debs)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianRecipe:
    """Some of the base's packages, unpacked."""

    kind: ClassVar[str] = "debian"
    title: str
    debs: tuple[LockedDeb, ...]

    @property
    def key(self) -> Digest:
        """The recipe's identity."""
        return _key(self.kind, debs=_packages(self.debs), scripts=str(_SCRIPTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRecipe:
    """What is made from all packages of the base together."""

    kind: ClassVar[str] = "base"
    title: str = "base: accounts, dpkg's records, certificates"
    debs: tuple[LockedDeb, ...]
    users: tuple[User, ...] = ()
    apt_sources: str | None = None

    @property
    def key(self) -> Digest:
        """The recipe's identity."""
        users = [
            [user.name, user.uid, user.gid, user.home, user.shell, user.gecos, *user.groups] for user in self.users
        ]
        return _key(
            self.kind, debs=_packages(self.debs), users=users, apt_sources=self.apt_sources, scripts=str(_SCRIPTS)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StdlibRecipe:
    """Bytecode of the base's own Python files, made by the Python of this full version."""

    kind: ClassVar[str] = "stdlib"
    title: str = "bytecode of the standard library"
    debs: tuple[LockedDeb, ...]
    bytecode: str

    @property
    def key(self) -> Digest:
        """The recipe's identity."""
        return _key(self.kind, debs=_packages(self.debs), bytecode=_bytecode(self.bytecode))


@dataclass(frozen=True, slots=True, kw_only=True)
class VenvRecipe:
    """The environment itself, with nothing installed."""

    kind: ClassVar[str] = "venv"
    title: str = "environment"
    prefix: str  # relative to the root
    parents: tuple[Directory, ...]  # that lead to the prefix, as the base has them
    python: str  # X.Y
    python_full: str

    @property
    def key(self) -> Digest:
        """The recipe's identity."""
        return _key(
            self.kind,
            prefix=self.prefix,
            parents=[_row(entry) for entry in self.parents],
            python=self.python,
            python_full=self.python_full,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelsRecipe:
    """Wheels, installed in this order; where two write one path, the later one's stands.

    `direct_urls` are texts of direct_url.json, for the wheels that have one. `bytecode` is the full version of the
    Python that compiles, None for layers without bytecode.
    """

    kind: ClassVar[str] = "wheels"
    title: str
    wheels: tuple[LockedWheel, ...]
    direct_urls: tuple[tuple[Digest, str], ...]
    prefix: str
    parents: tuple[Directory, ...]
    python: str
    bytecode: str | None

    @property
    def key(self) -> Digest:
        """The recipe's identity."""
        urls = dict(self.direct_urls)
        wheels = [
            [wheel.name, wheel.version, wheel.file, str(wheel.sha256), wheel.requested, urls.get(wheel.sha256)]
            for wheel in self.wheels
        ]
        return _key(
            self.kind,
            wheels=wheels,
            prefix=self.prefix,
            parents=[_row(entry) for entry in self.parents],
            python=self.python,
            bytecode=_bytecode(self.bytecode),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecipe:
    """The user's own files, owned by the image's user; `own` are the places of all copies, relative to the root."""

    kind: ClassVar[str] = "copy"
    trees: tuple[CopiedTree, ...]
    user: ImageUser
    own: tuple[str, ...]

    @property
    def title(self) -> str:
        """What people call it."""
        if len(self.trees) == 1:
            return f"copy of {self.trees[0].label} to {self.trees[0].to}"
        return f"{len(self.trees)} copies"

    @property
    def key(self) -> Digest:
        """The recipe's identity."""
        trees = [[str(tree.digest), str(tree.to)] for tree in self.trees]
        user = [self.user.uid, self.user.gid, self.user.home]
        # Only what leads to these copies shows in the layer.
        leading = {str(parent).strip("/") for tree in self.trees for parent in tree.to.parents}
        own = sorted(place for place in self.own if place in leading)
        return _key(self.kind, trees=trees, user=user, own=own)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRecipe:
    """Small files and empty mount points that are known in full once all other layers are."""

    kind: ClassVar[str] = "files"
    title: str = "mount points, settings, manifest and lock"
    entries: tuple[Entry, ...]

    @property
    def key(self) -> Digest:
        """The recipe's identity."""
        return _key(self.kind, entries=[_row(entry) for entry in self.entries])


def _row(entry: Entry) -> list[object]:
    match entry:
        case File(body=bytes() as body):
            return [entry.path, "file", entry.mode, entry.uid, entry.gid, str(Digest.of(body))]
        case Symlink() | Hardlink():
            return [entry.path, "link", entry.target, entry.uid, entry.gid]
        case _:
            return [entry.path, "directory", entry.mode, entry.uid, entry.gid]


Recipe = DebianRecipe | BaseRecipe | StdlibRecipe | VenvRecipe | WheelsRecipe | CopyRecipe | FilesRecipe
