"""What a finished layer holds, read back from its own bytes by another program than wrote them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import BinaryIO

from isal import igzip, igzip_lib, isal_zlib

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.image.canonical import canonical_json

__all__ = ["Member", "pack_members", "read_back", "unpack_members"]

_BLOCK = 1 << 18
_FAULTS: tuple[type[Exception], ...] = (
    tarfile.TarError,
    zlib.error,
    igzip_lib.IsalError,  # type: ignore[assignment] # isal's own types call it an instance
    OSError,
    EOFError,
)
_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "directory",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "hardlink",
}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a layer's tar. `path` and a hard link's `target` are relative to the root.

    `kind` is "file", "directory", "symlink" or "hardlink"; `crc32` and `size` are of a file's contents. `owner` names
    the wheel, package or copy that it came from, "" where that is the layer's only one.
    """

    path: str
    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    crc32: int
    target: str
    owner: str = ""


def read_back(layer: Path, diff_id: Digest) -> tuple[Member, ...]:
    """Every member of a layer file, in order.

    Raise FaultyInput (code "layer-faulty") where the tar is not the one of this `diff_id`, or holds what no layer of
    ours may: devices, absolute or climbing paths.
    """
    try:
        with _inflated(layer) as inflated:
            stream = _Hashed(inflated)
            with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as tar:
                members = tuple(_member(tar, info) for info in tar)
            stream.drain()
    except _FAULTS as exc:
        raise _faulty(layer, f"cannot be read back: {exc}") from exc
    if stream.hexdigest() != diff_id.hex:
        raise _faulty(layer, f"holds another tar than {diff_id}")
    return members


def _inflated(layer: Path) -> BinaryIO:
    opened: BinaryIO = igzip.open(layer, "rb")  # type: ignore[no-untyped-call] # isal's own types leave it out
    return opened


def pack_members(members: tuple[Member, ...]) -> bytes:
    """Members as bytes for the store."""
    return zlib.compress(canonical_json([astuple(member) for member in members]), 1)


def unpack_members(data: bytes) -> tuple[Member, ...]:
    """What `pack_members` packed."""
    return tuple(Member(*row) for row in json.loads(zlib.decompress(data)))


class _Hashed(io.RawIOBase):
    """The inflated stream on its way to tarfile, hashed."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._hasher = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._source.read(size)
        self._hasher.update(data)
        return data

    def drain(self) -> None:
        """Read what follows the end-of-archive blocks."""
        while self.read(_BLOCK):
            pass

    def hexdigest(self) -> str:
        return self._hasher.hexdigest()


def _member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    kind = _KINDS.get(info.type)
    if kind is None:
        raise tarfile.TarError(f"{info.name} is neither file, directory nor link")
    for path in (info.name, *((info.linkname,) if kind == "hardlink" else ())):
        if path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")):
            raise tarfile.TarError(f"{path} is not a path below the root")
    crc32 = 0
    if kind == "file":
        for block in _blocks(tar, info):
            crc32 = isal_zlib.crc32(block, crc32)
    return Member(info.name, kind, info.mode, info.uid, info.gid, info.size, crc32, info.linkname)


def _blocks(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    opened = tar.extractfile(info)
    while opened is not None and (block := opened.read(_BLOCK)):
        yield block


def _faulty(layer: Path, what: str) -> FaultyInput:
    return FaultyInput(
        f"the layer {layer.name} {what}",
        hint="This is a fault in envlock or in this machine's memory or disk: remove the layer and build again.",
        code="layer-faulty",
    )
