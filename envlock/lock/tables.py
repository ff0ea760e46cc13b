"""Typed reading of a lock's TOML tables that collects faults, each with its key path, and goes on."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

__all__ = ["Parser", "Table", "Wrong", "boolean", "list_of", "shown"]

T = TypeVar("T")
D = TypeVar("D")
Parser = Callable[[object], T]  # raises Wrong

_LONGEST_SHOWN = 60


class Wrong(Exception):
    """A value is not what it must be; the words follow its key, as in "is 3, not a string"."""


class Table:
    """One table: each key is taken once; a fault is noted, and the reading goes on with a stand-in.

    A lock with a fault in it is never returned, so what the stand-ins make is never seen.
    """

    def __init__(self, values: Mapping[str, object], path: str, faults: list[str]) -> None:
        self._values = dict(values)
        self._path = path
        self._faults = faults
        self._known: list[str] = []

    def require(self, key: str, parse: Parser[T]) -> T:
        """The key's value; absent is a fault."""
        if key not in self._values:
            self._known.append(key)
            self.fault(key, "is missing")
            return cast("T", None)
        return self.take(key, parse, cast("T", None))

    def take(self, key: str, parse: Parser[T], default: D) -> T | D:
        """The key's value, or `default` where it is absent."""
        self._known.append(key)
        if key not in self._values:
            return default
        try:
            return parse(self._values.pop(key))
        except Wrong as exc:
            self.fault(key, str(exc))
            return default

    def table(self, key: str) -> Table:
        """A table inside this one; absent is a fault."""
        found = self.require(key, _table)
        return Table(found or {}, self._at(key), self._faults)

    def optional_table(self, key: str) -> Table | None:
        """A table inside this one, if it is there."""
        found = self.take(key, _table, None)
        return None if found is None else Table(found, self._at(key), self._faults)

    def tables(self, key: str) -> tuple[Table, ...]:
        """An array of tables inside this one; () where it is absent."""
        found = self.take(key, _array_of_tables, ())
        return tuple(Table(item, f"{self._at(key)}[{index}]", self._faults) for index, item in enumerate(found))

    def fault(self, key: str, words: str) -> None:
        """Note a fault of one key."""
        self._faults.append(f"{self._at(key)} {words}")

    def end(self) -> None:
        """All keys have been taken: what is left over is unknown."""
        for key in self._values:
            meant = difflib.get_close_matches(key, self._known, n=1)
            self.fault(key, "is not a key of a lock" + (f" (is {meant[0]} meant?)" if meant else ""))

    def _at(self, key: str) -> str:
        written = key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else json.dumps(key)
        return f"{self._path}.{written}" if self._path else written


def shown(value: object) -> str:
    """A value in short, for a fault."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def boolean(value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise Wrong(f"is {shown(value)}, not true or false")


def list_of(parse: Parser[T], *, least: int = 0) -> Parser[tuple[T, ...]]:
    """A parser of lists, of distinct elements and at least so many of them."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise Wrong(f"is {shown(value)}, not a list")
        found: list[T] = []
        for index, item in enumerate(value):
            try:
                element = parse(item)
            except Wrong as exc:
                raise Wrong(f"has an element {index} that {exc}") from None
            if element in found:
                raise Wrong(f"has {shown(item)} twice")
            found.append(element)
        if len(found) < least:
            raise Wrong("is empty")
        return tuple(found)

    return read


def _table(value: object) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise Wrong(f"is {shown(value)}, not a table")


def _array_of_tables(value: object) -> tuple[Mapping[str, object], ...]:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return tuple(value)
    raise Wrong(f"is {shown(value)}, not an array of tables")
