"""The order of entries in a layer: by path, directories before what they hold, a file before its other names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from envlock.image.layers.entries import Directory, Entry, File, Hardlink

__all__ = ["ordered"]


def ordered(entries: Iterable[Entry]) -> list[Entry]:
    """Sort entries bytewise by path, with directories added where parents are missing (0755, root).

    A directory may come more than once: the last one counts. A hard link that sorts before its file changes places
    with it. Raise ValueError where two other entries have one path, or a hard link leads nowhere.
    """
    places: dict[str, Entry] = {}
    for entry in entries:
        before = places.get(entry.path)
        if before is not None and not (isinstance(before, Directory) and isinstance(entry, Directory)):
            raise ValueError(f"{entry.path} comes twice")
        places[entry.path] = entry
    for path in tuple(places):
        parent = path.rpartition("/")[0]
        while parent and parent not in places:
            places[parent] = Directory(path=parent)
            parent = parent.rpartition("/")[0]
    _turn_links(places)
    return [places[path] for path in sorted(places, key=str.encode)]


def _turn_links(places: dict[str, Entry]) -> None:
    """Let the first name of each file be the file, and the others its links."""
    names: dict[str, list[str]] = {}
    for path, entry in places.items():
        if isinstance(entry, Hardlink):
            names.setdefault(_file_of(places, path), []).append(path)
    for file, links in names.items():
        first, *others = sorted((file, *links), key=str.encode)
        body = places[file]
        assert isinstance(body, File)  # noqa: S101 (what _file_of returns)
        places[first] = replace(body, path=first)
        for other in others:
            places[other] = Hardlink(path=other, target=first, mode=body.mode, uid=body.uid, gid=body.gid)


def _file_of(places: dict[str, Entry], path: str) -> str:
    for _ in places:
        entry = places.get(path)
        if isinstance(entry, File):
            return path
        if not isinstance(entry, Hardlink):
            break
        path = entry.target
    raise ValueError(f"{path} is no file, and a hard link leads to it")
