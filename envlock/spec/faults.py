"""Faults of a specification, collected while it is read and told all at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from envlock.errors import FaultyInput

__all__ = ["Fault", "Faults", "KeyPath", "Wrong", "dotted", "tell"]

KeyPath = tuple[str | int, ...]

# What stands before the host in a URL, but for `git@`: a fault may quote a line that holds a password.
_CREDENTIALS = re.compile(r"(?<=://)(?!git@)[^/\s]+@")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Wrong(Exception):
    """One value is wrong: what is wrong with it, and what to write instead."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what}; {instead}")


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault, sorted as it is told: the specification's own first, then file by file and line by line."""

    elsewhere: bool
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Faults:
    """The faults of one specification and of the requirements files that it names.

    A key is *sound* until a fault is told of it or of a table that it stands in; questions that need two keys
    are asked of sound ones only, so that one mistake is told once.
    """

    def __init__(self, file: str, lines: Mapping[KeyPath, int]) -> None:
        self.file = file
        self._lines = lines
        self._found: set[Fault] = set()
        self._unsound: set[KeyPath] = set()

    def add(self, key: KeyPath, fault: Wrong | str) -> None:
        """A fault of this key's value; its line is the key's, or that of the nearest table around it."""
        self._unsound.add(key)
        self._found.add(Fault(elsewhere=False, file=self.file, line=self._line(key), text=f"{dotted(key)}: {fault}"))

    def add_elsewhere(self, file: str, line: int, fault: Wrong | str) -> None:
        """A fault of another file, such as a requirements file."""
        self._found.add(Fault(elsewhere=True, file=file, line=line, text=str(fault)))

    def excuse(self, key: KeyPath) -> None:
        """Another fault tells already why this key is not what it should be (it was misspelt, say)."""
        self._unsound.add(key)

    def sound(self, *keys: KeyPath) -> bool:
        """Whether nothing is wrong so far with any of these keys, nor with the tables around them."""
        return not any(key[:end] in self._unsound for key in keys for end in range(1, len(key) + 1))

    def raise_any(self) -> None:
        """Raise FaultyInput (code "spec-faulty") with every fault, where there is one."""
        if self._found:
            tell([str(fault) for fault in sorted(self._found)])

    def _line(self, key: KeyPath) -> int:
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)


def tell(faults: list[str]) -> NoReturn:
    """Raise the one error that lists these faults, with the credentials of any URL masked."""
    ending = "this fault" if len(faults) == 1 else f"these {len(faults)} faults"
    raise FaultyInput(
        _CREDENTIALS.sub("***@", "\n".join(faults)),
        hint=f"Correct {ending}; docs/spec.md describes every key.",
        code="spec-faulty",
    )


def dotted(key: KeyPath) -> str:
    """A key as it is talked about: `image.copy[0].to`."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE_KEY.fullmatch(part) else json.dumps(part))
    return text
