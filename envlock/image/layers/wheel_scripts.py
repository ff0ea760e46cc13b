"""The programs of an environment: scripts for entry points, and the first line of scripts that wheels bring."""

from __future__ import annotations

import re
import shlex

from envlock.image.layers.wheel_metadata import EntryPoint

__all__ = ["entry_point_script", "rewritten", "wraps"]

# As Linux has it, `#!`, the path and a newline must fit.
_LONGEST_LINE = 127
_WRAPPER = re.compile(r"(.+?)(?:-script\.py|\.exe|\.pya)?", re.IGNORECASE | re.DOTALL)
_SCRIPT = """\
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({attribute}())
"""


def entry_point_script(point: EntryPoint, executable: str) -> bytes:
    """The program of an entry point.

    The text is part of the layer format, so it does not come from `installer`, whose next version may write another.
    Nor does it do what only helps on Windows, for which `installer`'s imports `re` at each start.
    """
    first = point.attribute.split(".")[0]
    text = _SCRIPT.format(module=point.module, first=first, attribute=point.attribute)
    return _first_lines(executable) + text.encode()


def rewritten(script: bytes, executable: str) -> bytes | None:
    """The script with the interpreter's path in its first line; None where that line does not begin `#!python`."""
    if not script.startswith(b"#!python"):
        return None
    _, _, rest = script.partition(b"\n")
    return _first_lines(executable) + rest


def wraps(name: str, points: frozenset[str]) -> bool:
    """Whether a script that a wheel brings only wraps one of these entry points, so that pip leaves it out."""
    found = _WRAPPER.fullmatch(name)
    return found is not None and found[1] in points


def _first_lines(executable: str) -> bytes:
    """`#!`, or lines that both sh and Python understand where the path is too long for it, or has a space."""
    path = executable.encode()
    if b" " not in path and len(path) + 3 <= _LONGEST_LINE:
        return b"#!" + path + b"\n"
    return b"#!/bin/sh\n'''exec' " + shlex.quote(executable).encode() + b" \"$0\" \"$@\"\n' '''\n"
