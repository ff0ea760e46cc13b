"""What went wrong with a request, told as one of envlock's errors; nothing secret is in the text."""

from __future__ import annotations

import errno
import http.client
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import requests
import urllib3

from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.fetch.urls import mask, mask_text

__all__ = ["RETRIED_STATUSES", "explain", "status_fault"]

RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
"""Answers that another attempt may turn into good ones."""

_ALWAYS = 1000  # as many attempts as the settings allow
_NO_ROUTE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}

_TIMEOUTS = (
    urllib3.exceptions.TimeoutError,
    requests.exceptions.Timeout,
    TimeoutError,
)
_CUT = (
    urllib3.exceptions.ProtocolError,
    urllib3.exceptions.DecodeError,
    requests.exceptions.ChunkedEncodingError,
    http.client.HTTPException,
    ConnectionResetError,
    BrokenPipeError,
)
_BAD_URL = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    requests.exceptions.TooManyRedirects,
    urllib3.exceptions.LocationValueError,
    UnicodeError,
)


_Verdict = tuple[EnvlockError, int]


@dataclass(frozen=True, slots=True)
class _Failure:
    """What failed: the exception that decides, all that it came with, the URL (masked), and who was trusted."""

    found: BaseException
    chain: list[BaseException]
    url: str
    ca_file: Path | None


def explain(exc: BaseException, url: str, *, ca_file: Path | None) -> _Verdict:
    """The error to raise for a failed request, and how many attempts such a failure is worth."""
    chain = list(_chain(exc))
    for kinds, tell in _TELLERS:
        found = next((item for item in chain if isinstance(item, kinds)), None)
        if found is not None:
            return tell(_Failure(found, chain, mask(url), ca_file))
    return _unreachable(_Failure(exc, chain, mask(url), ca_file))


def status_fault(response: requests.Response, *, sent_credentials: bool) -> EnvlockError:
    """The error that an HTTP status of 400 or more stands for."""
    status, shown = response.status_code, mask(response.url)
    said = f"{shown} answers {status} {response.reason or ''}".rstrip()
    if status in (401, 403):
        hint = (
            "Its user name and password were sent and refused: see whether they are still right."
            if sent_credentials
            else "Give a user name and password in the URL (user:password@host) in pip's or uv's configuration, "
            "or in ~/.netrc."
        )
        return MachineLacks(said, hint=hint, code="unauthorised")
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return MachineLacks(said, hint=_PROXY_HINT, code="proxy")
    if status in (404, 410):
        return FaultyInput(
            said, hint="See whether the URL is right; old files vanish from mirrors.", code="not-found"
        )
    if status in RETRIED_STATUSES:
        return MachineLacks(said, hint="The server is busy or broken: try again later.", code="server-busy")
    return FaultyInput(said, hint="See whether the URL is right, and whether it is an index.", code="server-refuses")


_TLS_HINT = "See whether the server speaks TLS on this port, or whether a proxy breaks it up."
_DNS_HINT = (
    "This machine seems to be offline, or its name server does not know the host: check the network and the URL."
)
_SLOW_HINT = "Try again: what was already fetched is kept. If it stays so, use a nearer mirror (pip's index-url)."
_PROXY_HINT = (
    "Check the proxy's address, user and password (HTTPS_PROXY, pip's `proxy`), or set NO_PROXY for this host."
)


def _lacks(message: str, hint: str, code: str) -> MachineLacks:
    return MachineLacks(message, hint=hint, code=code)


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception and everything it wraps: causes, contexts, `reason`s and arguments, each once."""
    todo, seen = [exc], set[int]()
    while todo:
        current = todo.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        inner = [getattr(current, "reason", None), *current.args, current.__cause__, current.__context__]
        todo.extend(item for item in inner if isinstance(item, BaseException))


def _words(exc: BaseException) -> str:
    """The innermost reason in its own words."""
    if isinstance(exc, OSError) and exc.strerror:
        return mask_text(exc.strerror)
    return mask_text(str(exc)) or type(exc).__name__


def _untrusted(failure: _Failure) -> _Verdict:
    why = getattr(failure.found, "verify_message", "") or _words(failure.found)
    trusted = f"only {failure.ca_file} is trusted" if failure.ca_file else "the system's certificates are trusted"
    return _lacks(
        f"the certificate of {failure.url} is not trusted: {why} ({trusted})",
        "If your network re-signs traffic with a corporate CA, name its bundle in SSL_CERT_FILE or PIP_CERT "
        "(`pip config set global.cert FILE`).",
        "tls",
    ), 1


def _no_tls(failure: _Failure) -> _Verdict:
    return _lacks(f"no TLS connection to {failure.url}: {_words(failure.found)}", _TLS_HINT, "tls"), 3


def _unknown_host(failure: _Failure) -> _Verdict:
    return _lacks(f"cannot find the host of {failure.url}", _DNS_HINT, "dns"), 2


def _slow(failure: _Failure) -> _Verdict:
    return _lacks(f"{failure.url} did not answer in time", _SLOW_HINT, "timeout"), _ALWAYS


def _cut_off(failure: _Failure) -> _Verdict:
    return _lacks(f"the connection to {failure.url} broke off", _SLOW_HINT, "cut-off"), _ALWAYS


def _innermost(chain: list[BaseException]) -> BaseException:
    """What the operating system said, where it said something."""
    return next((item for item in chain if isinstance(item, OSError) and item.errno), chain[-1])


def _proxy(failure: _Failure) -> _Verdict:
    inner = _innermost(failure.chain)
    refused = any("407" in str(item) for item in failure.chain)
    why = "it asks for a user name and password (407)" if refused else _words(inner)
    return _lacks(f"the proxy for {failure.url} does not work: {why}", _PROXY_HINT, "proxy"), 1 if refused else 2


def _bad_url(failure: _Failure) -> _Verdict:
    words = _words(failure.found)
    if "SOCKS" in words:
        return _lacks(
            f"{failure.url} is to be reached over a SOCKS proxy: {words}", "Run: pip install pysocks", "proxy"
        ), 1
    return FaultyInput(
        f"{failure.url} cannot be fetched: {words}", hint="See whether the URL is right.", code="bad-url"
    ), 1


def _unreachable(failure: _Failure) -> _Verdict:
    inner = _innermost(failure.chain)
    hint = (
        "This machine has no route there: check its network."
        if isinstance(inner, OSError) and inner.errno in _NO_ROUTE
        else "See whether the host and port are right and the server is up."
    )
    return _lacks(f"cannot reach {failure.url}: {_words(inner)}", hint, "unreachable"), 3


_TELLERS: tuple[tuple[tuple[type[BaseException], ...], Callable[[_Failure], _Verdict]], ...] = (
    ((urllib3.exceptions.ProxyError, requests.exceptions.ProxyError), _proxy),
    ((ssl.SSLCertVerificationError,), _untrusted),
    ((ssl.SSLError, urllib3.exceptions.SSLError), _no_tls),
    ((urllib3.exceptions.NameResolutionError,), _unknown_host),
    (_BAD_URL, _bad_url),
    ((urllib3.exceptions.NewConnectionError,), _unreachable),  # which is a kind of timeout to urllib3
    (_TIMEOUTS, _slow),
    (_CUT, _cut_off),
)
"""Whom to ask, in this order: a failure at a proxy wraps one of another kind, and so on down."""
