"""Whole files without a plan: got in one go, hashed as they arrive, and taken into the store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests
import urllib3

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput
from envlock.fetch.http import Http
from envlock.fetch.http_faults import explain
from envlock.fetch.store import Store
from envlock.fetch.urls import file_name, local_path, mask

__all__ = ["Fetched", "fetch_whole", "read_body"]

_BLOCK = 1 << 20
_TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file on this machine: in the store, or where the user keeps it (a file URL)."""

    path: Path
    sha256: Digest
    size: int


def fetch_whole(http: Http, store: Store, url: str, expected: Digest | None) -> Fetched:
    """Get one file; a local one is hashed where it lies.

    Raises FaultyInput "hash-mismatch", or what `Http.get` raises.
    """
    local = local_path(url)
    if local is not None:
        fetched = Fetched(path=local, sha256=Digest.of_file(local), size=local.stat().st_size)
        _check(url, expected, fetched.sha256)
        return fetched
    for left in reversed(range(_TRIES)):
        try:
            return _stream(http, store, url, expected)
        except EnvlockError as exc:
            if left == 0 or exc.code not in {"cut-off", "timeout"}:
                raise
    raise AssertionError("the last try returns or raises")


def read_body(response: requests.Response, *, block: int = _BLOCK) -> Iterator[bytes]:
    """The body's bytes as they come over the wire; a break raises what `Http.get` would raise for it."""
    try:
        while data := response.raw.read(block, decode_content=False):
            yield data
    except (urllib3.exceptions.HTTPError, requests.exceptions.RequestException, OSError) as exc:
        raise explain(exc, response.url, ca_file=None)[0] from exc


def _stream(http: Http, store: Store, url: str, expected: Digest | None) -> Fetched:
    hasher = hashlib.sha256()
    with store.temporary() as scratch:
        part = scratch / (file_name(url) or "file")
        with http.get(url, headers={"Accept-Encoding": "identity"}, stream=True) as response, part.open("wb") as out:
            for data in read_body(response):
                hasher.update(data)
                out.write(data)
        found = Digest(hasher.hexdigest())
        _check(url, expected, found)
        size = part.stat().st_size
        return Fetched(path=store.adopt(part, found, verified=True), sha256=found, size=size)


def _check(url: str, expected: Digest | None, found: Digest) -> None:
    if expected is not None and found != expected:
        raise FaultyInput(
            f"{file_name(url)} is not the file its index promises: expected {expected}, found {found} at {mask(url)}",
            hint="The mirror serves wrong bytes; try another index.",
            code="hash-mismatch",
        )
