"""Places in the image's file system that are taken, and what may be put where."""

from __future__ import annotations

from pathlib import PurePosixPath

from envlock.spec.faults import Wrong
from envlock.spec.table import Node, Parser
from envlock.spec.values import absolute_path, matching, shown

__all__ = ["copy_place", "data_place", "overlap", "prefix_place", "within"]

# What Debian, the kernel or envlock itself fills: nothing else belongs into these or below them.
_SYSTEM = tuple(
    PurePosixPath(path)
    for path in (
        "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
        "/usr", "/var/cache/apt", "/var/lib/apt", "/var/lib/dpkg", "/var/lock", "/var/run",
    )
)  # fmt: skip
# What exists in the base and is shared: places below are free, these themselves are not.
_SHARED = frozenset(PurePosixPath(path) for path in ("/", "/home", "/opt", "/root", "/var", "/var/lib", "/var/cache"))
_NO_FILES = tuple(PurePosixPath(path) for path in ("/dev", "/proc", "/run", "/sys", "/etc/envlock"))
# Scripts begin with #!PREFIX/bin/python3, which Linux cuts off at 127 bytes and at blanks.
_PREFIX = matching(r"/[A-Za-z0-9._+@/-]{1,99}", "a usable prefix", "use at most 100 letters, digits and . _ + @ - /")


def prefix_place(node: Node) -> PurePosixPath:
    """Where the environment may stand: a folder of its own."""
    _PREFIX(node)
    path = absolute_path(node)
    # /usr/local is the administrator's own part of /usr.
    if not within(path.parent, PurePosixPath("/usr/local")):
        _refuse_system(path, "a folder of its own, such as /opt/env")
    if path.is_relative_to("/tmp"):  # noqa: S108 (a path in the image)
        raise Wrong(f"{path} is cleared when machines start", "write a lasting folder, such as /opt/env")
    return path


def data_place(node: Node) -> PurePosixPath:
    """Where a data directory may be mounted: anywhere that hides nothing of the system."""
    path = absolute_path(node)
    _refuse_system(path, "a folder of its own, such as /data or /root/data")
    return path


def copy_place(*, of_file: bool) -> Parser[PurePosixPath]:
    """Where the user's own files may go: with a file, not onto a folder of the base."""

    def parse(node: Node) -> PurePosixPath:
        path = absolute_path(node)
        for taken in _NO_FILES:
            if within(path, taken):
                raise Wrong(
                    f"nothing of yours can stand in {taken}", "write a folder of your own, such as /workspace"
                )
        if of_file and (path in _SHARED or path in _SYSTEM):
            raise Wrong(
                f"{path} is a folder, and the source is a file", f"write {shown(str(path).rstrip('/') + '/')}"
            )
        return path

    return parse


def within(path: PurePosixPath, around: PurePosixPath) -> bool:
    """Whether a path is this folder or stands somewhere below it."""
    return path.is_relative_to(around)


def overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    """Whether two folders are the same or one stands in the other."""
    return within(one, other) or within(other, one)


def _refuse_system(path: PurePosixPath, own: str) -> None:
    taken = next((system for system in _SYSTEM if within(path, system)), path if path in _SHARED else None)
    if taken:
        raise Wrong(f"{path} is {'' if path == taken else 'inside '}a system folder", f"write {own}")
