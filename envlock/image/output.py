"""Outputs that appear whole or not at all, and what may be replaced by them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envlock.errors import FaultyInput, MachineLacks

__all__ = ["lay", "replacing", "told"]

_FICLONE = 0x40049409  # ioctl: share another file's blocks
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EACCES}
_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def replacing(target: Path, may_replace: Callable[[Path], bool]) -> Iterator[Path]:
    """A path beside `target` to write to, a file or a folder, that takes its place when the context ends well.

    One writer at a time: the caller holds a lock. Raise FaultyInput (code "output-in-the-way") where something is
    there that `may_replace` does not know for an earlier output.
    """
    if (target.exists() or target.is_symlink()) and not may_replace(target):
        raise FaultyInput(
            f"{target} is there, and is nothing that envlock wrote",
            hint="Name another output, or remove it yourself.",
            code="output-in-the-way",
        )
    part = target.with_name(f".{target.name}.envlock-part")
    old = target.with_name(f".{target.name}.envlock-old")
    with told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(part)
        try:
            yield part
            if target.is_dir():
                _remove(old)
                target.rename(old)
            part.replace(target)
        finally:
            _remove(part)
            _remove(old)


@contextmanager
def told(target: Path) -> Iterator[None]:
    """Tell what the operating system refuses to write as MachineLacks."""
    try:
        yield
    except OSError as exc:
        full = exc.errno in _FULL
        raise MachineLacks(
            f"the disk of {target} is full" if full else f"cannot write {target}: {exc.strerror}",
            hint="Free some space, or name another output." if full else "Name another output.",
            code="disk-full" if full else "output-not-writable",
        ) from exc


def lay(source: Path, target: Path) -> None:
    """Have a file's bytes at `target`, where nothing is yet, without copying them if the disk can share them."""
    with source.open("rb") as opened, target.open("xb") as out:
        try:
            fcntl.ioctl(out.fileno(), _FICLONE, opened.fileno())
        except OSError:  # most file systems cannot
            target.unlink()
        else:
            return
    try:
        target.hardlink_to(source)
    except OSError as exc:
        if exc.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)
        target.chmod(0o644)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
