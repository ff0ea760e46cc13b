"""A layer, written in one pass: a tar, as a gzip file of many members. docs/layer-format.md specifies it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import BinaryIO

from envlock.digest import Digest
from envlock.image.layers.entries import DeflatedBody, Directory, Entry, File, LayerBlob
from envlock.image.layers.gzip_members import ENCODER, HEAD, encode_member, member_tail, require_encoder
from envlock.image.layers.tar_headers import END, header, padding

__all__ = ["ENCODER", "FORMAT_VERSION", "write_layer"]

FORMAT_VERSION = 1

_PIECE = 1 << 20  # our own bytes are encoded in members of this many
# A deflated body of at most this many inflated bytes is encoded among our own bytes. Giving it a member of its own
# would take as long (measured), and more room.
_SMALL = 8192
_BATCH = 1 << 18  # bytes that are hashed and written at once


def write_layer(entries: Iterable[Entry], out: BinaryIO) -> LayerBlob:
    """Write the entries to `out`, in the order they come in, and tell digests and sizes of what was written.

    The bytes are a function of the entries alone (and of ENCODER and FORMAT_VERSION). Entries whose paths do not
    ascend begin a new segment, which is encoded on its own. Raise what a body raises (FaultyInput), ValueError for
    an unclean path or two entries of one path, MachineLacks where the encoder is another. What is in `out` after an
    error is to be thrown away.
    """
    require_encoder()
    layer = _Layer(out)
    for entry in entries:
        layer.add(entry)
    return layer.finish()


class _Layer:
    def __init__(self, out: BinaryIO) -> None:
        self._tar = hashlib.sha256()
        self._unpacked = 0
        self._own = bytearray()  # of the tar: not hashed or encoded yet
        self._gzip = _Output(out)
        self._last = ""
        self._taken: set[str] = set()

    def add(self, entry: Entry) -> None:
        if entry.path <= self._last:  # str compares by code points, and so as UTF-8 does by bytes
            self._end_segment()
        self._last = entry.path
        if not isinstance(entry, Directory):
            if entry.path in self._taken:
                raise ValueError(f"two entries for {entry.path!r} in one layer")
            self._taken.add(entry.path)
        if isinstance(entry, File):
            self._add_file(entry)
        else:
            self._put(header(entry))

    def _add_file(self, file: File) -> None:
        body = file.body
        if isinstance(body, bytes):
            self._put(header(file, len(body)))
            self._put(body)
            self._put(padding(len(body)))
            return
        self._put(header(file, body.size))
        before = self._unpacked + len(self._own)
        if not isinstance(body, DeflatedBody):
            for chunk in body.chunks():
                self._put(chunk)
        elif body.size <= _SMALL:
            self._put(b"".join(inflated for _, inflated in body.pieces()))
        else:
            self._copy(body)
        if self._unpacked + len(self._own) - before != body.size:
            raise ValueError(f"the body of {file.path!r} is not {body.size} bytes long, as it said")
        self._put(padding(body.size))

    def finish(self) -> LayerBlob:
        self._end_segment()
        self._put(END)
        self._end_segment()
        self._gzip.flush()
        return LayerBlob(
            digest=Digest(self._gzip.sha256.hexdigest()),
            size=self._gzip.size,
            diff_id=Digest(self._tar.hexdigest()),
            unpacked=self._unpacked,
        )

    def _put(self, data: bytes) -> None:
        """Bytes of the tar that are ours to encode."""
        own = self._own
        own += data
        if len(own) >= _PIECE:
            whole = len(own) - len(own) % _PIECE
            with memoryview(own) as view:
                for start in range(0, whole, _PIECE):
                    self._encode(view[start : start + _PIECE])
            del own[:whole]

    def _end_segment(self) -> None:
        if self._own:
            self._encode(self._own)
            self._own = bytearray()

    def _encode(self, data: bytearray | memoryview) -> None:
        self._tar.update(data)
        self._unpacked += len(data)
        self._gzip.write(encode_member(data))

    def _copy(self, body: DeflatedBody) -> None:
        """A member of its own, whose deflate bytes are the body's."""
        self._end_segment()
        self._gzip.write(HEAD)
        for deflated, inflated in body.pieces():
            self._gzip.write(deflated)
            self._tar.update(inflated)
            self._unpacked += len(inflated)
        self._gzip.write(member_tail(body.crc32, body.size))


class _Output:
    """The gzip file: hashed and written in batches, since most writes are small."""

    def __init__(self, out: BinaryIO) -> None:
        self.sha256 = hashlib.sha256()
        self.size = 0
        self._out = out
        self._batch: list[bytes] = []
        self._batched = 0

    def write(self, data: bytes) -> None:
        self._batch.append(data)
        self._batched += len(data)
        if self._batched >= _BATCH:
            self.flush()

    def flush(self) -> None:
        data = b"".join(self._batch)
        self.sha256.update(data)
        self._out.write(data)
        self.size += len(data)
        self._batch = []
        self._batched = 0
