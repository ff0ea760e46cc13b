"""The single values of a lock: parsers that return what they read, or raise Wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from envlock.digest import Digest
from envlock.lock.tables import Parser, Wrong, shown
from envlock.platforms import Platform

__all__ = [
    "capability",
    "clean_path",
    "digest",
    "hex_digest",
    "local_path",
    "matching",
    "one_of",
    "platform",
    "pool_path",
    "project",
    "sdist_file",
    "size",
    "text",
    "url",
    "version",
    "wheel_file",
]

_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*")  # of a wheel or sdist; no slash, no leading dot or hyphen
_POOL_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_%-]*")
_LARGEST = 1 << 50  # bytes; no artefact comes near, and sums stay exact everywhere


def text(value: object) -> str:
    """A string that says something, without control characters."""
    if not isinstance(value, str):
        raise Wrong(f"is {shown(value)}, not a string")
    if not value.strip() or not value.isprintable():
        raise Wrong(f"is {shown(value)}, not a text")
    return value


def matching(pattern: str, what: str) -> Parser[str]:
    """A parser of strings that the pattern matches whole; `what` names them in a fault."""
    compiled = re.compile(pattern, re.ASCII)

    def parse(value: object) -> str:
        word = text(value)
        if not compiled.fullmatch(word):
            raise Wrong(f"is {shown(word)}, not {what}")
        return word

    return parse


def one_of(*words: str) -> Parser[str]:
    """A parser of these words alone."""

    def parse(value: object) -> str:
        word = text(value)
        if word not in words:
            raise Wrong(f"is {shown(word)}, not {' or '.join(words)}")
        return word

    return parse


capability = matching(r"[1-9][0-9]?\.[0-9]", 'a compute capability such as "8.9"')


def platform(value: object) -> Platform:
    """An OCI platform."""
    return Platform(one_of(*Platform)(value))


def digest(value: object) -> Digest:
    """`sha256:` and 64 hex digits."""
    word = text(value)
    if word.startswith("sha256:"):
        return hex_digest(word.removeprefix("sha256:"))
    raise Wrong(f"is {shown(word)}, not sha256:<64 hex digits>")


def hex_digest(value: object) -> Digest:
    """64 hex digits, small ones."""
    word = text(value)
    if word.startswith("sha256:"):
        raise Wrong(f"is {shown(word)}: write the 64 hex digits alone")
    try:
        return Digest.parse(word)
    except ValueError:
        raise Wrong(f"is {shown(word)}, not the 64 hex digits of a sha256") from None


def size(value: object) -> int:
    """Bytes, more than none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(f"is {shown(value)}, not a number of bytes")
    if not 0 < value < _LARGEST:
        raise Wrong(f"is {value}, which is no file's size")
    return value


def project(value: object) -> str:
    """A normalised name of a Python package."""
    word = text(value)
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", word):
        raise Wrong(f"is {shown(word)}, not a normalised name such as {canonicalize_name(word)!r}")
    return word


def version(value: object) -> str:
    """A version of a Python package."""
    return _read_by(Version, text(value), "a version")


def wheel_file(value: object) -> str:
    """A wheel's plain file name."""
    return _read_by(parse_wheel_filename, _plain_file(value), "a wheel's file name")


def sdist_file(value: object) -> str:
    """A source distribution's plain file name."""
    return _read_by(parse_sdist_filename, _plain_file(value), "a source distribution's file name")


def _read_by(parse: Callable[[str], object], word: str, what: str) -> str:
    try:
        parse(word)
    except ValueError:  # packaging's own are such, and so is that of a number of thousands of digits
        raise Wrong(f"is {shown(word)}, not {what}") from None
    return word


def _plain_file(value: object) -> str:
    word = text(value)
    if not _FILE.fullmatch(word):
        raise Wrong(f"is {shown(word)}, not a plain file name")
    return word


def pool_path(value: object) -> str:
    """A .deb's path below its archive's root."""
    word = text(value)
    parts = word.split("/")
    if not word.endswith(".deb") or not all(_POOL_PART.fullmatch(part) for part in parts):
        raise Wrong(f"is {shown(word)}, not a clean path of a .deb below the archive's root")
    return word


def clean_path(value: object) -> str:
    """A relative path that leads downwards."""
    word = local_path(value)
    if ".." in word.split("/"):
        raise Wrong(f"is {shown(word)}, which leads out of its folder")
    return word


def local_path(value: object) -> str:
    """A path relative to the specification's folder, written in its shortest form."""
    word = text(value)
    if word.startswith("/") or str(PurePosixPath(word)) != word:
        raise Wrong(f"is {shown(word)}, not a relative path in its shortest form")
    return word


def url(value: object) -> str:
    """An absolute URL without a password in it."""
    word = text(value)
    try:
        parts = urlsplit(word)
        sound = bool(parts.scheme and (parts.netloc or parts.scheme == "file")) and " " not in word
        web = parts.scheme.removeprefix("git+") in {"http", "https"}
        secret = parts.password is not None or (web and parts.username is not None)
    except ValueError:  # such as a broken IPv6 address
        sound = secret = False
    if secret:
        raise Wrong("holds credentials; they belong into ~/.netrc or pip's or uv's configuration")
    if not sound:
        raise Wrong(f"is {shown(word)}, not a URL")
    return word
