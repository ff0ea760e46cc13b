"""Where a build writes to, judged before it begins: nothing of the user's is replaced, no long work is in vain."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Callable, Sequence
from itertools import combinations, islice
from pathlib import Path

from envlock.errors import FaultyInput, MachineLacks

__all__ = ["is_image_tar", "is_layout", "is_manifest", "refuse_bad_tag", "refuse_destinations"]

_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?"
_TAG = re.compile(rf"(?:{_HOST}/)?{_WORD}(?:/{_WORD})*:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}")
_FIRST = 64  # members of a tar that are looked at: what tells an image stands among the first
_MARKS = frozenset({"manifest.json", "oci-layout"})


def is_layout(path: Path) -> bool:
    """Whether a folder is an OCI layout, or empty."""
    if not path.is_dir() or path.is_symlink():
        return False
    return (path / "oci-layout").is_file() or not any(path.iterdir())


def is_image_tar(path: Path) -> bool:
    """Whether a file is a tar of an image, as engines and this build write them, or empty."""
    if not path.is_file():
        return False
    if path.stat().st_size == 0:
        return True
    try:
        with tarfile.open(path, "r:") as tar:
            return any(member.name.removeprefix("./") in _MARKS for member in islice(tar, _FIRST))
    except (tarfile.TarError, OSError):
        return False


def is_manifest(path: Path) -> bool:
    """Whether a file is the manifest of an image, of whatever version, or empty."""
    if not path.is_file():
        return False
    try:
        values = json.loads(path.read_bytes() or "{}")
    except (ValueError, RecursionError, OSError):
        return False
    return values == {} or (
        isinstance(values, dict) and {"version", "environment", "platform", "layers"} <= values.keys()
    )


def refuse_bad_tag(tag: str) -> None:
    """Raise FaultyInput "bad-tag" for what no engine takes as an image's name and tag."""
    if not _TAG.fullmatch(tag):
        raise FaultyInput(
            f"{tag!r} is not a name and tag of an image",
            hint="Write it as name:tag or registry/name:tag, the name in small letters.",
            code="bad-tag",
        )


def refuse_destinations(places: Sequence[tuple[Path, Callable[[Path], bool]]]) -> None:
    """Judge each place that is written to, with what may be replaced there.

    Raise FaultyInput ("outputs-clash", "output-in-the-way") or MachineLacks ("output-not-writable").
    """
    _refuse_clashes([path for path, _ in places])
    for path, may_replace in places:
        if os.path.lexists(path) and not may_replace(path):
            raise FaultyInput(
                f"{path} is there, and is nothing that envlock wrote",
                hint="Name another output, or remove it yourself.",
                code="output-in-the-way",
            )
        _refuse_parent(path)


def _refuse_clashes(paths: Sequence[Path]) -> None:
    for one, other in combinations(paths, 2):
        first, second = (Path(os.path.realpath(path.parent), path.name) for path in (one, other))
        if first.is_relative_to(second) or second.is_relative_to(first):
            raise FaultyInput(
                f"{one} and {other} are both written to, and one would destroy the other",
                hint="Name outputs that stand side by side.",
                code="outputs-clash",
            )


def _refuse_parent(path: Path) -> None:
    """The nearest folder above that is there already must be one, and take files."""
    above = next(parent for parent in path.parents if os.path.lexists(parent))
    if not above.is_dir():
        raise FaultyInput(
            f"{path} cannot be written: {above} is no folder", hint="Name another output.", code="output-in-the-way"
        )
    if not os.access(above, os.W_OK | os.X_OK):
        raise MachineLacks(
            f"cannot write {path}: you may not write to {above}",
            hint="Name another output.",
            code="output-not-writable",
        )
