"""METADATA out of a wheel, also out of one that stays on its server but for a few ranges."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from typing import IO, TYPE_CHECKING

from packaging.utils import canonicalize_name

from envlock.errors import FaultyInput
from envlock.fetch.http import Http
from envlock.fetch.urls import mask

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["NoRanges", "RemoteFile", "read_metadata"]

_TAIL = 128 << 10  # holds the directory and METADATA of most wheels, so that one request is all
_PIECE = 64 << 10
_LARGEST = 16 << 20  # of METADATA
_METADATA = re.compile(r"([^/]+)\.dist-info/METADATA")
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_PARTIAL = 206
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)


class NoRanges(Exception):
    """The server does not do ranges for this file, or not soundly."""


class RemoteFile(io.RawIOBase):
    """A file on a server, read by ranges; `size` is asked of the server when it is not known.

    Raises NoRanges on opening or reading, and what `Http.get` raises.
    """

    def __init__(self, http: Http, url: str, size: int | None) -> None:
        super().__init__()
        self._http = http
        self._url = url
        self._pieces: list[tuple[int, bytes]] = []
        self._position = 0
        self._size = size if size is not None else -1
        wanted = f"bytes=-{_TAIL}" if size is None else f"bytes={max(0, size - _TAIL)}-{size - 1}"
        self._fetch(wanted, start=None if size is None else max(0, size - _TAIL))

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move as any file does."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("negative position in a file")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer, with one more request where need be."""
        view = memoryview(buffer).cast("B")
        count = min(len(view), self._size - self._position)
        if count <= 0:
            return 0
        data = self._bytes(self._position, count)
        view[:count] = data
        self._position += count
        return count

    def _bytes(self, start: int, count: int) -> bytes:
        for at, piece in self._pieces:
            if at <= start and start + count <= at + len(piece):
                return piece[start - at : start - at + count]
        end = min(self._size, start + max(count, _PIECE))
        piece = self._fetch(f"bytes={start}-{end - 1}", start=start)
        return piece[:count]

    def _fetch(self, wanted: str, *, start: int | None) -> bytes:
        headers = {"Range": wanted, "Accept-Encoding": "identity"}
        allowed = frozenset({400, 404, 405, 416, 501})
        with self._http.get(self._url, headers=headers, stream=True, allow=allowed) as response:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
            if response.status_code != _PARTIAL or match is None:
                raise NoRanges(f"{mask(self._url)} answers {response.status_code} to a request for {wanted}")
            first, last, total = (int(text) for text in match.groups())
            count = last - first + 1
            sound = (start in {None, first}) and self._size in {-1, total} and 0 < count <= max(total, 1)
            piece = response.raw.read(count, decode_content=False) if sound else b""
            if len(piece) != count:
                raise NoRanges(f"{mask(self._url)} answers with another range than {wanted}")
        self._size = total
        self._pieces.append((first, piece))
        return bytes(piece)


def read_metadata(wheel: IO[bytes], file: str) -> bytes:
    """The METADATA of an open wheel named `file`; raises FaultyInput "wheel-faulty"."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return _metadata(archive, file)
    except _DAMAGED as exc:
        raise _faulty(file, str(exc)) from exc


def _metadata(archive: zipfile.ZipFile, file: str) -> bytes:
    found = [info for info in archive.infolist() if _METADATA.fullmatch(info.filename)]
    if len(found) > 1:  # a wheel may carry another's dist-info along: its own is the one it is named by
        name = canonicalize_name(file.partition("-")[0])
        found = [info for info in found if canonicalize_name(info.filename.partition("-")[0]) == name]
    if len(found) != 1:
        raise _faulty(file, "it holds no METADATA" if not found else "it holds more than one METADATA")
    if found[0].file_size > _LARGEST:
        raise _faulty(file, "its METADATA is too large")
    with archive.open(found[0]) as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) != found[0].file_size:
        raise _faulty(file, "its METADATA is not of the size stated")
    return data


def _faulty(file: str, why: str) -> FaultyInput:
    return FaultyInput(
        f"{file} is not a sound wheel: {why}",
        hint="Another version or index may have a sound one.",
        code="wheel-faulty",
    )
