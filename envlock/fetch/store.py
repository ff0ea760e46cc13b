"""The content store: whole files by sha256, shared by processes; what is half-written is never found in it."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput, MachineLacks

__all__ = ["FULL", "Store"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a disk, or a quota, that is full."""

_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_BLOCK = 1 << 20
_STALE = 24 * 3600
_POLL = 0.2
_EMPTY = Digest.of(b"")


class Store:
    """Blobs at `blobs/sha256/ab/<hex>` below `root`, and folders beside them for other rooms.

    A blob comes into being by one rename of a file that was hashed and synced, so it is whole or absent, whatever
    is killed when. Nothing is written before something is asked for that needs it: a store that belongs to
    someone else can be read. Raises MachineLacks for a full disk ("disk-full") or a folder that cannot be written
    to ("store-not-writable").
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, digest: Digest) -> Path:
        """Where the blob is, or would be."""
        return self.root / "blobs" / "sha256" / digest.hex[:2] / digest.hex

    def find(self, digest: Digest, size: int | None = None) -> Path | None:
        """The blob's path if it is there, and is `size` bytes long where that is given; else None."""
        path = self.path(digest)
        try:
            found = path.stat().st_size
        except OSError:
            return None
        # A file system that lost its journal leaves empty files behind: those are never whole.
        whole = found == size if size is not None else found > 0 or digest == _EMPTY
        return path if whole else None

    def verify(self, digest: Digest, size: int | None = None) -> Path | None:
        """As `find`, but by reading all of it: a blob that something has changed is removed, and None.

        A blob that was read before, and whose inode, size and time of change are what they were then, is not read
        again. What changes bytes behind the file system's back is left to whoever takes the blob, by its digest.
        """
        path = self.find(digest, size)
        if path is None:
            return None
        note = self.area("verified") / digest.hex
        state = _state(path)
        if note.is_file() and note.read_bytes() == state:
            return path
        if Digest.of_file(path) != digest:
            with self.writing(0):
                path.unlink(missing_ok=True)
            return None
        with suppress(MachineLacks):  # another user's store is read as well, only more slowly
            self.write(note, state)
        return path

    def adopt(self, file: Path, expected: Digest, *, verified: bool = False, keep: bool = False) -> Path:
        """Take a file in under its digest: moved there, or copied when it lies on another disk or with `keep`.

        With `verified` the caller has hashed these very bytes already. Raises FaultyInput "hash-mismatch", and
        leaves `file` where it is, when it is another file.
        """
        found = expected if verified else Digest.of_file(file)
        if found != expected:
            raise FaultyInput(
                f"{file.name} is not the file it should be: expected {expected}, found {found}",
                hint="Fetch it again; if it stays different, lock anew or ask whoever serves it.",
                code="hash-mismatch",
            )
        size = file.stat().st_size
        with self.writing(size):
            target = self._parent(self.path(expected))
            if not keep and file.stat().st_dev == target.parent.stat().st_dev:
                with file.open("rb") as opened:
                    self._settle(opened, file, target)
            else:
                self._write_new(target, lambda out: self._copy(file, out, expected))
        return target

    def put(self, data: bytes) -> Digest:
        """Take bytes in; the same bytes twice are written once."""
        digest = Digest.of(data)
        if self.find(digest, len(data)) is None:
            with self.writing(len(data)):
                self._write_new(self._parent(self.path(digest)), lambda out: out.write(data))
        return digest

    def write(self, path: Path, data: bytes) -> None:
        """Replace a small file of an area in one step."""
        with self.writing(len(data)):
            self._write_new(self._parent(path), lambda out: out.write(data))

    def area(self, name: str) -> Path:
        """A folder below the root for another room's things; made if need be and possible."""
        folder = self.root / name
        with suppress(OSError):  # a store of someone else's: whoever writes there will hear of it
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def free(self) -> int:
        """Bytes left on the store's disk for this user."""
        folder = self.root
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    @contextmanager
    def locked(self, name: str, *, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Hold a lock that one thread of one process at a time can hold; waits for it.

        `cancelled` is asked while waiting; once it says True, MachineLacks "cancelled" is raised.
        """
        lock = self._lock(name)
        with self.writing(0):
            while not _try(lock, wait=_POLL):
                if cancelled is not None and cancelled():
                    raise MachineLacks(
                        f"gave up waiting for another process that holds {name}",
                        hint="Run it again.",
                        code="cancelled",
                    )
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def try_locked(self, name: str) -> Iterator[bool]:
        """As `locked`, but without waiting: yields whether the lock was got."""
        lock = self._lock(name)
        with self.writing(0):
            got = _try(lock)
        if not got:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A scratch folder on the store's disk, removed afterwards; what killed processes left is removed too."""
        with self.writing(0):
            parent = self._parent(self.root / "tmp" / "x").parent
            # The lock comes first and outlives the folder: a folder whose lock is free has no owner any more.
            descriptor, name = tempfile.mkstemp(dir=parent, suffix=".lock")
            now = os.fstat(descriptor).st_mtime
            os.close(descriptor)
            lock_file = Path(name)
            lock = FileLock(lock_file, is_singleton=False)
            lock.acquire()
            folder = lock_file.with_suffix("")
            folder.mkdir(mode=0o700)
            _sweep(parent, now)
        try:
            yield folder
        finally:
            _remove(folder)
            lock_file.unlink(missing_ok=True)
            lock.release()

    def _lock(self, name: str) -> FileLock:
        safe = "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in name)
        with self.writing(0):
            path = self._parent(self.root / "locks" / f"{safe}.lock")
        return FileLock(path, is_singleton=False)

    def _parent(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _write_new(self, target: Path, fill: Callable[[BinaryIO], object]) -> None:
        folder = self._parent(self.root / "tmp" / "x").parent
        descriptor, name = tempfile.mkstemp(dir=folder, suffix=".part")
        file = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as out:
                fill(out)
                out.flush()
                self._settle(out, file, target)
        except BaseException:
            file.unlink(missing_ok=True)
            raise

    def _settle(self, opened: BinaryIO, file: Path, target: Path) -> None:
        self._sync(opened.fileno())
        file.chmod(0o644 if "blobs" not in target.parts else 0o444)
        file.replace(target)
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._sync(folder)
        finally:
            os.close(folder)

    def _sync(self, descriptor: int) -> None:
        """Have the kernel put it on the disk; a full disk may only show here."""
        os.fsync(descriptor)

    def _copy(self, file: Path, out: BinaryIO, expected: Digest) -> None:
        hasher = hashlib.sha256()
        with file.open("rb") as source:
            while block := source.read(_BLOCK):
                hasher.update(block)
                out.write(block)
        if hasher.hexdigest() != expected.hex:  # it was changed under our hands
            raise FaultyInput(
                f"{file.name} changed while it was copied into the store: expected {expected}",
                hint="Run it again.",
                code="hash-mismatch",
            )

    def writing(self, needed: int) -> AbstractContextManager[None]:
        """Around writes of `needed` bytes below the root: a full disk or refused write comes out as MachineLacks."""
        return _told_as_lacks(self.root, needed)


@contextmanager
def _told_as_lacks(root: Path, needed: int) -> Iterator[None]:
    """Tell what the operating system refuses as MachineLacks; `needed` is the number of bytes to be written."""
    try:
        yield
    except EnvlockError:
        raise
    except OSError as exc:
        if exc.errno in FULL:
            raise MachineLacks(
                f"the disk of {root} is full: {needed:,} more bytes were needed",
                hint="Free some space there, or point XDG_CACHE_HOME at a larger disk.",
                code="disk-full",
            ) from exc
        if exc.errno in _REFUSED or isinstance(exc, (NotADirectoryError, FileExistsError)):
            raise MachineLacks(
                f"cannot write to the store at {root}: {exc.strerror}",
                hint="Make it writable for you, or point XDG_CACHE_HOME at a folder of your own.",
                code="store-not-writable",
            ) from exc
        raise


def _state(path: Path) -> bytes:
    """What an untouched file keeps. Its ctime is left out: hard links in layouts change it."""
    seen = path.stat()
    return f"{seen.st_ino} {seen.st_size} {seen.st_mtime_ns}".encode()


def _try(lock: FileLock, *, wait: float = 0) -> bool:
    """Take a lock within `wait` seconds, and say whether that worked."""
    try:
        lock.acquire(timeout=wait, poll_interval=0.02)
    except Timeout:
        return False
    return True


def _sweep(parent: Path, now: float) -> None:
    """Remove the scratch folders that no process holds any more, and half-written files of a day ago."""
    for lock_file in parent.glob("*.lock"):
        lock = FileLock(lock_file, is_singleton=False)
        try:
            if not _try(lock):
                continue
        except OSError:  # another user's
            continue
        folder = lock_file.with_suffix("")
        # Without a folder it was made this moment, and its owner has yet to take the lock.
        if folder.exists() or _old(lock_file, now):
            _remove(folder)
            lock_file.unlink(missing_ok=True)
        lock.release()
    for part in parent.glob("*.part"):
        if _old(part, now):
            part.unlink(missing_ok=True)


def _old(file: Path, now: float) -> bool:
    try:
        return file.stat().st_mtime < now - _STALE
    except OSError:  # swept by another process
        return False


def _remove(folder: Path) -> None:
    """Remove a tree, folders that were made unwritable (an unpacked root has some) included."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            child = Path(path, name)
            if not child.is_symlink():
                with suppress(OSError):
                    child.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
