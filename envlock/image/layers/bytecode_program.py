"""A program that compiles modules. It is run by the interpreter of the image, and needs nothing but its library.

Read from stdin, until it ends: a path and a source, each as 4 bytes of length (little-endian) and its bytes.
Written to stdout for each: 4 bytes of length and a .pyc, or a length of 0 where the source does not compile.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
from typing import BinaryIO

# PEP 552: hash-based, and never checked against the source.
_HEAD = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")


def bytecode(path: str, source: bytes) -> bytes:
    """The .pyc of a module; nothing where it does not compile."""
    try:
        code = compile(source, path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return b""
    # Whether marshal writes an object or a reference depends on who else holds it: on interning, and so on what was
    # compiled before and in which order sets were walked. What it reads back is held by the code object alone.
    text = marshal.dumps(marshal.loads(marshal.dumps(code)))  # noqa: S302 (our own bytes)
    return _HEAD + importlib.util.source_hash(source) + text


def _read(stream: BinaryIO) -> bytes | None:
    length = stream.read(4)
    return stream.read(int.from_bytes(length, "little")) if length else None


def main() -> None:
    """Serve until stdin ends."""
    while (path := _read(sys.stdin.buffer)) is not None:
        source = _read(sys.stdin.buffer) or b""
        compiled = bytecode(path.decode(), source)
        sys.stdout.buffer.write(len(compiled).to_bytes(4, "little") + compiled)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
