"""Looking at this machine's files: what cannot be seen is not there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import unquote

from envlock.spec.faults import Wrong
from envlock.spec.values import shown

__all__ = ["is_file", "is_folder", "place_on_disk"]

_LONGEST_NAME = 255  # bytes that Linux's file systems take
_LONGEST_PATH = 4095


def place_on_disk(written: str, base: Path) -> Path:
    """The absolute path that a file URL or a path relative to `base` means; raise Wrong where it can mean none."""
    path = written
    if written.startswith("file:"):
        path = unquote(written.removeprefix("file:").removeprefix("//localhost").split("#")[0])
        if path.startswith("//") and not path.startswith("///"):
            raise Wrong(f"{shown(written)} names a host", "write file:/// and a path of this machine")
    if path.startswith("~"):
        raise Wrong(f"{shown(written)} is not expanded", "write the whole path, or one relative to the file")
    place = os.path.normpath(base / path.replace("///", "/", 1))
    longest = max(len(part.encode(errors="replace")) for part in place.split("/"))
    if longest > _LONGEST_NAME or len(place.encode(errors="replace")) > _LONGEST_PATH or "\0" in place:
        raise Wrong(f"{shown(written)} is no usable path", "write a shorter one")
    return Path(place)


def is_file(path: Path) -> bool:
    """Whether a regular file is there that this user can see."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a folder is there that this user can see."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0
