"""Bytecode of the base's own Python files, which Debian's scripts would have compiled on installation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Protocol

from envlock.image.layers.debian_archive import DebFile, read_members
from envlock.image.layers.debian_control import Control, read_control
from envlock.image.layers.debian_order import ordered
from envlock.image.layers.debian_paths import merged
from envlock.image.layers.entries import Entry, File

__all__ = ["stdlib_bytecode_entries"]

_SOURCES = ("usr/lib/python3", "usr/share/python3/")
_MINIMAL = re.compile(r"python3\.(\d+)-minimal")


class _Compiler(Protocol):
    def compile(self, sources: Sequence[tuple[str, bytes]]) -> list[bytes | None]:
        """The .pyc of each (absolute path, source), None where it does not compile."""


def stdlib_bytecode_entries(debs: Sequence[DebFile], compiler: _Compiler) -> Iterator[Entry]:
    """A .pyc beside every Python file that the packages put below /usr/lib/python3* and /usr/share/python3.

    The compiler's interpreter must have the X.Y of the base's. Files that do not compile are left without one. Sorted
    by path; nothing where the base has no Python.
    """
    controls = [read_control(deb) for deb in debs]
    minor = next((found[1] for control in controls if (found := _MINIMAL.fullmatch(control.deb.name))), None)
    if minor is None:
        return
    sources = _sources([control for control in controls if _has_sources(control)])
    paths = sorted(sources, key=str.encode)
    compiled = compiler.compile([(f"/{path}", sources[path]) for path in paths])
    made = zip(paths, compiled, strict=True)
    yield from ordered(
        File(path=_cache_path(path, minor), body=bytecode) for path, bytecode in made if bytecode is not None
    )


def _has_sources(control: Control) -> bool:
    return control.listed is None or any(_is_source(path) for path in control.listed)


def _sources(controls: Sequence[Control]) -> dict[str, bytes]:
    """Python files by path, and links to them under their own names.

    Links to elsewhere (/etc, where sitecustomize.py is) are left out: what is there may be edited, and bytecode that
    is not checked would hide it.
    """
    bodies: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for control in controls:
        for member in read_members(control.deb):
            path = merged(member.path)
            if not _is_source(path):
                continue
            if member.body is not None:
                bodies[path] = member.body
            elif member.symlink is not None:
                links[path] = normpath(PurePosixPath("/", path).parent / member.symlink).lstrip("/")
    return bodies | {path: bodies[target] for path, target in links.items() if target in bodies}


def _is_source(path: str) -> bool:
    return path.endswith(".py") and merged(path).startswith(_SOURCES)


def _cache_path(path: str, minor: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.cpython-3{minor}.pyc"
