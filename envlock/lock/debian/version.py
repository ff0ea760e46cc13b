"""Debian versions and their order, as deb-version(7) defines it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from itertools import zip_longest

__all__ = ["Version", "satisfies"]

_LONGEST = 512  # characters; the archive's longest are near 60, and an endless one would only cost time
_VERSION = re.compile(
    r"(?:(?P<epoch>[0-9]{1,9}):(?=[^:]))?"
    r"(?P<upstream>(?(epoch)[0-9A-Za-z.+~:-]|[0-9A-Za-z.+~-])+?)"
    r"(?:-(?P<revision>[0-9A-Za-z.+~]+))?(?<!-)"
)
_PAIRS = re.compile(r"([^0-9]*)([0-9]*)")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A Debian version, `[epoch:]upstream[-revision]`; no revision is the same as revision 0."""

    text: str
    epoch: int
    upstream: str
    revision: str

    @classmethod
    @lru_cache(maxsize=8192)
    def parse(cls, text: str) -> Version:
        """Read a version; raise ValueError on what is none."""
        found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
        if not found:
            raise ValueError(f"not a Debian version: {text[:80]!r}")
        return cls(text, int(found["epoch"] or 0), found["upstream"], found["revision"] or "")

    def compare(self, other: Version) -> int:
        """Negative, zero or positive as this version is earlier than, equal to or later than the other."""
        if self.epoch != other.epoch:
            return self.epoch - other.epoch
        return _compare_part(self.upstream, other.upstream) or _compare_part(self.revision, other.revision)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.compare(other) == 0

    def __lt__(self, other: Version) -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        # 1.0 and 1.00 are equal, so only what cannot differ between equal versions is hashed.
        return hash(self.epoch)

    def __str__(self) -> str:
        return self.text


def satisfies(version: str, operator: str, wanted: str) -> bool:
    """Whether a version stands in this relation (`<<`, `<=`, `=`, `>=`, `>>`) to the wanted one."""
    order = Version.parse(version).compare(Version.parse(wanted))
    match operator:
        case "<<":
            return order < 0
        case "<=":
            return order <= 0
        case "=":
            return order == 0
        case ">=":
            return order >= 0
        case ">>":
            return order > 0
    raise ValueError(f"not a version relation: {operator!r}")


def _compare_part(left: str, right: str) -> int:
    for (left_text, left_digits), (right_text, right_digits) in zip_longest(
        _PAIRS.findall(left), _PAIRS.findall(right), fillvalue=("", "")
    ):
        order = _compare_text(left_text, right_text) or int(left_digits or 0) - int(right_digits or 0)
        if order:
            return order
    return 0


def _compare_text(left: str, right: str) -> int:
    for one, other in zip_longest(left, right, fillvalue=""):
        if one != other:
            return _weight(one) - _weight(other)
    return 0


def _weight(character: str) -> int:
    """A tilde sorts before the end of the text, the end before letters, letters before everything else."""
    if character == "~":
        return -1
    if not character:
        return 0
    return ord(character) if character.isalpha() else ord(character) + 256
