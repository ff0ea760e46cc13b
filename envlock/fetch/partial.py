"""A file that is on its way: kept over runs and kills, and hashed as it grows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from envlock.digest import Digest
from envlock.fetch.store import FULL

__all__ = ["Partial"]

_BLOCK = 1 << 20


class Partial:
    """A partial file, open for appending; what it already holds is hashed once, on opening.

    `advance` is told of bytes that are there; a negative number takes some back. Beside the file, `<file>.from`
    notes which URL its bytes came from and that URL's ETag, for If-Range.
    """

    def __init__(self, path: Path, size: int, advance: Callable[[int], None]) -> None:
        self.size = size
        self.have = 0
        self._path = path
        self._note = path.with_name(f"{path.name}.from")
        self._advance = advance
        self._hasher = hashlib.sha256()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")

    def __enter__(self) -> Self:
        self._file.seek(0)
        while block := self._file.read(_BLOCK):
            self._hasher.update(block)
            self.have += len(block)
        self._advance(self.have)
        if self.have > self.size:
            self.restart()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        full = isinstance(value, OSError) and value.errno in FULL
        try:
            self._file.close()
        finally:
            # On a full disk what is there is worth less than the room it takes.
            if full or (self.have == 0 and self.size > 0):
                self.forget()

    @property
    def digest(self) -> Digest:
        """The digest of what is there."""
        return Digest(self._hasher.hexdigest())

    def append(self, data: bytes) -> None:
        """Add bytes that are known to fit."""
        self._file.write(data)
        self._hasher.update(data)
        self.have += len(data)
        self._advance(len(data))

    def restart(self) -> None:
        """Drop what is there."""
        self._file.truncate(0)
        self._advance(-self.have)
        self.have = 0
        self._hasher = hashlib.sha256()

    def forget(self) -> None:
        """Remove the file and its note."""
        self._path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def came_from(self, url: str, etag: str | None) -> None:
        """Note whose bytes these are."""
        self._note.write_text(json.dumps({"url": _key(url), "etag": etag}), encoding="utf-8")

    def etag_of(self, url: str) -> str | None:
        """The strong ETag under which the bytes that are there were sent, if it was this URL that sent them."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            etag = note["etag"] if note["url"] == _key(url) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return etag if isinstance(etag, str) and etag.startswith('"') else None


def _key(url: str) -> str:
    """A URL without giving it away: it may hold a token."""
    return hashlib.sha256(url.encode()).hexdigest()
