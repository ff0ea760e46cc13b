"""A TOML file as values (by tomllib) and the line of every key and list element, which no library gives."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from envlock.spec.faults import KeyPath, tell

__all__ = ["Document", "read_document"]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:\\.|[^"\\])*"|'[^']*'|[^\s=.\]\["'#{},]+)[ \t]*""")
_SCALAR = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')" + r"""|"(?:\\.|[^"\\])*"|'[^']*'|[^,\]}#\n]+""",
    re.DOTALL,
)
_WHERE = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a TOML file, and the 1-based line of each key path in it."""

    values: dict[str, object]
    lines: Mapping[KeyPath, int]


def read_document(data: bytes, file: str) -> Document:
    """Parse TOML; raise FaultyInput (code "spec-faulty") with file and line where the syntax is wrong."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        tell([f"{file}:{line}: byte {data[error.start]:#x} is not UTF-8; save the file as UTF-8 instead"])
    try:
        values = tomllib.loads(text)
        scanner = _Scanner(text)
        scanner.scan()
    except tomllib.TOMLDecodeError as error:
        tell([_syntax_fault(file, text, str(error))])
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; a thousand brackets
        tell([f"{file}:1: cannot be read as TOML: {error}; write a simpler file instead"])
    return Document(values, scanner.lines)


def _syntax_fault(file: str, text: str, message: str) -> str:
    where = _WHERE.search(message)
    line = where["line"] if where and where["line"] else text.rstrip().count("\n") + 1
    column = f" at column {where['column']}" if where and where["column"] else ""
    return f"{file}:{line}: not TOML: {_WHERE.sub('', message)}{column}; write `key = value`, with text in quotes"


@dataclass(slots=True)
class _Scanner:
    """Walks a document that tomllib has accepted, so it may assume that all is well formed."""

    text: str
    position: int = 0
    lines: dict[KeyPath, int] = field(default_factory=dict)
    lengths: dict[KeyPath, int] = field(default_factory=dict)  # of arrays of tables
    newlines: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.newlines = [found.start() for found in re.finditer("\n", self.text)]

    def scan(self) -> None:
        scope: KeyPath = ()
        while self._skip_blank():
            if self.text[self.position] == "[":
                scope = self._header()
            else:
                self._pair(scope)

    def _header(self) -> KeyPath:
        brackets = 2 if self.text.startswith("[[", self.position) else 1
        line = self._line()
        self.position += brackets
        *around, last = self._key()
        self.position += brackets
        path: KeyPath = ()
        for part in around:
            path = self._latest((*path, part))
        path = (*path, last)
        self._note(path, line)
        if brackets == 2:  # noqa: PLR2004 (an array of tables, [[like this]])
            self.lengths[path] = self.lengths.get(path, 0) + 1
            path = self._latest(path)
            self._note(path, line)
        return path

    def _latest(self, path: KeyPath) -> KeyPath:
        """A table's path; of an array of tables, that of the table begun last."""
        return (*path, self.lengths[path] - 1) if path in self.lengths else path

    def _pair(self, scope: KeyPath) -> None:
        line = self._line()
        path = scope
        for part in self._key():
            path = (*path, part)
            self._note(path, line)
        self.position += 1  # the equals sign
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._skip_blank()
        opening = self.text[self.position]
        if opening not in "[{":
            self._match(_SCALAR)
            return
        self.position += 1
        index = 0
        while self._skip_blank() and self.text[self.position] not in "]}":
            if opening == "{":
                self._pair(path)
            else:
                self._note((*path, index), self._line())
                self._value((*path, index))
            index += 1
            self._skip_blank()
            if self.text[self.position] == ",":
                self.position += 1
        self.position += 1

    def _key(self) -> list[str]:
        parts = [self._key_part()]
        while self.text[self.position] == ".":
            self.position += 1
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> str:
        raw = self._match(_KEY)[1]
        if raw[0] not in "\"'":
            return raw
        return str(tomllib.loads(f"key = {raw}")["key"])

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise ValueError(f"line {self._line()} is not understood")
        self.position = found.end()
        return found

    def _skip_blank(self) -> bool:
        """Go to the next thing that counts; whether there is one."""
        self._match(_BLANK)
        return self.position < len(self.text)

    def _line(self) -> int:
        return bisect_left(self.newlines, self.position) + 1

    def _note(self, path: KeyPath, line: int) -> None:
        self.lines.setdefault(path, line)
