"""A loopback HTTP server that breaks in the ways that real ones do, and what else the fetch tests share."""

from __future__ import annotations

import base64
import io
import ssl
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from envlock.digest import Digest
from envlock.fetch.http import Http
from envlock.fetch.model import HttpSettings
from envlock.progress import Task


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer: `cut_after` body bytes the connection breaks; `pace` seconds pass before each `block` bytes."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    cut_after: int | None = None
    delay: float = 0.0
    pace: float = 0.0
    block: int = 65536
    lie_range: str | None = None  # a Content-Range to send in place of the right one
    chunked: bool = False  # no Content-Length: the end of the connection is the end of the body


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request that came in."""

    path: str
    headers: dict[str, str]


class Server:
    """Serves scripted replies by path: each path's replies in turn, the last one for ever.

    With `certificate` (a PEM file) it speaks TLS.
    """

    def __init__(self, *, certificate: Path | None = None) -> None:
        self._scheme = "https" if certificate else "http"
        self.asked: list[Asked] = []
        self.auth: str | None = None  # "user:password" that every request must carry
        self._replies: dict[str, list[Reply]] = defaultdict(list)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_": self}))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that go away are the point
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def url(self, path: str = "/") -> str:
        return f"{self._scheme}://{self.host}{path}"

    def serve(self, path: str, *replies: Reply | bytes) -> str:
        """Set a path's replies and give its URL."""
        self._replies[path] = [reply if isinstance(reply, Reply) else Reply(body=reply) for reply in replies]
        return self.url(path)

    def requests(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path == path]

    def ranges(self, path: str) -> list[str]:
        """The Range headers that came for a path, "" for a request without."""
        return [asked.headers.get("range", "") for asked in self.requests(path)]

    def next_reply(self, path: str) -> Reply:
        with self._lock:
            replies = self._replies.get(path)
            if not replies:
                return Reply(status=404, body=b"nothing here")
            return replies.pop(0) if len(replies) > 1 else replies[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_: Server

    def do_HEAD(self) -> None:
        self.send_error(405)

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server_.asked.append(Asked(path=self.path, headers=headers))
        auth = self.server_.auth
        if auth is not None and headers.get("authorization") != _basic(auth):
            self._send(Reply(status=401, body=b"who are you"))
        else:
            self._send(self.server_.next_reply(self.path))

    def _send(self, reply: Reply) -> None:
        time.sleep(reply.delay)
        status, body, extra = _ranged(reply, self.headers.get("Range"), self.headers.get("If-Range"))
        self.send_response(status)
        for name, value in {**reply.headers, **extra}.items():
            self.send_header(name, value)
        if reply.chunked:
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self._body(reply, body)
        except OSError:  # the client went away, which some tests make it do
            self.close_connection = True

    def _body(self, reply: Reply, body: bytes) -> None:
        end = len(body) if reply.cut_after is None else min(len(body), reply.cut_after)
        for at in range(0, end, reply.block):
            time.sleep(reply.pace)
            self.wfile.write(body[at : min(end, at + reply.block)])
        self.wfile.flush()
        if end < len(body):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server's name)
        pass


def _basic(auth: str) -> str:
    return f"Basic {base64.b64encode(auth.encode()).decode()}"


def _ranged(reply: Reply, wanted: str | None, if_range: str | None) -> tuple[int, bytes, dict[str, str]]:
    etag = reply.headers.get("ETag")
    if wanted is None or not reply.ranges or reply.status != 200 or (if_range and if_range != etag):
        return reply.status, reply.body, {}
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    total = len(reply.body)
    start = int(first) if first else max(0, total - int(last))
    end = min(total, int(last) + 1) if first and last else total
    if start >= total:
        return 416, b"", {"Content-Range": f"bytes */{total}"}
    said = reply.lie_range or f"bytes {start}-{end - 1}/{total}"
    return 206, reply.body[start:end], {"Content-Range": said}


class Recorded:
    """A Progress that remembers: how many bytes stand in the end, and what was said."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.totals: list[int | None] = []
        self.done = 0
        self.said: list[str] = []
        self.finished = 0
        self._lock = threading.Lock()

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:
        assert unit == "bytes"
        self.labels.append(label)
        self.totals.append(total)
        return self

    def advance(self, amount: int) -> None:
        with self._lock:
            self.done += amount

    def finish(self) -> None:
        self.finished += 1

    def say(self, text: str) -> None:
        self.said.append(text)


@contextmanager
def quick_http(*, waits: list[float] | None = None, **settings: object) -> Iterator[Http]:
    """An Http that does not sleep between attempts, but notes in `waits` how long it would have."""
    pause: Callable[[float], object] = waits.append if waits is not None else lambda _: None
    with Http(HttpSettings(**{"read_timeout": 5.0, "first_wait": 0.01, **settings}), pause=pause) as http:  # type: ignore[arg-type]  # by name
        yield http


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that do not repeat, quickly made, the same each time."""
    return (Digest.of(b"%d" % seed).hex.encode() * (size // 64 + 1))[:size] if size < 64 else _noise(size, seed)


def _noise(size: int, seed: int) -> bytes:
    state = bytearray()
    counter = 0
    while len(state) < size:
        state += bytes.fromhex(Digest.of(b"%d-%d" % (seed, counter)).hex) * 64
        counter += 1
    return bytes(state[:size])


def wheel_bytes(name: str = "demo", version: str = "1.0", *, ballast: int = 0) -> bytes:
    """A small wheel, made in code; `ballast` incompressible bytes make it larger."""
    buffer = io.BytesIO()
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/ballast.bin", noise(ballast))
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return buffer.getvalue()


CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgFGphrFJ/g9bPf2w5
LuxBzeOjwfcQxhz8Tw76NDKSg8ihRANCAASXlkgEFlTm3z3LlKfBcXG7tyNHoCfI
8By6loxYHh4U7zg7pZ6iffWdTWnfW0Dulkh1Oux41DemrcEbQhF5WtVb
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBtDCCAVqgAwIBAgIUVXLvfp9L3nI2qjGATxnYpthjlHowCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPZW52bG9jayB0ZXN0IENBMCAXDTI2MTIwMTAzMzQyMVoYDzIx
MjYxMTA3MDMzNDIxWjAaMRgwFgYDVQQDDA9lbnZsb2NrIHRlc3QgQ0EwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAASXlkgEFlTm3z3LlKfBcXG7tyNHoCfI8By6loxY
Hh4U7zg7pZ6iffWdTWnfW0Dulkh1Oux41DemrcEbQhF5WtVbo3wwejAdBgNVHQ4E
FgQUcOJuXZYTwuCJP+UOuIShPSlFDPAwHwYDVR0jBBgwFoAUcOJuXZYTwuCJP+UO
uIShPSlFDPAwGgYDVR0RBBMwEYcEfwAAAYIJbG9jYWxob3N0MAsGA1UdDwQEAwIC
hDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCID7IC5x+yonNCt9l
as0M+euGZtrOvqJf74pF12XoRA3dAiEA7JPw0qsiSpo+lKs1ekCL3+RZKz5SjyV0
BFwKwfCpS2o=
-----END CERTIFICATE-----
"""
"""Of a CA that nobody trusts, made for these tests, good for 127.0.0.1: key and certificate."""
