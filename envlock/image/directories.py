"""Whose directories are: a layer that merely passes through one must not give it another owner or mode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from envlock.image.layers.entries import Directory
from envlock.image.user import ImageUser

__all__ = ["belongs_to_system", "directory_entry", "leading_directories"]

_TREES = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr", "var")
)
_ROOTS = frozenset(("home", "media", "mnt", "opt", "root", "srv", "tmp"))
# (mode, gid) of those that are not 0755 of root, as Debian has them; the groups are staff and mail
_SPECIAL = {
    "root": (0o700, 0),
    "tmp": (0o1777, 0),
    "var/tmp": (0o1777, 0),
    "var/local": (0o2775, 50),
    "var/mail": (0o2775, 8),
}


def belongs_to_system(path: str) -> bool:
    """Whether what is at this path (relative to the root) is root's, whoever put it there."""
    return path in _ROOTS or path.partition("/")[0] in _TREES


def directory_entry(path: str, user: ImageUser, *, own: bool) -> Directory:
    """A directory as the base has it, or, where the base has none, root's or with `own` the user's."""
    if user.added is not None and path == user.home.strip("/"):
        return Directory(path=path, uid=user.uid, gid=user.gid)
    if belongs_to_system(path):
        mode, gid = _SPECIAL.get(path, (0o755, 0))
        return Directory(path=path, mode=mode, gid=gid)
    return Directory(path=path, uid=user.uid, gid=user.gid) if own else Directory(path=path)


def leading_directories(path: str, user: ImageUser, *, own: Sequence[str] = ()) -> tuple[Directory, ...]:
    """The directories above a path (relative to the root), the outermost first; those in `own` are the user's."""
    parents = [str(parent) for parent in PurePosixPath(path).parents][-2::-1]
    return tuple(
        directory_entry(parent, user, own=any(parent == place or parent.startswith(f"{place}/") for place in own))
        for parent in parents
    )
