"""What single values may be: parsers that return a typed value or raise Wrong."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import PurePosixPath
from typing import TypeVar

from packaging.utils import InvalidName, canonicalize_name

from envlock.spec.faults import Wrong
from envlock.spec.table import Node, Parser, nearest

__all__ = [
    "absolute_path",
    "boolean",
    "byte_size",
    "choice",
    "command",
    "distinct",
    "list_of",
    "mapping_of",
    "matching",
    "moment",
    "project_name",
    "shown",
    "text",
    "variable_name",
]

_T = TypeVar("_T")

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?i?B)?")
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_PATH = 4095  # bytes that Linux takes


def shown(value: object) -> str:
    """A value as a user would write it in the file, in short."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    written = json.dumps(value, ensure_ascii=False)
    return written if len(written) <= 80 else f"{written[:76]}..."  # noqa: PLR2004 (fits a line)


def text(node: Node) -> str:
    """A string that says something."""
    value = node.value
    if not isinstance(value, str):
        quoted = isinstance(value, int | dt.date | dt.time)  # not a float: TOML's 3.10 is 3.1
        raise Wrong(
            f"{shown(value)} is not a string", f"write {_in_quotes(value)}" if quoted else "write it in quotes"
        )
    if not value.strip():
        raise Wrong("empty", "write a text or leave the key out")
    if any(ord(character) < ord(" ") and character not in "\n\t" for character in value):
        raise Wrong(f"{shown(value)} has control characters", "leave them out")
    return value


def _in_quotes(value: object) -> str:
    return json.dumps(value if isinstance(value, str) else shown(value))


def boolean(node: Node) -> bool:
    """True or false."""
    if isinstance(node.value, bool):
        return node.value
    raise Wrong(f"{shown(node.value)} is not a boolean", "write true or false")


def choice(*names: str, meant: Mapping[str, str] | None = None) -> Parser[str]:
    """One of these words; `meant` holds other words for them, to be understood but not taken."""

    def parse(node: Node) -> str:
        word = text(node)
        if word in names:
            return word
        likely = (meant or {}).get(word.casefold()) or nearest(word, names)
        every = " or ".join(json.dumps(name) for name in names)
        raise Wrong(f"{shown(word)} is not known", f"write {json.dumps(likely)}" if likely else f"write {every}")

    return parse


def matching(pattern: str, what: str, instead: str) -> Parser[str]:
    """A string that the pattern matches as a whole; else the fault says it is not `what`."""
    compiled = re.compile(pattern)

    def parse(node: Node) -> str:
        word = text(node)
        if not compiled.fullmatch(word):
            raise Wrong(f"{shown(word)} is not {what}", instead)
        return word

    return parse


def list_of(parse: Parser[_T]) -> Parser[tuple[_T, ...]]:
    """A list; a wrong element is a fault of its own and left out."""

    def read(node: Node) -> tuple[_T, ...]:
        children = enumerate(_as_list(node))
        elements = [node.child(index, value).attempt(lambda child: (parse(child),), ()) for index, value in children]
        return tuple(element for found in elements for element in found)

    return read


def distinct(parse: Parser[_T]) -> Parser[tuple[_T, ...]]:
    """A list of which no element may come twice."""

    def read(node: Node) -> tuple[_T, ...]:
        seen: set[_T] = set()

        def once(child: Node) -> _T:
            element = parse(child)
            if element in seen:
                raise Wrong(f"{shown(child.value)} stands in the list already", "delete one of the two")
            seen.add(element)
            return element

        return list_of(once)(node)

    return read


def _as_list(node: Node) -> Sequence[object]:
    if isinstance(node.value, list):
        return node.value
    brackets = f"write [{_in_quotes(node.value)}]" if isinstance(node.value, str) else "write it in brackets, [ ]"
    raise Wrong(f"{shown(node.value)} is not a list", brackets)


def command(node: Node) -> tuple[str, ...]:
    """A program and its arguments; no shell reads them."""
    if isinstance(node.value, str):
        try:
            words = shlex.split(node.value)
        except ValueError:  # unbalanced quotes
            words = [node.value]
        raise Wrong(f"{shown(node.value)} is one string", f"write it as a list, {json.dumps(words)}")
    return list_of(text)(node)


