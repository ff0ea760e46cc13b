"""A wheel as a strict zip file: its entries, and their bytes as bodies of a layer that check themselves."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from isal import igzip_lib, isal_zlib

from envlock.errors import FaultyInput
from envlock.image.layers.wheel_directory import STORED, ZipEntry, read_directory
from envlock.image.layers.wheel_faults import faulty

__all__ = ["DeflatedFile", "Promise", "StoredFile", "WheelZip"]

_CHUNK = 1 << 16  # of deflate bytes read at once: what comes out of it stays in the processor's cache (measured)
_LONGEST_OUTPUT = 1 << 20  # inflated bytes in hand at once, however well they compress
_INFLATE_ERROR: type[Exception] = igzip_lib.error  # type: ignore[assignment]  # its stub names an instance
_LONGEST_NAME, _LONGEST_PART = 2048, 255

# Control characters and back-slashes; an absolute or drive path; an empty, "." or ".." part.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]|^/|^[A-Za-z]:|(?:^|/)(?:\.{1,2})?(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What RECORD says of a file: a hash (name of the algorithm, and the value as RECORD writes it) and a size."""

    algorithm: str
    value: str
    size: int | None


class WheelZip:
    """A wheel, open for reading. A context manager; bodies read from it as long as it is open."""

    def __init__(self, path: Path, file: str) -> None:
        """Open the wheel at `path`, called `file`; raise FaultyInput (code "wheel-faulty") for a faulty zip."""
        self.file = file
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.files = self._files(read_directory(self._descriptor, file))
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, name: str, *, limit: int) -> bytes:
        """The bytes of an entry, checked against its CRC-32. Raise FaultyInput if it is missing or over the limit."""
        entry = self.files.get(name)
        if entry is None:
            raise faulty(self.file, name, "is missing")
        if entry.size > limit:
            raise faulty(self.file, name, f"has {entry.size} bytes, where {limit} would be plenty")
        return b"".join(self.body(entry, None).chunks())

    def body(self, entry: ZipEntry, promise: Promise | None) -> DeflatedFile | StoredFile:
        """The entry's bytes, checked against the zip file's records and RECORD's promise as they are read."""
        kind = StoredFile if entry.method == STORED else DeflatedFile
        return kind(self.file, self._descriptor, entry, promise)

    def _files(self, entries: list[ZipEntry]) -> dict[str, ZipEntry]:
        files: dict[str, ZipEntry] = {}
        folders: set[str] = set()
        for entry in entries:
            name = self._checked_name(entry)
            is_folder = name.endswith("/")
            if name in files or name in folders:
                raise faulty(self.file, name, "stands in the archive twice")
            if is_folder and entry.size:
                raise faulty(self.file, name, "is a directory that holds bytes")
            kind = stat.S_IFMT(entry.mode)
            if kind not in {0, stat.S_IFDIR if is_folder else stat.S_IFREG}:
                raise faulty(self.file, name, "is neither a plain file nor a directory (a link or a device)")
            if is_folder:
                folders.add(name)
            else:
                files[name] = entry
        return files

    def _checked_name(self, entry: ZipEntry) -> str:
        try:
            name = entry.name
        except UnicodeDecodeError as exc:
            raise faulty(self.file, entry.label, "has a name that is not UTF-8") from exc
        path = name.removesuffix("/")
        if _UNSAFE.search(path):
            raise faulty(self.file, entry.label, "has an unsafe path (absolute, `..`, back-slash, control character)")
        if len(path) > _LONGEST_NAME or any(len(part.encode()) > _LONGEST_PART for part in path.split("/")):
            raise faulty(self.file, entry.label, "has a name that is too long for a file system")
        return name


class _Check:
    """Follows the bytes of an entry, and refuses them at their end when they are not what was promised."""

    def __init__(self, file: str, entry: ZipEntry, promise: Promise | None) -> None:
        self._file = file
        self._entry = entry
        self._promise = promise
        self._hash = None if promise is None else hashlib.new(promise.algorithm, usedforsecurity=False)
        self._left = entry.size
        self._crc32 = 0

    def update(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise self.fault("inflates to more bytes than the central directory says")
        self._crc32 = isal_zlib.crc32(data, self._crc32)
        if self._hash is not None:
            self._hash.update(data)

    def finish(self) -> None:
        if self._left:
            raise self.fault("holds fewer bytes than the central directory says")
        if self._crc32 != self._entry.crc32:
            raise self.fault("its bytes do not have the CRC-32 that the central directory says")
        promise = self._promise
        if promise is None or self._hash is None:
            return
        value = base64.urlsafe_b64encode(self._hash.digest()).rstrip(b"=").decode()
        if value != promise.value or promise.size not in {None, self._entry.size}:
            raise self.fault("is not what RECORD says: its hash or size differs")

    def fault(self, what: str) -> FaultyInput:
        return faulty(self._file, self._entry.label, what)


@dataclass(frozen=True, slots=True)
class DeflatedFile:
    """A deflated entry: a DeflatedBody. `compressed` is the length of its deflate stream."""

    file: str
    descriptor: int
    entry: ZipEntry
    promise: Promise | None

    @property
    def size(self) -> int:
        """Inflated size in bytes."""
        return self.entry.size

    @property
    def crc32(self) -> int:
        """CRC-32 of the inflated bytes."""
        return self.entry.crc32

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of (deflated, inflated) bytes.

        Raise FaultyInput (code "wheel-faulty") where they are not as promised.
        """
        check = _Check(self.file, self.entry, self.promise)
        inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_DEFLATE)
        try:
            for deflated in _read(self.file, self.descriptor, self.entry):
                if inflater.eof:
                    raise check.fault("has bytes after the end of its deflate stream")
                inflated = inflater.decompress(deflated, _LONGEST_OUTPUT)
                check.update(inflated)
                yield deflated, inflated
                while not (inflater.needs_input or inflater.eof):
                    inflated = inflater.decompress(b"", _LONGEST_OUTPUT)
                    check.update(inflated)
                    yield b"", inflated
        except _INFLATE_ERROR as exc:
            raise check.fault(f"is not a deflate stream: {exc}") from exc
        if not inflater.eof:
            raise check.fault("its deflate stream is cut short")
        if inflater.unused_data:
            raise check.fault("has bytes after the end of its deflate stream")
        check.finish()

    def chunks(self) -> Iterator[bytes]:
        """The inflated bytes alone."""
        return (inflated for _, inflated in self.pieces())


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored entry: a StreamedBody, to be encoded by us."""

    file: str
    descriptor: int
    entry: ZipEntry
    promise: Promise | None

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.entry.size

    def chunks(self) -> Iterator[bytes]:
        """The bytes. Raise FaultyInput (code "wheel-faulty") when they are not what was promised."""
        check = _Check(self.file, self.entry, self.promise)
        for data in _read(self.file, self.descriptor, self.entry):
            check.update(data)
            yield data
        check.finish()


def _read(file: str, descriptor: int, entry: ZipEntry) -> Iterator[bytes]:
    """The entry's data as it stands in the wheel."""
    at, end = entry.data, entry.data + entry.compressed
    while at < end:
        data = os.pread(descriptor, min(_CHUNK, end - at), at)
        if not data:
            raise faulty(file, entry.label, "the wheel has become shorter while it was read")
        yield data
        at += len(data)
