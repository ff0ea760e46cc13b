"""Bytecode of the base's own Python files, which Debian's scripts would have compiled on installation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from envlock.image.layers.debian_archive import DebFile, faulty, read_files, read_members
from envlock.image.layers.debian_control import read_control
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
    sources: dict[str, bytes] = {}
    for control in controls:
        if control.listed is None:
            bodies = {member.path: member.body for member in read_members(control.deb) if member.body is not None}
            sources |= {merged(path): body for path, body in bodies.items() if _is_source(path)}
            continue
        wanted = {path for path in control.listed if _is_source(path)}
        texts = read_files(control.deb, wanted) if wanted else {}
        for path in sorted(wanted - texts.keys()):
            raise faulty(control.deb, path, "stands in md5sums, and not in the data archive")
        sources |= {merged(path): body for path, body in texts.items()}
    paths = sorted(sources, key=str.encode)
    compiled = compiler.compile([(f"/{path}", sources[path]) for path in paths])
    made = zip(paths, compiled, strict=True)
    yield from ordered(
        File(path=_cache_path(path, minor), body=bytecode) for path, bytecode in made if bytecode is not None
    )


def _is_source(path: str) -> bool:
    return path.endswith(".py") and merged(path).startswith(_SOURCES)


def _cache_path(path: str, minor: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.cpython-3{minor}.pyc"
