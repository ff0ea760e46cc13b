"""Addresses in a specification: of indexes, mirrors and sources."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envlock.spec.faults import Wrong
from envlock.spec.secrets import refuse_credentials
from envlock.spec.table import Node, Parser
from envlock.spec.values import shown, text

__all__ = ["place_on_disk", "url_or_folder", "web_url"]


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
        if not folder.is_dir():
            raise Wrong(f"{shown(written)} is neither a URL nor a folder at {folder}", f"write the place of {what}")
        return str(folder)

    return parse


def place_on_disk(written: str, base: Path) -> Path:
    """The absolute path that a relative one or a file URL means; raise Wrong where it is on another machine."""
    if written.startswith("file:"):
        parts = urlsplit(written)
        if parts.netloc not in {"", "localhost"}:
            raise Wrong(f"{shown(written)} names a host", "write file:/// and a path of this machine")
        written = unquote(parts.path)
    if written.startswith("~"):
        raise Wrong(f"{shown(written)} is not expanded", "write the whole path, or one relative to the file")
    return Path(os.path.normpath(base / written))
