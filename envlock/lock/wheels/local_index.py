"""The loopback index: what a catalogue offers, served to a resolver for as long as it runs.

For each version there is one wheel, named as if it fitted everywhere: what fits was decided before, for the target,
and a resolver that judges by the machine it happens to run on must not decide it again. The wheel served holds the
real one's METADATA and nothing else, which is all that resolving needs.
"""

from __future__ import annotations

import html
import json
import re
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envlock.lock.wheels.stub import stub_name, stub_wheel

__all__ = ["LocalIndex", "Shelf"]

_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = "text/html; charset=utf-8"
_PAGE = re.compile(r"/simple/([^/]+)/?")
_FILE = re.compile(r"/files/([^/]+)/([^/]+)/[^/]+\.whl(\.metadata)?")


class Shelf(Protocol):
    """What is served; `Catalogue` is one."""

    def versions(self, name: str) -> Sequence[Version] | None:
        """The versions of a project; None where there is no such project."""

    def metadata(self, name: str, version: Version) -> bytes:
        """METADATA of one version."""


class LocalIndex:
    """A simple index (PEP 503, 658 and 691) on a port of the loopback address, open while the context is.

    Its path holds a random word, so that other users of the machine cannot have things built. What goes wrong while
    answering is kept in `fault`, and `failed` is set: the resolver can be stopped then, as its own words would only
    tell of a server that failed. `noticed` is called with each project's name when it is first asked for.
    """

    def __init__(self, shelf: Shelf, *, noticed: Callable[[str], object] = lambda _: None) -> None:
        self._shelf = shelf
        self._noticed = noticed
        self._word = secrets.token_urlsafe(16)
        self._seen: set[str] = set()
        self._guard = threading.Lock()
        self.fault: BaseException | None = None
        self.failed = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.index = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        """The index's URL, as `--index-url` takes it."""
        return f"http://127.0.0.1:{self._server.server_port}/{self._word}/simple/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and body for a request's path."""
        inner = path.partition("?")[0].removeprefix(f"/{self._word}")
        if inner == path:
            return _NOT_FOUND
        try:
            if match := _PAGE.fullmatch(inner):
                return self._page(canonicalize_name(unquote(match[1])), accept)
            if match := _FILE.fullmatch(inner):
                return self._file(match[1], Version(unquote(match[2])), metadata=bool(match[3]))
        except InvalidVersion:
            return _NOT_FOUND
        except BaseException as exc:  # noqa: BLE001 (carried over to the caller's thread, which raises it)
            self.fail(exc)
            return HTTPStatus.BAD_GATEWAY, "text/plain", str(exc).encode()
        return _NOT_FOUND

    def fail(self, fault: BaseException) -> None:
        """Keep the first fault, and tell whoever waits on `failed`."""
        with self._guard:
            self.fault = self.fault or fault
        self.failed.set()

    def _page(self, name: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        with self._guard:
            new = name not in self._seen
            self._seen.add(name)
        if new:
            self._noticed(name)
        versions = self._shelf.versions(name)
        if versions is None:
            return _NOT_FOUND
        names = [(stub_name(name, version), quote(str(version))) for version in versions]
        files = [(file, f"../../files/{name}/{version}/{quote(file)}") for file, version in names]
        if "json" in accept:
            return HTTPStatus.OK, _JSON, _json_page(name, files)
        return HTTPStatus.OK, _HTML, _html_page(name, files)

    def _file(self, name: str, version: Version, *, metadata: bool) -> tuple[HTTPStatus, str, bytes]:
        if version not in (self._shelf.versions(name) or ()):
            return _NOT_FOUND
        text = self._shelf.metadata(name, version)
        if metadata:
            return HTTPStatus.OK, "application/octet-stream", text
        return HTTPStatus.OK, "application/zip", stub_wheel(name, version, text)


_NOT_FOUND = (HTTPStatus.NOT_FOUND, "text/plain", b"not found")


def _json_page(name: str, files: Sequence[tuple[str, str]]) -> bytes:
    listed = [
        {"filename": file, "url": url, "hashes": {}, "core-metadata": True, "dist-info-metadata": True}
        for file, url in files
    ]
    return json.dumps({"meta": {"api-version": "1.0"}, "name": name, "files": listed}).encode()


def _html_page(name: str, files: Sequence[tuple[str, str]]) -> bytes:
    mark = 'data-core-metadata="true" data-dist-info-metadata="true"'
    links = "".join(f'<a href="{html.escape(url)}" {mark}>{html.escape(file)}</a><br>\n' for file, url in files)
    title = f"<title>{html.escape(name)}</title>"
    head = f'<!DOCTYPE html>\n<html><head><meta name="pypi:repository-version" content="1.0">{title}</head>'
    return f"{head}<body>\n{links}</body></html>\n".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a resolver that is gone may leave connections open
    request_queue_size = 128
    index: LocalIndex

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 (the base class's signature)
        """Keep what broke a connection to ourselves when it is only that the resolver left."""
        exc = sys.exception()
        if exc is not None and not isinstance(exc, (ConnectionError, TimeoutError)):
            self.index.fail(exc)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        status, kind, body = self.server.index.answer(self.path, self.headers.get("Accept", ""))
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except ConnectionError:  # the resolver has gone, or was stopped
            self.close_connection = True

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's signature)
        """Keep quiet: what matters is told by the catalogue."""
