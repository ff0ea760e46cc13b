"""HTTP as a user's machine needs it: retries, proxies, private CAs, credentials, and errors that say what to do."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.auth import HTTPBasicAuth

from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.fetch.http_faults import RETRIED_STATUSES, explain, status_fault
from envlock.fetch.model import HttpSettings
from envlock.fetch.proxies import proxies_for
from envlock.fetch.tls import make_session
from envlock.fetch.urls import Credentials, host_key, mask, split_credentials

__all__ = ["Http", "back_off"]

_REDIRECTS = {301, 302, 303, 307, 308}
_HOPS = 10
_LONGEST_WAIT = 120.0  # seconds; a server that asks for more is told of instead
_BLOCK = 1 << 16


class Http:
    """One pool of connections; safe to use from several threads. Close it, or use it as a context manager.

    `pause` sleeps between attempts; `clock` gives Unix time, for Retry-After dates.
    """

    def __init__(
        self,
        settings: HttpSettings,
        *,
        pause: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._pause = pause
        self._clock = clock
        self._credentials = dict(settings.credentials)
        self._session = make_session(settings)

    @property
    def offline(self) -> bool:
        """Whether the user asked for no network at all."""
        return self.settings.offline

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    def remember(self, url: str) -> str:
        """Keep a URL's credentials for every later request to its host; the URL comes back without them."""
        plain, credentials = split_credentials(url)
        if credentials is not None:
            self._credentials[host_key(plain)] = credentials
        return plain

    def knows(self, url: str) -> bool:
        """Whether requests to this URL's host carry credentials."""
        return split_credentials(url)[1] is not None or self._credentials_for(url) is not None

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        allow: frozenset[int] = frozenset(),
        limit: int = 256 << 20,
        pause: Callable[[float], object] | None = None,
    ) -> requests.Response:
        """Get a URL, trying again where that can help.

        Statuses of 400 and more are errors unless in `allow`. With `stream` the body is left to be read (and the
        response to be closed) by the caller, else it is in `.content`, at most `limit` bytes of it when decoded.
        Raises MachineLacks: "offline", "dns", "unreachable", "tls", "proxy", "unauthorised", "server-busy",
        "timeout", "cut-off"; FaultyInput: "not-found", "server-refuses", "too-large", "bad-url".
        """
        plain = self.remember(url)
        if self.offline:
            raise MachineLacks(
                f"{mask(plain)} is not in the store, and no network is to be used",
                hint="Run it once without the offline switch.",
                code="offline",
            )
        asked = _Asked(plain, dict(headers or {}), stream, allow, limit)
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._once(asked)
            except _Again as again:
                wait = again.wait if again.wait is not None else back_off(attempt, self.settings.first_wait)
                if attempt >= min(again.attempts, self.settings.attempts) or wait > _LONGEST_WAIT:
                    raise again.fault from again.__cause__
            (pause or self._pause)(wait)

    def _once(self, asked: _Asked) -> requests.Response:
        with _explained(asked.url, self.settings):
            response = self._follow(asked)
        status = response.status_code
        if status >= HTTPStatus.BAD_REQUEST and status not in asked.allow:
            wait = self._retry_after(response)
            response.close()
            fault = status_fault(response, sent_credentials=self.knows(response.url))
            if status in RETRIED_STATUSES:
                raise _Again(fault, wait=wait)
            raise fault
        if not asked.stream:
            with response, _explained(asked.url, self.settings):
                _read_whole(response, asked.limit)
        return response

    def _follow(self, asked: _Asked) -> requests.Response:
        """Send the request and go where it is redirected, choosing proxy and credentials anew for each host."""
        url = asked.url
        for _ in range(_HOPS):
            request = requests.Request("GET", url, headers=asked.headers, auth=self._auth(url))
            prepared = self._session.prepare_request(request)
            response = self._session.send(
                prepared,
                stream=True,
                allow_redirects=False,
                timeout=(self.settings.connect_timeout, self.settings.read_timeout),
                proxies=proxies_for(url, self.settings.proxies, self.settings.no_proxy),
            )
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not location:
                return response
            response.close()
            url = self.remember(urljoin(url, location.encode("latin-1").decode("utf-8", "replace")))
            if urlsplit(url).scheme not in ("http", "https"):
                raise requests.exceptions.InvalidSchema(f"redirected to {mask(url)}")
        raise requests.exceptions.TooManyRedirects(f"redirected more than {_HOPS} times")

    def _credentials_for(self, url: str) -> Credentials | None:
        key = host_key(url)
        return self._credentials.get(key) or self._credentials.get(key.rpartition(":")[0])

    def _auth(self, url: str) -> HTTPBasicAuth | None:
        credentials = self._credentials_for(url)
        return HTTPBasicAuth(*(part.encode() for part in credentials)) if credentials else None

    def _retry_after(self, response: requests.Response) -> float | None:
        text = response.headers.get("retry-after", "").strip()
        if text.isdecimal():
            return float(text)
        with suppress(ValueError, TypeError):
            moment = parsedate_to_datetime(text)
            return max(0.0, (moment - datetime.fromtimestamp(self._clock(), UTC)).total_seconds())
        return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """One call of `get`."""

    url: str
    headers: dict[str, str]
    stream: bool
    allow: frozenset[int]
    limit: int


class _Again(Exception):
    """An attempt failed in a way that another may not; `fault` is raised when there is none left."""

    def __init__(self, fault: EnvlockError, *, wait: float | None = None, attempts: int = 1000) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.wait = wait
        self.attempts = attempts


@contextmanager
def _explained(url: str, settings: HttpSettings) -> Iterator[None]:
    try:
        yield
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError) as exc:
        fault, attempts = explain(exc, url, ca_file=settings.ca_file)
        if attempts > 1:
            raise _Again(fault, attempts=attempts) from exc
        raise fault from exc


def _read_whole(response: requests.Response, limit: int) -> None:
    data = bytearray()
    while block := response.raw.read(_BLOCK, decode_content=True):
        data += block
        if len(data) > limit:
            raise FaultyInput(
                f"{mask(response.url)} answers with more than {limit:,} bytes",
                hint="This is not what an index or archive serves; see whether the URL is right.",
                code="too-large",
            )
    # requests has no other way in: its own reader knows no limit.
    response._content = bytes(data)
    response._content_consumed = True  # type: ignore[attr-defined]  # not in the stubs, as it is private


def back_off(attempt: int, first: float) -> float:
    """Seconds to wait after the given attempt: doubling from `first`, at most 15, with jitter."""
    longest = min(15.0, first * 2.0 ** (attempt - 1))
    return longest * (0.5 + secrets.randbelow(1001) / 2000)
