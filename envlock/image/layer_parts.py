"""A recipe and its artefacts as entries: several parts, of which the later ones win."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from isal import isal_zlib

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.image.directories import leading_directories
from envlock.image.layer_cache import Overwritten
from envlock.image.layers.bytecode import Compiler
from envlock.image.layers.debian import DebFile, base_entries, deb_entries, stdlib_bytecode_entries
from envlock.image.layers.entries import Directory, Entry, File
from envlock.image.layers.files import copied_entries
from envlock.image.layers.wheel import Scheme, WheelInstall, prefix_entries, venv_entries, wheel_entries
from envlock.image.recipes import (
    BaseRecipe,
    CopyRecipe,
    DebianRecipe,
    FilesRecipe,
    Recipe,
    StdlibRecipe,
    VenvRecipe,
    WheelsRecipe,
)
from envlock.lock.model import LockedDeb, LockedWheel

__all__ = ["Merge", "Part", "deb_file", "layer_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Entries of one origin, sorted by path."""

    owner: str
    entries: Iterator[Entry]


def layer_parts(recipe: Recipe, files: Mapping[Digest, Path], compiler: Compiler | None) -> Iterator[Part]:
    """The parts of a layer, the one that was installed last first; entries are made as they are taken.

    `files` are the artefacts' places by sha256; `compiler` is needed for recipes with bytecode.
    """
    match recipe:
        case DebianRecipe():
            for deb in reversed(recipe.debs):
                yield Part(owner=f"{deb.name} {deb.version}", entries=deb_entries(deb_file(deb, files)))
        case BaseRecipe():
            debs = [deb_file(deb, files) for deb in recipe.debs]
            entries = base_entries(debs, users=recipe.users, apt_sources=recipe.apt_sources)
            yield Part(owner="base", entries=entries)
        case StdlibRecipe():
            assert compiler is not None  # noqa: S101 (the job's maker saw to it)
            debs = [deb_file(deb, files) for deb in recipe.debs]
            yield Part(owner="base", entries=stdlib_bytecode_entries(debs, compiler))
        case VenvRecipe():
            scheme = Scheme(recipe.prefix, recipe.python)
            entries = venv_entries(scheme, recipe.python_full)
            yield Part(owner="environment", entries=_led(recipe.parents, entries))
        case WheelsRecipe():
            yield from _wheels(recipe, files, compiler)
        case CopyRecipe():
            for tree in reversed(recipe.trees):
                head = leading_directories(str(tree.to).strip("/"), recipe.user, own=recipe.own)
                entries = copied_entries(tree, recipe.user)
                yield Part(owner=f"copy of {tree.label}", entries=_led(head, entries))
        case FilesRecipe():
            yield Part(owner="envlock", entries=iter(recipe.entries))
        case _:
            assert_never(recipe)


def deb_file(deb: LockedDeb, files: Mapping[Digest, Path]) -> DebFile:
    """A locked package and where it is."""
    return DebFile(path=files[deb.sha256], name=deb.name, version=deb.version, architecture=deb.architecture)


def _wheels(recipe: WheelsRecipe, files: Mapping[Digest, Path], compiler: Compiler | None) -> Iterator[Part]:
    scheme = Scheme(recipe.prefix, recipe.python)
    yield Part(owner="environment", entries=_led(recipe.parents, prefix_entries(scheme)))
    urls = dict(recipe.direct_urls)
    for wheel in reversed(recipe.wheels):
        install = WheelInstall(
            path=files[wheel.sha256],
            file=wheel.file,
            name=wheel.name,
            version=wheel.version,
            requested=wheel.requested,
            direct_url=urls.get(wheel.sha256),
        )
        entries = wheel_entries(install, scheme, compiler=compiler if recipe.bytecode else None)
        yield Part(owner=wheel_owner(wheel), entries=entries)


def wheel_owner(wheel: LockedWheel) -> str:
    """What a wheel is called where it clashes with another."""
    return f"{wheel.name} {wheel.version}"


def _led(parents: tuple[Directory, ...], entries: Iterator[Entry]) -> Iterator[Entry]:
    """Entries behind the directories that lead to them, as the base has those."""
    yield from parents
    above = {parent.path for parent in parents}
    yield from (entry for entry in entries if not (isinstance(entry, Directory) and entry.path in above))


class Merge:
    """One stream from many parts: where two have a file at one path, the first that comes keeps it."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.overwritten: list[Overwritten] = []
        self._contents: dict[str, tuple[object, ...]] = {}
        self._folders: dict[str, str] = {}

    def entries(self, parts: Iterator[Part]) -> Iterator[Entry]:
        """The entries to be written. Raise FaultyInput for a path that is a file here and a directory there."""
        for part in parts:
            for entry in part.entries:
                if self._keeps(part.owner, entry):
                    yield entry

    def _keeps(self, owner: str, entry: Entry) -> bool:
        path = entry.path
        other = self.owners if isinstance(entry, Directory) else self._folders
        if path in other:
            raise FaultyInput(
                f"{path} is a directory in one and a file in the other of {other[path]} and {owner}",
                hint="They cannot be installed together: leave one of them out.",
                code="path-clash",
            )
        if isinstance(entry, Directory):
            # Once per layer: Docker refuses a layer that names a path twice, be it a directory.
            first = path not in self._folders
            self._folders.setdefault(path, owner)
            return first
        contents = _contents(entry)
        if path in self.owners:
            same = contents == self._contents[path]
            self.overwritten.append(Overwritten(path=path, kept=self.owners[path], lost=owner, same=same))
            return False
        self.owners[path] = owner
        self._contents[path] = contents
        return True


def _contents(entry: Entry) -> tuple[object, ...]:
    """What tells two entries of one path apart; cheap, since nearly none has another."""
    if not isinstance(entry, File):
        return (type(entry).__name__, getattr(entry, "target", ""))
    body = entry.body
    if isinstance(body, bytes):
        return (len(body), isal_zlib.crc32(body))
    known = getattr(body, "crc32", None)
    return (body.size, getattr(body, "sha256", None) if known is None else known)
