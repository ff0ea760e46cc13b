"""Proof over finished layers: nothing lies in a data directory, every wheel is there, nothing was deleted by name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name, canonicalize_version

from envlock.errors import Difference
from envlock.image.layer_cache import Overwritten
from envlock.image.members import Member
from envlock.lock.model import LockedWheel

__all__ = ["LayerContents", "check_image", "find_overwritten"]

_SHOWN = 10
_LINKS = 40  # as the kernel follows, and no more


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerContents:
    """What was read back from a layer. `is_base` says that it comes from Debian's packages alone."""

    title: str
    members: tuple[Member, ...]
    is_base: bool
    overwritten: tuple[Overwritten, ...] = ()


def check_image(
    layers: Sequence[LayerContents], *, data: Sequence[str], wheels: Sequence[LockedWheel], site_packages: str
) -> int:
    """Prove that the image is what it should be; the number of paths that were looked at.

    `data` are the data directories' absolute paths, `site_packages` is relative to the root. Raise Difference, code
    "data-in-image", "wheel-not-in-image" or "image-faulty", with the paths.
    """
    tree = _Tree(layers)
    _refuse(tree.faults, "the image would not be what its layers say", "image-faulty")
    _refuse(
        [fault for path in data for fault in tree.faults_of(path.strip("/"))],
        "data directories are not empty mount points in the image",
        "data-in-image",
    )
    missing = _missing(wheels, tree.files, site_packages)
    _refuse(missing, "locked wheels are not in the image", "wheel-not-in-image")
    return tree.count


def find_overwritten(layers: Sequence[LayerContents]) -> tuple[Overwritten, ...]:
    """Files that come twice: within a layer, and over layers, where the later one stands. Sorted by path."""
    first: dict[str, tuple[Member, str]] = {}
    found = [row for layer in layers for row in layer.overwritten]
    for layer in layers:
        for member in layer.members:
            if member.kind == "directory":
                continue
            owner = member.owner or layer.title
            if member.path in first:
                before, other = first[member.path]
                same = _contents(before) == _contents(member)
                found.append(Overwritten(path=member.path, kept=owner, lost=other, same=same))
            first[member.path] = member, owner
    return tuple(sorted(found, key=lambda row: (row.path, row.lost)))


def _contents(member: Member) -> tuple[object, ...]:
    return member.kind, member.size, member.crc32, member.target


def _refuse(faults: Sequence[str], what: str, code: str) -> None:
    if not faults:
        return
    shown = [*faults[:_SHOWN], *([f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else [])]
    raise Difference(
        f"{what}:\n" + "\n".join(f"  {fault}" for fault in shown),
        hint="Nothing was written. Change what puts them there: a copy under [[image.copy]], a wheel or a package.",
        code=code,
    )


class _Tree:
    """The layers one on top of the other, as an engine lays them."""

    def __init__(self, layers: Sequence[LayerContents]) -> None:
        self.faults: list[str] = []
        self.files: set[str] = set()
        self.count = 0
        self._kinds: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._origins: dict[str, list[tuple[str, str]]] = {}  # real path -> (path as written, layer)
        self._bases: dict[str, Member] = {}
        for layer in layers:
            for member in layer.members:
                self._lay(member, layer)
        self._places: dict[str, str] = {}
        self._real = [(path, self._resolved(path), kind) for path, kind in self._kinds.items()]

    def _lay(self, member: Member, layer: LayerContents) -> None:
        path, kind = member.path, member.kind
        self.count += 1
        if posixpath.basename(path).startswith(".wh."):
            self.faults.append(f"/{path} ({layer.title}) would delete a file of a layer below")
        before = self._kinds.get(path)
        if before is not None and (before == "directory") != (kind == "directory"):
            self.faults.append(f"/{path} ({layer.title}) is a {kind}, and was a {before} below")
        if kind == "directory":
            self._compare(member, layer)
        self._kinds[path] = kind
        self._links.pop(path, None)
        if kind == "symlink":
            self._links[path] = member.target
        self.files.add(path)
        self._origins.setdefault(path, []).append((path, member.owner or layer.title))

    def _compare(self, member: Member, layer: LayerContents) -> None:
        """A directory of the base keeps mode and owner, whatever later layers put into it."""
        if layer.is_base:
            self._bases[member.path] = member
            return
        base = self._bases.get(member.path)
        if base and (base.mode, base.uid, base.gid) != (member.mode, member.uid, member.gid):
            self.faults.append(
                f"/{member.path} ({layer.title}) has mode {member.mode:o} of {member.uid}:{member.gid}, "
                f"and {base.mode:o} of {base.uid}:{base.gid} in the base"
            )

    def faults_of(self, place: str) -> Iterator[str]:
        """What is wrong about a data directory, by its path relative to the root."""
        if self._kinds.get(place) != "directory":
            yield f"/{place} is not there as a directory"
        real = self._resolved(place)
        if real != place:
            yield f"/{place} is reached by links, and is /{real}"
        for path, resolved, kind in self._real:
            if path != place and (resolved.startswith(f"{real}/") or (resolved == real and kind != "directory")):
                owner = self._origins[path][-1][1]
                yield f"/{path} ({owner})" + ("" if path == resolved else f", which is /{resolved}")

    def _resolved(self, path: str, depth: int = 0) -> str:
        """The path without links among its parents: where an engine would put it."""
        parent, name = posixpath.split(path)
        real = self._folder(parent, depth) if parent else ""
        return f"{real}/{name}" if real else name

    def _folder(self, path: str, depth: int) -> str:
        known = self._places.get(path)
        if known is not None:
            return known
        real = self._resolved(path, depth)
        if real in self._links and depth < _LINKS:
            target = posixpath.join("/", posixpath.dirname(real), self._links[real])
            inside = posixpath.normpath(target).strip("/")
            real = self._folder(inside, depth + 1) if inside else ""
        self._places[path] = real
        return real


def _missing(wheels: Sequence[LockedWheel], files: set[str], site_packages: str) -> list[str]:
    """Wheels whose RECORD is not where an installer puts it."""
    found: set[tuple[str, str]] = set()
    prefix = f"{site_packages}/"
    for path in files:
        if path.startswith(prefix) and path.endswith(".dist-info/RECORD"):
            name, _, version = path.removeprefix(prefix).removesuffix(".dist-info/RECORD").rpartition("-")
            found.add((canonicalize_name(name), canonicalize_version(version)))
    return [
        f"{wheel.name} {wheel.version}"
        for wheel in wheels
        if (canonicalize_name(wheel.name), canonicalize_version(wheel.version)) not in found
    ]
