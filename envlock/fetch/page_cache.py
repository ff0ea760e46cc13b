"""Index pages kept on disk in a form that is quick to read, with what is needed to ask whether they changed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlock.digest import Digest
from envlock.errors import MachineLacks
from envlock.fetch.model import IndexFile
from envlock.fetch.store import Store

__all__ = ["CachedPage", "PageCache", "max_age"]

_FORMAT = 1
_LONGEST = 600.0  # seconds that a page is believed without asking, whatever its server says
_MAX_AGE = re.compile(r"max-age\s*=\s*\"?(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPage:
    """A page's files as of `fetched` (Unix time), good for `age` seconds. `files` is None where there was no page."""

    files: tuple[IndexFile, ...] | None
    fetched: float
    age: float
    etag: str | None = None
    modified: str | None = None


class PageCache:
    """Pages by URL, below the store's area "index". An unreadable entry is as good as none."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load(self, url: str) -> CachedPage | None:
        """The page as it was last kept."""
        try:
            record = json.loads(self._path(url).read_bytes())
            if record["format"] != _FORMAT or record["url"] != url:
                return None
            files = record["files"]
            return CachedPage(
                files=None if files is None else tuple(_unpack(row) for row in files),
                fetched=float(record["fetched"]),
                age=float(record["age"]),
                etag=record["etag"],
                modified=record["modified"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, url: str, page: CachedPage) -> None:
        """Keep a page; a store that cannot be written to just keeps none."""
        record = {
            "format": _FORMAT,
            "url": url,
            "fetched": page.fetched,
            "age": page.age,
            "etag": page.etag,
            "modified": page.modified,
            "files": None if page.files is None else [_pack(file) for file in page.files],
        }
        try:
            self._store.write(self._path(url), json.dumps(record, separators=(",", ":")).encode())
        except MachineLacks as exc:
            if exc.code != "store-not-writable":
                raise

    def _path(self, url: str) -> Path:
        key = hashlib.sha256(url.encode()).hexdigest()
        return self._store.area("index") / "pages" / key[:2] / f"{key}.json"


def max_age(headers: Mapping[str, str]) -> float:
    """For how many seconds an answer may be believed, by its Cache-Control; ten minutes at most, and by default."""
    control = headers.get("cache-control", "").lower()
    if "no-cache" in control or "no-store" in control:
        return 0.0
    stated = _MAX_AGE.search(control)
    return min(_LONGEST, float(stated[1])) if stated else _LONGEST


def _pack(file: IndexFile) -> list[object]:
    return [
        file.file,
        file.url,
        file.sha256 and file.sha256.hex,
        file.size,
        file.requires_python,
        file.yanked,
        file.upload_time,
        file.metadata_sha256 and file.metadata_sha256.hex,
        file.has_metadata,
    ]


def _unpack(row: list[Any]) -> IndexFile:
    """A file as `_pack` wrote it."""
    name, url, sha256, size, requires_python, yanked, upload_time, metadata_sha256, has_metadata = row
    return IndexFile(
        file=name,
        url=url,
        sha256=sha256 and Digest(sha256),
        size=size,
        requires_python=requires_python,
        yanked=yanked,
        upload_time=upload_time,
        metadata_sha256=metadata_sha256 and Digest(metadata_sha256),
        has_metadata=has_metadata,
    )
