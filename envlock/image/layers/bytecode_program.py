"""A program that compiles modules. It is run by the interpreter of the image, and needs nothing but its library.

Read from stdin, until it ends: a path and a source, each as 4 bytes of length (little-endian) and its bytes.
Written to stdout for each: 4 bytes of length and a .pyc, or a length of 0 where the source does not compile.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
from types import CodeType
from typing import Any, BinaryIO

# PEP 552: hash-based, and never checked against the source.
_HEAD = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")


def bytecode(path: str, source: bytes) -> bytes:
    """The .pyc of a module; nothing where it does not compile."""
    try:
        text = _marshalled(compile(source, path, "exec", dont_inherit=True, optimize=0))
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return b""
    return _HEAD + importlib.util.source_hash(source) + text


def _marshalled(code: CodeType) -> bytes:
    """The code, as bytes that are a function of path, source and interpreter alone.

    Whether marshal writes an object or a reference to it depends on who else holds it, and so on what was compiled
    before. What it has read back is held by the code object alone.
    """
    settled: Any = _settled(code, _names(code), {})
    return marshal.dumps(marshal.loads(marshal.dumps(settled)))  # noqa: S302 (our own bytes)


def _names(code: CodeType) -> set[str]:
    """Names and qualified names of the code object and of all within it."""
    found = {code.co_name, code.co_qualname}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _settled(constant: object, names: set[str], known: dict[int, object]) -> object:
    """The same constant or code, with the same things shared within it whatever was compiled before.

    Python interns names, and constants that look like names. Where an equal string was interned before, the earlier
    one takes the place of the module's own, and so it tears apart what the compiler had made one: the qualified name
    of a class and the constant in its body; a frozenset that two functions use. So names, and constants that
    equal one, are interned here, frozensets are never shared, and whatever has parts is made anew, needed or not.
    `known` is what became of what, by id.
    """
    if isinstance(constant, frozenset):
        return frozenset(_settled(part, names, known) for part in constant)
    if id(constant) in known:
        return known[id(constant)]
    settled = constant
    if isinstance(constant, CodeType):
        settled = constant.replace(
            co_consts=tuple(_settled(part, names, known) for part in constant.co_consts),
            co_name=sys.intern(constant.co_name),
            co_qualname=sys.intern(constant.co_qualname),
        )
    elif isinstance(constant, str) and constant in names:
        settled = sys.intern(constant)
    elif isinstance(constant, tuple) and constant:
        settled = tuple(_settled(part, names, known) for part in constant)
    known[id(constant)] = settled
    return settled


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
