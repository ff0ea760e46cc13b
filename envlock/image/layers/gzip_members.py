"""Members of a gzip file: the frame around copied deflate bytes, and our own bytes through the pinned encoder."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from functools import cache

import deflate
from isal import isal_zlib

from envlock.errors import MachineLacks

__all__ = ["ENCODER", "HEAD", "encode_member", "member_tail", "require_encoder"]

# `deflate` 0.9.0 bundles libdeflate 1.26. Level 6 was chosen by measuring: on bytecode and on Debian's files it gives
# zlib's level 6 in size at more than twice its speed; level 8 saves 1 % and halves the speed again.
_LEVEL = 6
ENCODER = f"libdeflate-1.26/{_LEVEL}"

# Method 8, no flags, MTIME 0, XFL 0, OS 255 (unknown).
HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

_PROOF = "c3a184fcfdfdbca7a5c0a9fe4b924e3ff265493cbb8247a9a131309fe36fde7d"


def encode_member(data: bytes | bytearray | memoryview) -> bytes:
    """One whole member that holds these bytes."""
    return b"".join((HEAD, deflate.deflate_compress(data, _LEVEL), member_tail(isal_zlib.crc32(data), len(data))))


def member_tail(crc32: int, size: int) -> bytes:
    """What follows the deflate bytes of a member: CRC-32 and size (modulo 2**32) of what they inflate to."""
    return struct.pack("<II", crc32, size & 0xFFFFFFFF)


@cache
def require_encoder(encode: Callable[[bytes, int], bytes | bytearray] = deflate.deflate_compress) -> None:
    """Prove, by its output, that the encoder is the one that `ENCODER` names, however it was built.

    Raise MachineLacks (code "encoder-differs") where it is not: layers would get other digests than elsewhere.
    """
    if hashlib.sha256(b"".join(encode(text, _LEVEL) for text in _samples())).hexdigest() != _PROOF:
        raise MachineLacks(
            f"the `deflate` package here ({deflate.__version__}) does not encode as {ENCODER} does",
            hint="install the wheel of deflate 0.9.0 from the package index, not a build against another libdeflate",
            code="encoder-differs",
        )


def _samples() -> tuple[bytes, ...]:
    """Text-like, patterned and random bytes: fixed, and enough to go through every kind of block."""
    noise = b"".join(hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(4096))
    words = [noise[at : at + 3 + noise[at] % 9].hex().encode() for at in range(0, 2048, 16)]
    text = b" ".join(words[byte % len(words)] for byte in noise[:32768])
    return text, bytes(range(256)) * 64, noise, b"", b"x", text[:300]
