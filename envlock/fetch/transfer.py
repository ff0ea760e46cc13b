"""One file from one URL: resumed where it stopped, checked as it comes, and given up when it cannot be right."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import requests

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput
from envlock.fetch.http import Http, back_off
from envlock.fetch.partial import Partial
from envlock.fetch.streams import read_body
from envlock.fetch.urls import local_path, mask

__all__ = ["Stopped", "Transfers", "WrongBytes"]

_BLOCK = 128 << 10  # small enough that little is lost when a slow transfer is stopped
_OK, _PARTIAL, _NOT_SATISFIABLE = 200, 206, 416
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d+/(\d+|\*)")
_LENGTH = re.compile(r"\d{1,18}")
_BREAKS = {"cut-off", "timeout"}  # what another request from where it stopped can mend
_BLIPS = {"dns", "unreachable", "proxy", "tls", "server-busy"}  # what can be one, where it has worked before


class Stopped(Exception):
    """The transfer was told to stop; its partial file stays."""


class WrongBytes(FaultyInput):
    """A URL serves something else than the file wanted."""


class Transfers:
    """Transfers that can be stopped together, at once: sockets that are being waited on are shut."""

    def __init__(self, http: Http) -> None:
        self.fetched = 0  # bytes that came by the network
        self._http = http
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._open: set[requests.Response] = set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End all transfers; each raises Stopped in its own thread."""
        self._stop.set()
        with self._lock:
            responses = list(self._open)
        for response in responses:
            with suppress(OSError, ValueError, RuntimeError, AttributeError):  # it ended by itself just now
                response.raw.shutdown()

    def pause(self, seconds: float) -> None:
        """Sleep, or raise Stopped."""
        if self._stop.wait(seconds):
            raise Stopped

    def complete(self, url: str, part: Partial, sha256: Digest, label: str) -> None:
        """Fill the partial file up from this URL until it is the file wanted.

        Raises WrongBytes when the URL does not serve that file (nothing is left in the partial file then), Stopped,
        and what `Http.get` raises.
        """
        resumed = part.have > 0
        try:
            self._fill(url, part, label)
            self._check(url, part, sha256, label)
        except WrongBytes:
            part.restart()
            if not resumed:
                raise
            # The beginning may have been another URL's fault: this one gets its chance with all of it.
            self.complete(url, part, sha256, label)

    def _fill(self, url: str, part: Partial, label: str) -> None:
        best, failures = part.have, 0
        while part.have < part.size:
            fault: EnvlockError | None = None
            try:
                for data in self._pieces(url, part, label):
                    if part.have + len(data) > part.size:
                        raise _wrong(url, label, f"more than the {part.size:,} bytes it should have")
                    part.append(data)
            except EnvlockError as exc:
                if exc.code not in _BREAKS and not (exc.code in _BLIPS and self.fetched):
                    raise
                fault = exc
            # Only what goes beyond everything before is progress: a server may start over each time.
            failures = 0 if part.have > best else failures + 1
            best = max(best, part.have)
            if failures >= self._http.settings.attempts:
                raise fault or _wrong(url, label, f"only {part.have:,} of {part.size:,} bytes")
            if part.have < part.size:
                self.pause(back_off(failures + 1, self._http.settings.first_wait))

    def _check(self, url: str, part: Partial, sha256: Digest, label: str) -> None:
        if part.digest != sha256:
            raise _wrong(url, label, f"a file with {part.digest}, where {sha256} is expected")

    def _pieces(self, url: str, part: Partial, label: str) -> Iterator[bytes]:
        local = local_path(url)
        if local is not None:
            yield from self._from_disk(local, url, part, label)
            return
        with self._asked(url, part) as response:
            if response.status_code == _NOT_SATISFIABLE:
                part.restart()
                return
            _judge(response, url, part, label)
            for data in self._body(response):
                with self._lock:
                    self.fetched += len(data)
                yield data

    def _body(self, response: requests.Response) -> Iterator[bytes]:
        try:
            for data in read_body(response, block=_BLOCK):
                if self.stopped:
                    raise Stopped
                yield data
        except EnvlockError as exc:
            if self.stopped:  # the break is our own doing
                raise Stopped from exc
            raise
        if self.stopped:
            raise Stopped

    @contextmanager
    def _asked(self, url: str, part: Partial) -> Iterator[requests.Response]:
        headers = {"Accept-Encoding": "identity"}
        if part.have:
            headers["Range"] = f"bytes={part.have}-"
            if etag := part.etag_of(url):
                headers["If-Range"] = etag
        allow = frozenset({_NOT_SATISFIABLE}) if part.have else frozenset[int]()
        with self._http.get(url, headers=headers, stream=True, allow=allow, pause=self.pause) as response:
            with self._lock:
                self._open.add(response)
            try:
                if self.stopped:
                    raise Stopped
                yield response
            finally:
                with self._lock:
                    self._open.discard(response)

    def _from_disk(self, path: Path, url: str, part: Partial, label: str) -> Iterator[bytes]:
        try:
            with path.open("rb") as file:
                if path.stat().st_size != part.size:
                    raise _wrong(url, label, f"a file of {path.stat().st_size:,} bytes, not {part.size:,}")
                file.seek(part.have)
                while data := file.read(_BLOCK):
                    if self.stopped:
                        raise Stopped
                    yield data
        except (FileNotFoundError, PermissionError, IsADirectoryError) as exc:
            raise FaultyInput(
                f"{path} cannot be read: {exc.strerror}",
                hint="See whether the index's folder is right.",
                code="not-found",
            ) from exc


def _judge(response: requests.Response, url: str, part: Partial, label: str) -> None:
    """Look at the answer's head before its body; makes the partial file empty where the body is the whole file."""
    if response.status_code == _PARTIAL:
        match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        if match is None or int(match[1]) != part.have or match[2] not in {"*", str(part.size)}:
            said = response.headers.get("content-range", "no range at all")
            raise _wrong(url, label, f"{said} to a request for the bytes from {part.have:,} of {part.size:,}")
        return
    if response.status_code != _OK:
        raise _wrong(url, label, f"HTTP status {response.status_code}")
    length = response.headers.get("content-length", "")
    if _LENGTH.fullmatch(length) and int(length) != part.size:
        raise _wrong(url, label, f"a file of {int(length):,} bytes, not {part.size:,}")
    if part.have:
        part.restart()
    part.came_from(url, response.headers.get("etag"))


def _wrong(url: str, label: str, what: str) -> WrongBytes:
    return WrongBytes(
        f"{label}: {mask(url)} serves {what}",
        hint="The mirror serves wrong bytes, or the lock is of another day: try another index, or lock anew.",
        code="hash-mismatch",
    )
