"""Typed reading of TOML tables that collects faults and goes on."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from envlock.spec.faults import Faults, KeyPath, Wrong
from envlock.spec.keys import KEYS

__all__ = ["Node", "Parser", "Table", "nearest"]

_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the file and where it stands."""

    value: object
    key: KeyPath
    faults: Faults

    def child(self, part: str | int, value: object) -> Node:
        """A value inside this one."""
        return Node(value, (*self.key, part), self.faults)

    def attempt(self, parse: Parser[_T], instead: _D) -> _T | _D:
        """What `parse` makes of the value; where it is wrong, the fault is noted and `instead` returned."""
        try:
            return parse(self)
        except Wrong as wrong:
            self.faults.add(self.key, wrong)
            return instead


Parser = Callable[[Node], _T]  # raises Wrong


class Table:
    """One table of the file; a key that KEYS does not know is a fault as soon as the table is opened."""

    def __init__(self, node: Node, schema: str) -> None:
        self.key = node.key
        self.faults = node.faults
        self._node = node
        self._schema = schema
        self._values = node.value if isinstance(node.value, dict) else {}
        for key in self._values:
            if key not in KEYS[schema]:
                self._tell_unknown(key)

    def has(self, key: str) -> bool:
        """Whether the file gives this key."""
        return key in self._values

    def take(self, key: str, parse: Parser[_T], default: _D) -> _T | _D:
        """The key's value; `default` where it is absent or wrong."""
        child = self._child(key)
        return child.attempt(parse, default) if self.has(key) else default

    def require(self, key: str, parse: Parser[_T], instead: _D, example: str) -> _T | _D:
        """The key's value; where it is absent or wrong, a stand-in with which the rest can still be read.

        `example` is the line to write, as in `name = "qlora"`.
        """
        child = self._child(key)
        if self.has(key):
            return child.attempt(parse, instead)
        if self.faults.sound(child.key):
            self.faults.add(child.key, f"missing; write `{example}` in {self._header()}")
        return instead

    def table(self, key: str) -> Table:
        """A table inside this one; empty where it is absent or wrong."""
        schema = self._inner(key)
        node = self._child(key, {})
        node.attempt(_is_table(schema), None)
        return Table(node, schema)

    def tables(self, key: str) -> tuple[Table, ...]:
        """An array of tables inside this one; empty where it is absent or wrong."""
        schema = self._inner(key)
        nodes = self._child(key, []).attempt(_is_array_of_tables(schema), ())
        return tuple(Table(node, schema) for node in nodes)

    def _child(self, key: str, default: object = None) -> Node:
        return self._node.child(key, self._values.get(key, default))

    def _inner(self, key: str) -> str:
        return f"{self._schema}.{key}" if self._schema else key

    def _header(self) -> str:
        return f"[[{self._schema}]]" if self.key and isinstance(self.key[-1], int) else f"[{self._schema}]"

    def _tell_unknown(self, key: str) -> None:
        meant = nearest(key, KEYS[self._schema])
        elsewhere = [schema for schema, keys in KEYS.items() if schema and key in keys]
        if meant:
            self.faults.excuse((*self.key, meant))
            instead = f"write {meant}"
        elif elsewhere:
            instead = f"it belongs in [{elsewhere[0]}]"
        else:
            instead = f"the keys here are {', '.join(KEYS[self._schema])}"
        self.faults.add((*self.key, key), f"unknown key; {instead}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant, if any is like it."""
    plain = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word.casefold(), plain, n=1, cutoff=0.6)
    return plain[found[0]] if found else None


def _is_table(schema: str) -> Parser[None]:
    def check(node: Node) -> None:
        if not isinstance(node.value, dict):
            what = "an array of tables" if isinstance(node.value, list) else "not a table"
            raise Wrong(what, f"write it as one table, [{schema}]")

    return check


def _is_array_of_tables(schema: str) -> Parser[tuple[Node, ...]]:
    def check(node: Node) -> tuple[Node, ...]:
        if isinstance(node.value, list) and all(isinstance(item, dict) for item in node.value):
            return tuple(node.child(index, item) for index, item in enumerate(node.value))
        what = "a single table" if isinstance(node.value, dict) else "not an array of tables"
        raise Wrong(what, f"write each one under a heading of its own, [[{schema}]]")

    return check
