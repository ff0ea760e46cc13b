"""URLs as a user writes and reads them: credentials taken out, masked for talk, local ones told from remote ones."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

from envlock.errors import FaultyInput

__all__ = ["Credentials", "file_name", "host_key", "local_path", "mask", "mask_text", "split_credentials"]

Credentials = tuple[str, str]
"""User name and password."""

_USERINFO = re.compile(r"(?<=://)[^/\s'\"]+@")  # up to the last @, as a password may hold one
_QUERY = re.compile(r"(https?://[^\s?'\"<>]+)\?[^\s'\"<>#]+")
_PORTS = {"http": 80, "https": 443}


def mask(url: str) -> str:
    """The URL as it may be shown: no user, password, nor query (signed URLs carry their secret there)."""
    return mask_text(url)


def mask_text(text: str) -> str:
    """Any text with every URL in it masked."""
    return _QUERY.sub(r"\1?***", _USERINFO.sub("***@", text))


def split_credentials(url: str) -> tuple[str, Credentials | None]:
    """Take `user:password@` out of a URL; both come back percent-decoded. Raises FaultyInput "bad-url"."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is looked at here only
    except ValueError as exc:
        raise FaultyInput(
            f"{mask(url)} is not a URL: {exc}", hint="Correct it where it is configured.", code="bad-url"
        ) from exc
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(user), unquote(password))


def host_key(url: str) -> str:
    """`host:port` of an http(s) URL, lower case, the port always there."""
    parts = urlsplit(url)
    return f"{(parts.hostname or '').lower()}:{parts.port or _PORTS.get(parts.scheme.lower(), 0)}"


def local_path(url: str) -> Path | None:
    """The path that a file URL or a plain path names; None for any other URL."""
    parts = urlsplit(url)
    if parts.scheme.lower() == "file":
        return Path(url2pathname(parts.path)) if parts.netloc in ("", "localhost") else None
    return None if parts.scheme and "://" in url else Path(url)


def file_name(url: str) -> str:
    """The last segment of a URL's path, percent-decoded; "" where it could not be one file's name."""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    return "" if name in (".", "..") or any(sign in name for sign in "/\\\0") else name