def mapping_of(parse_name: Parser[str], parse: Parser[_T]) -> Parser[dict[str, _T]]:
    """A table of the user's own names; each wrong entry is a fault of its own and left out."""

    def read(node: Node) -> dict[str, _T]:
        if not isinstance(node.value, dict):
            raise Wrong(f"{shown(node.value)} is not a table", 'write { NAME = "value" }')
        entries: dict[str, _T] = {}
        for name, value in node.value.items():

            def entry(child: Node, name: str = name) -> tuple[tuple[str, _T], ...]:
                return ((parse_name(Node(name, child.key, child.faults)), parse(child)),)

            entries.update(node.child(name, value).attempt(entry, ()))
        return entries

    return read


def variable_name(node: Node) -> str:
    """The name of an environment variable."""
    name = text(node)
    if not _VARIABLE.fullmatch(name):
        raise Wrong(f"{shown(name)} is not the name of an environment variable", "use letters, digits and _ only")
    return name


def project_name(node: Node) -> str:
    """The normalised name of a Python package."""
    name = text(node)
    try:
        return canonicalize_name(name.strip(), validate=True)
    except InvalidName:
        raise Wrong(f"{shown(name)} is not a package's name", "write one name, without version or wildcard") from None


def absolute_path(node: Node) -> PurePosixPath:
    """A path in the image or on the machine it runs on: absolute, with nothing to expand."""
    written = text(node)
    if written.startswith("~") or "$" in written:
        raise Wrong(f"{shown(written)} is not expanded", "write the whole path, starting with /")
    if not written.startswith("/"):
        raise Wrong(
            f"{shown(written)} is not absolute", f"write a path that starts with /, such as {shown('/' + written)}"
        )
    if ".." in PurePosixPath(written).parts:
        raise Wrong(f"{shown(written)} has .. in it", "write the path without it")
    if "\n" in written or "\t" in written or len(written.encode()) > _LONGEST_PATH:
        raise Wrong(f"{shown(written)} is no usable path", "write a shorter one, without line ends and tabs")
    return PurePosixPath("/" + written.lstrip("/"))


def byte_size(node: Node) -> int:
    """Bytes: a whole number, or a number and a unit."""
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        if value > 0:
            return value
        raise Wrong(f"{value} is not a size", 'write bytes above zero, or "20GB"')
    written = text(node)
    found = _SIZE.fullmatch(written)
    if not found or not found[2]:
        number = re.match(r" *(\d+) *([kmgt])", written, re.IGNORECASE)
        like = f"{number[1]}{number[2].upper()}B" if number else "20GB"
        raise Wrong(f"{shown(written)} is not a size", f'write "{like}" (units: KB, MB, GB, TB; KiB, MiB, GiB, TiB)')
    unit = found[2].removesuffix("B")
    base = 1024 if unit.endswith("i") else 1000
    size = int(Decimal(found[1]) * base ** _POWER[unit.removesuffix("i")])
    if size <= 0:
        raise Wrong(f"{shown(written)} is not above zero", "leave the key out if any size will do")
    return size


def moment(node: Node) -> str:
    """A timestamp as RFC 3339 in UTC. A date alone means its end, so that it takes in the whole day."""
    value = node.value
    if isinstance(value, str):
        try:
            is_date = re.fullmatch(r"\d{4}-\d\d-\d\d", value)
            value = dt.date.fromisoformat(value) if is_date else dt.datetime.fromisoformat(value)
        except ValueError:
            value = node.value
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise Wrong(f"{shown(value)} has no time zone", f"write {value.isoformat()}Z for UTC")
        if dt.MINYEAR < value.year < dt.MAXYEAR:  # so that no time zone leads out of the calendar
            return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    elif isinstance(value, dt.date) and value < dt.date.max:
        return f"{value + dt.timedelta(days=1)}T00:00:00Z"
    raise Wrong(f"{shown(value)} is neither a date nor a time", "write 2026-11-30 or 2026-11-30T12:00:00Z")
