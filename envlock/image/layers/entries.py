"""What a layer holds, before it is written: entries with a body that is either plain bytes or deflated ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from envlock.digest import Digest

__all__ = ["Body", "DeflatedBody", "Directory", "Entry", "File", "Hardlink", "LayerBlob", "StreamedBody", "Symlink"]


@runtime_checkable
class DeflatedBody(Protocol):
    """A raw deflate stream that is copied into the layer as it is, and inflated once to hash and check it."""

    @property
    def size(self) -> int:
        """Inflated size in bytes."""

    @property
    def crc32(self) -> int:
        """CRC-32 of the inflated bytes."""

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of (deflated, inflated) bytes, in order; either may be empty.

        Raise FaultyInput when the stream does not hold what size, crc32 or RECORD say.
        """


class StreamedBody(Protocol):
    """Plain bytes, too many to be held at once."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def chunks(self) -> Iterator[bytes]:
        """The bytes, in order; how they are cut does not show in the layer.

        Raise FaultyInput when they turn out not to be what was promised.
        """


Body = bytes | DeflatedBody | StreamedBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory. Paths of entries are relative to the root, with `/`, no leading or trailing slash."""

    path: str
    mode: int = 0o755
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A regular file."""

    path: str
    body: Body
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Symlink:
    """A symbolic link; `target` is written as it is."""

    path: str
    target: str
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardlink:
    """A second name of a file that stands earlier in the same layer; `target` is that path.

    Mode and owner are the file's again: they must stand in the link's header too, since engines that unpack a layer
    apply them to the file (seen: a link written with 0644 took the x bits from /usr/bin/perl).
    """

    path: str
    target: str
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


Entry = Directory | File | Symlink | Hardlink


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBlob:
    """A finished layer: `digest` and `size` of the gzip bytes, `diff_id` and `unpacked` (bytes) of the tar."""

    digest: Digest
    size: int
    diff_id: Digest
    unpacked: int
