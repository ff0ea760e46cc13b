"""Tar headers as layers hold them: ustar, with pax records only where ustar cannot say it."""

from __future__ import annotations

import re
import struct
from typing import assert_never

from envlock.image.layers.entries import Directory, Entry, File, Hardlink, Symlink

__all__ = ["BLOCK", "END", "MTIME", "header", "padding"]

BLOCK = 512
END = bytes(2 * BLOCK)
MTIME = 946684800  # 2000-01-01: zip tools break on 1970 and 1980

_LAYOUT = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12x")
_CHECKSUM = slice(148, 156)
_ID_LIMIT = 0o10000000  # seven octal digits
_SIZE_LIMIT = 0o100000000000  # eleven: 8 GiB
_PAX_NAME = b"././@PaxHeader"
# What a path must not hold: an empty, "." or ".." part, a slash at either end, a NUL.
_UNCLEAN = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|\0")


def header(entry: Entry, size: int = 0) -> bytes:
    """The header blocks of an entry whose body has `size` bytes, after a pax header where one is forced.

    Raise ValueError for a path that is not relative and clean: whoever made the entry should have refused it.
    """
    if _UNCLEAN.search(entry.path):
        raise ValueError(f"not a clean relative path: {entry.path!r}")
    match entry:
        case File():
            return _blocks(entry.path, b"0", size=size, mode=entry.mode, owner=(entry.uid, entry.gid))
        case Directory():
            return _blocks(entry.path + "/", b"5", mode=entry.mode, owner=(entry.uid, entry.gid))
        case Symlink():
            return _blocks(entry.path, b"2", mode=0o777, owner=(entry.uid, entry.gid), target=entry.target)
        case Hardlink():
            owner = (entry.uid, entry.gid)
            return _blocks(entry.path, b"1", mode=entry.mode, owner=owner, target=entry.target)
        case _:
            assert_never(entry)


def padding(size: int) -> bytes:
    """The zero bytes between the end of a body and the next block."""
    return bytes(-size % BLOCK)


def _blocks(
    path: str, kind: bytes, *, size: int = 0, mode: int = 0o644, owner: tuple[int, int] = (0, 0), target: str = ""
) -> bytes:
    records: dict[str, str] = {}
    split = _split(path)
    if split is None:
        records["path"] = path
        split = b"", _ascii(path)[:100]
    if not target.isascii() or len(target) > 100:  # noqa: PLR2004 (the field's width)
        records["linkpath"] = target
    if size >= _SIZE_LIMIT:
        records["size"] = str(size)
    for key, number in zip(("uid", "gid"), owner, strict=True):
        if number >= _ID_LIMIT:
            records[key] = str(number)
    small_owner = tuple(0 if number >= _ID_LIMIT else number for number in owner)
    block = _block(
        names=(*split, _ascii(target)[:100]),
        kind=kind,
        size=0 if "size" in records else size,
        mode=mode,
        owner=small_owner,
    )
    return _pax(records) + block if records else block


def _split(path: str) -> tuple[bytes, bytes] | None:
    """Prefix and name of a ustar header: the name is as long as it can be; None where the path does not fit."""
    if not path.isascii():
        return None
    raw = path.encode("ascii")
    if len(raw) <= 100:  # noqa: PLR2004 (the field's width)
        return b"", raw
    cut = raw.find(b"/", len(raw) - 101, len(raw) - 1)
    return (raw[:cut], raw[cut + 1 :]) if 0 < cut <= 155 else None  # noqa: PLR2004 (the field's width)


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "replace")


def _pax(records: dict[str, str]) -> bytes:
    body = b"".join(_record(key, value) for key, value in sorted(records.items()))
    head = _block(names=(b"", _PAX_NAME, b""), kind=b"x", size=len(body), mode=0o644, owner=(0, 0))
    return head + body + padding(len(body))


def _record(key: str, value: str) -> bytes:
    """One line: `LENGTH KEY=VALUE`, where LENGTH is that of the whole line, itself and the newline included."""
    rest = f" {key}={value}\n".encode()
    length = len(rest)
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def _block(*, names: tuple[bytes, bytes, bytes], kind: bytes, size: int, mode: int, owner: tuple[int, ...]) -> bytes:
    prefix, name, target = names
    uid, gid = owner
    block = _LAYOUT.pack(
        name,
        b"%07o" % mode,
        b"%07o" % uid,
        b"%07o" % gid,
        b"%011o" % size,
        b"%011o" % MTIME,
        b"        ",
        kind,
        target,
        b"ustar\x0000",
        b"",
        b"",
        b"0000000",
        b"0000000",
        prefix,
    )
    return b"%b%06o\0 %b" % (block[: _CHECKSUM.start], sum(block), block[_CHECKSUM.stop :])
