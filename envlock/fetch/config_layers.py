"""One source's say about indexes, and how the say of several is put together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from envlock.fetch.urls import split_credentials

__all__ = ["Layer", "as_place", "first", "named", "truth", "with_credentials"]

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)", re.DOTALL)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one source (flags, one tool's variables, one configuration file) says; None where it says nothing.

    `extra` are indexes besides the default one; with `extra_first` they are tried before it (uv's rule), else
    after it (pip's order). URLs are as written, local ones as absolute paths.
    """

    origin: str
    index_url: str | None = None
    extra: tuple[str, ...] | None = None
    extra_first: bool = False
    find_links: tuple[str, ...] | None = None
    no_index: bool | None = None
    cert: Path | None = None
    client_cert: Path | None = None
    proxy: str | None = None
    trusted_hosts: tuple[str, ...] | None = None
    timeout: float | None = None  # seconds


def first(layers: Sequence[Layer], field: str, kind: type[_T]) -> tuple[_T | None, Layer | None]:
    """The setting of the highest layer that has one, and that layer."""
    for layer in layers:
        value = getattr(layer, field)
        if isinstance(value, kind):
            return value, layer
    return None, None


def as_place(text: str, base: Path, home: Path) -> str:
    """A URL as it is; a path made absolute, `~` and a relative one (which counts from `base`) included."""
    if "://" in text or text.startswith("file:"):
        return text
    if text == "~" or text.startswith("~/"):
        return str(home / text[2:])
    return str(base / text)


def named(text: str, environ: Mapping[str, str]) -> str:
    """The URL of uv's `name=URL`, with the credentials of UV_INDEX_<NAME>_USERNAME and _PASSWORD put in."""
    match = _NAMED.fullmatch(text)
    if match is None or "/" not in match[2]:
        return text
    return with_credentials(match[2], match[1], environ)


def with_credentials(url: str, name: str, environ: Mapping[str, str]) -> str:
    """Put a named uv index's credentials, where the environment has them, into its URL."""
    stem = "UV_INDEX_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
    user, password = environ.get(f"{stem}_USERNAME", ""), environ.get(f"{stem}_PASSWORD", "")
    parts = urlsplit(url)
    if not (user or password) or not parts.netloc or split_credentials(url)[1] is not None:
        return url
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"
    return urlunsplit(parts._replace(netloc=netloc))


def truth(text: str | None) -> bool | None:
    """A switch as pip and uv write it; None for nothing and for nonsense."""
    word = (text or "").strip().lower()
    if word in {"1", "true", "yes", "y", "t", "on"}:
        return True
    return False if word in {"0", "false", "no", "n", "f", "off"} else None
