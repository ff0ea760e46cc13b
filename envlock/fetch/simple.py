"""What an index has for a project, and what a wheel says of itself: asked once, kept, and asked again when old."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import requests
from packaging.utils import canonicalize_name

from envlock.digest import Digest
from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.http import Http
from envlock.fetch.model import IndexFile, IndexUrl
from envlock.fetch.page_cache import CachedPage, PageCache, max_age
from envlock.fetch.pages import ACCEPT, belongs, list_folder, parse_page
from envlock.fetch.remote_wheel import NoRanges, RemoteFile, read_metadata
from envlock.fetch.store import Store
from envlock.fetch.streams import Fetched, fetch_whole
from envlock.fetch.urls import local_path, mask

__all__ = ["IndexClient"]

_GONE = frozenset({404, 410})
_PAGE_LIMIT = 128 << 20  # bytes
_METADATA_LIMIT = 16 << 20
_SMALL = 1 << 20  # a wheel up to this size is sooner got whole than by ranges, and is then there already


class IndexClient:
    """Reads indexes. Safe to use from several threads.

    Pages are believed for ten minutes at most (less where the server says so), then asked for again with their ETag
    or date. Within one client's life a page is read once. Offline, what was kept is used
    whatever its age. `say` is told what a user should know; `clock` gives Unix time.
    """

    def __init__(
        self,
        http: Http,
        store: Store,
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.http = http
        self._store = store
        self._say = say
        self._clock = clock
        self._cache = PageCache(store)
        self._pages: dict[str, tuple[IndexFile, ...]] = {}
        self._asked: set[str] = set()  # pages that came from their server in this client's life
        self._said: set[str] = set()

    def files(self, project: str, index: IndexUrl, *, fresh: bool = False) -> tuple[IndexFile, ...]:
        """The wheels and sdists that an index has of a project; () where it does not know the project.

        With `fresh` a page that was kept from another time is asked for anew.

        Raises FaultyInput "index-page-faulty", "index-missing", "index-downgraded", and what `Http.get` raises.
        """
        name = canonicalize_name(project)
        folder = index.folder
        if folder is not None:
            listed = self._local(name, folder, index)
        elif index.links:
            listed = self._page(self.http.remember(index.url), fresh=fresh)
        else:
            listed = self._page(_project_url(self.http.remember(index.url), name), fresh=fresh)
        return tuple(file for file in listed if belongs(file.file, name))

    def metadata(self, file: IndexFile) -> bytes | None:
        """The METADATA that the index serves beside a wheel (PEP 658), verified where it states a hash.

        None where it serves none. Raises FaultyInput "hash-mismatch".
        """
        expected = file.metadata_sha256
        if not file.has_metadata:
            return None
        kept = self._store.find(expected) if expected else None
        if kept is not None:
            return kept.read_bytes()
        data = self._beside(f"{file.url}.metadata")
        if data is None or expected is None:
            return data
        if (found := Digest.of(data)) != expected:
            raise FaultyInput(
                f"the metadata of {file.file} is not what its index promises: expected {expected}, found {found} "
                f"at {mask(file.url)}.metadata",
                hint="The mirror serves wrong bytes; try another index.",
                code="hash-mismatch",
            )
        self._keep(lambda: self._store.put(data))
        return data

    def wheel_metadata(self, file: IndexFile) -> bytes:
        """A wheel's METADATA, whatever it takes: from the index, out of the wheel by ranges, or by getting it whole.

        Raises FaultyInput "wheel-faulty" or "hash-mismatch", and what `Http.get` raises.
        """
        note = self._note("metadata", file)
        if note is not None and note.is_file():
            return note.read_bytes()
        data = self.metadata(file)
        if data is None:
            data = self._from_wheel(file)
        if note is not None:
            kept = data
            self._keep(lambda: self._store.write(note, kept))
        return data

    def whole(self, file: IndexFile) -> Fetched:
        """The file itself, with its digest: computed where the index states none, and remembered then."""
        if file.sha256 is not None and (kept := self._store.find(file.sha256, file.size)) is not None:
            return Fetched(path=kept, sha256=file.sha256, size=kept.stat().st_size)
        local = local_path(file.url) is not None
        note = self._store.area("index") / "computed" / f"{_key(file.url)}.json"
        if file.sha256 is None and not local and (known := self._computed(note, file)) is not None:
            return known
        fetched = fetch_whole(self.http, self._store, file.url, file.sha256)
        if file.sha256 is None and not local:
            record = json.dumps({"sha256": fetched.sha256.hex, "size": fetched.size}).encode()
            self._keep(lambda: self._store.write(note, record))
        return fetched

    def _local(self, name: str, folder: Path, index: IndexUrl) -> tuple[IndexFile, ...]:
        """A page, or a folder of files, of projects' folders, or of both."""
        if folder.is_file():
            return self._once(str(folder), lambda: parse_page(folder.read_bytes(), "text/html", folder.as_uri()))
        if not folder.is_dir():
            if index.links:  # pip only warns, and so do we
                self._say_once(f"{folder}, named as find-links, does not exist")
                return ()
            raise FaultyInput(
                f"the index {index.name!r} is to be at {folder}, which does not exist",
                hint="Correct its URL in pip's or uv's configuration or in the spec.",
                code="index-missing",
            )
        found = self._once(str(folder), lambda: list_folder(folder))
        below = folder / name
        if not below.is_dir():
            return found
        page = below / "index.html"
        if page.is_file():
            return found + self._once(str(page), lambda: parse_page(page.read_bytes(), "text/html", page.as_uri()))
        return found + self._once(str(below), lambda: list_folder(below))

    def _once(self, key: str, read: Callable[[], tuple[IndexFile, ...]]) -> tuple[IndexFile, ...]:
        if key not in self._pages:
            self._pages[key] = read()
        return self._pages[key]

    def _page(self, url: str, *, fresh: bool) -> tuple[IndexFile, ...]:
        if url not in self._pages or (fresh and url not in self._asked):
            self._pages[url] = self._current(url, fresh=fresh).files or ()
        return self._pages[url]

    def _current(self, url: str, *, fresh: bool) -> CachedPage:
        kept = self._cache.load(url)
        now = self._clock()
        if kept is not None and (self.http.offline or (not fresh and 0 <= now - kept.fetched < kept.age)):
            return kept
        headers = {"Accept": ACCEPT} | ({"Cache-Control": "no-cache"} if fresh else {})
        if kept is not None and kept.files is not None:
            headers |= {"If-None-Match": kept.etag} if kept.etag else {}
            headers |= {"If-Modified-Since": kept.modified} if kept.modified else {}
        # Indexes that are a bucket of files answer 403 for a project that they do not have.
        absent = _GONE | (frozenset() if self.http.knows(url) else {403})
        response = self.http.get(url, headers=headers, allow=absent | {304}, limit=_PAGE_LIMIT)
        if response.status_code in absent:
            files: tuple[IndexFile, ...] | None = None
        elif response.status_code == HTTPStatus.NOT_MODIFIED and kept is not None:
            files = kept.files
        else:
            files = _parse(url, response)
        page = CachedPage(
            files=files,
            fetched=now,
            age=max_age(response.headers),
            etag=response.headers.get("etag"),
            modified=response.headers.get("last-modified"),
        )
        self._asked.add(url)
        self._cache.keep(url, page)
        return page

    def _beside(self, url: str) -> bytes | None:
        path = local_path(url)
        if path is not None:
            return path.read_bytes() if path.is_file() else None
        response = self.http.get(url, allow=_GONE, limit=_METADATA_LIMIT)
        return None if response.status_code in _GONE else response.content

    def _from_wheel(self, file: IndexFile) -> bytes:
        path = local_path(file.url)
        if path is None and file.sha256 is not None:
            path = self._store.find(file.sha256, file.size)
        if path is None and (file.size is None or file.size > _SMALL):
            try:
                with io.BufferedReader(RemoteFile(self.http, file.url, file.size), 1) as remote:
                    return read_metadata(remote, file.file)
            except NoRanges:
                self._say_once(f"{urlsplit(file.url).hostname} serves no ranges: whole wheels are got for metadata")
        with (path or self.whole(file).path).open("rb") as opened:
            return read_metadata(opened, file.file)

    def _note(self, kind: str, file: IndexFile) -> Path | None:
        """Where a small fact about a file is kept; None for a file that no hash identifies."""
        if file.sha256 is None:
            return None
        return self._store.area("index") / kind / file.sha256.hex[:2] / file.sha256.hex

    def _computed(self, note: Path, file: IndexFile) -> Fetched | None:
        try:
            record = json.loads(note.read_bytes())
            digest, size = Digest.parse(record["sha256"]), int(record["size"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        path = self._store.find(digest, size) if file.size in {None, size} else None
        return Fetched(path=path, sha256=digest, size=size) if path else None

    def _keep(self, write: Callable[[], object]) -> None:
        """Keep something that can be had again: a store that cannot be written to is no reason to stop."""
        try:
            write()
        except MachineLacks as exc:
            if exc.code != "store-not-writable":
                raise

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def _parse(url: str, response: requests.Response) -> tuple[IndexFile, ...]:
    # The hashes come from this page, so it must come by a way that is as safe as the one asked for.
    if url.startswith("https:") and not response.url.startswith("https:"):
        raise FaultyInput(
            f"the index at {mask(url)} redirects to {mask(response.url)}, which anyone on the way can change",
            hint="Name an index that stays on https.",
            code="index-downgraded",
        )
    return parse_page(response.content, response.headers.get("content-type", ""), response.url)


def _project_url(index: str, name: str) -> str:
    parts = urlsplit(index)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}/", fragment=""))


def _key(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()
