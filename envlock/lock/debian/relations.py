"""Relationship fields of Debian packages (Depends, Conflicts, Provides ...), as deb-control(5) defines them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from envlock.lock.debian.version import Version, satisfies

__all__ = ["Relation", "parse_alternatives", "parse_list"]

_RELATION = re.compile(
    r"\s*(?P<name>[a-z0-9][a-z0-9+.-]*)"
    r"(?::(?P<qualifier>[a-z0-9-]+))?"
    r"(?:\s*\(\s*(?P<operator><<|<=|=|>=|>>)\s*(?P<version>[^\s()]+)\s*\))?\s*"
)


@dataclass(frozen=True, slots=True)
class Relation:
    """One package name with the versions it is about.

    `operator` is one of `<< <= = >= >>`, or "" for any version. `qualifier` is the architecture after the colon:
    "any", "native", an architecture's name, or "".
    """

    name: str
    qualifier: str = ""
    operator: str = ""
    version: str = ""

    def admits(self, version: str) -> bool:
        """Whether a package of this version is meant."""
        return not self.operator or satisfies(version, self.operator, self.version)

    def __str__(self) -> str:
        qualifier = f":{self.qualifier}" if self.qualifier else ""
        version = f" ({self.operator} {self.version})" if self.operator else ""
        return f"{self.name}{qualifier}{version}"


def parse_alternatives(field: str) -> tuple[tuple[Relation, ...], ...]:
    """Read Depends or Pre-Depends: all of the groups are needed, and of each group one. ValueError on a fault."""
    return tuple(
        tuple(_relation(alternative) for alternative in group.split("|"))
        for group in field.split(",")
        if group.strip()
    )


def parse_list(field: str) -> tuple[Relation, ...]:
    """Read Conflicts, Breaks or Provides: a plain list. ValueError on a fault."""
    return tuple(_relation(entry) for entry in field.split(",") if entry.strip())


@lru_cache(maxsize=16384)
def _relation(text: str) -> Relation:
    found = _RELATION.fullmatch(text)
    if not found:
        raise ValueError(f"not a package relation: {text.strip()[:120]!r}")
    operator, version = found["operator"] or "", found["version"] or ""
    if operator:
        Version.parse(version)
    return Relation(found["name"], found["qualifier"] or "", operator, version)
