"""Addresses in a specification: of indexes, mirrors and sources."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from envlock.spec.disk import is_folder, place_on_disk
from envlock.spec.faults import Wrong
from envlock.spec.secrets import refuse_credentials
from envlock.spec.table import Node, Parser
from envlock.spec.values import shown, text

__all__ = ["split_url", "url_or_folder", "web_url"]


def web_url(node: Node) -> str:
    """An http or https URL without credentials."""
    url = text(node)
    refuse_credentials(url)
    if "$" in url:
        raise Wrong(f"variables in {shown(url)} are not expanded", "write the whole URL")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, a bracket left open
        usable = False
    if not usable or any(character.isspace() for character in url):
        raise Wrong(f"{shown(url)} is not an http or https URL", 'write one, such as "https://host.example/path"')
    return url


def url_or_folder(base: Path, what: str) -> Parser[str]:
    """An http(s) URL, or the absolute path of a folder, written as a file URL or relative to `base`."""

    def parse(node: Node) -> str:
        written = text(node)
        if "://" in written and not written.startswith("file://"):
            return web_url(node)
        folder = place_on_disk(written, base)
        if not is_folder(folder):
            raise Wrong(f"{shown(written)} is neither a URL nor a folder at {folder}", f"write the place of {what}")
        return str(folder)

    return parse


def split_url(url: str) -> SplitResult:
    """The parts of a URL; raise Wrong where it cannot be split."""
    try:
        return urlsplit(url)
    except ValueError as error:  # a bracket left open, say
        raise Wrong(f"{shown(url)} is not a URL ({error})", "write the whole URL, without brackets") from None
