"""Index pages into files: JSON (PEP 691, 700, 714), HTML (PEP 503, 592, 658, 714) and folders.

Pages are others' input. A file is kept if its name is one plain name of a wheel or sdist and its URL is http(s), or
file where the page itself is local; anything else on a page is as if it were not there. A page that is not of the
kind it says is FaultyInput "index-page-faulty".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from packaging.utils import canonicalize_name

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.fetch.model import IndexFile
from envlock.fetch.urls import file_name, mask, split_credentials

__all__ = ["ACCEPT", "belongs", "list_folder", "parse_page"]

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"

_HTML_TYPES = {"text/html", "application/xhtml+xml", "application/vnd.pypi.simple.v1+html"}
_JSON_TYPES = {"application/json", "application/vnd.pypi.simple.v1+json"}
_ENDINGS = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")
_CHARSET = re.compile(r"charset=[\"']?([\w-]+)", re.IGNORECASE)
_LONGEST = 255  # characters; no file system takes a longer name, nor Python a number of some thousand digits
_CONTROL = re.compile(r"[\x00-\x1f\x7f/\\]")


def parse_page(body: bytes, content_type: str, base: str) -> tuple[IndexFile, ...]:
    """The files on a page that was got from `base` (no credentials), in the page's order."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _JSON_TYPES:
        return tuple(_json_files(_load(body, base), base))
    if kind in _HTML_TYPES or (not kind and body.lstrip()[:1] == b"<"):
        return tuple(_html_files(body, content_type, base))
    raise _faulty(base, f"its content type is {kind or 'not given'}, which no index page has")


def list_folder(folder: Path) -> tuple[IndexFile, ...]:
    """The wheels and sdists that lie in a folder, sorted by name; without hashes."""
    return tuple(
        IndexFile(file=path.name, url=path.absolute().as_uri(), size=path.stat().st_size)
        for path in sorted(folder.iterdir())
        if _plain(path.name) and path.is_file()
    )


def belongs(file: str, project: str) -> bool:
    """Whether a wheel's or sdist's name is one of this (normalised) project."""
    if file.endswith(".whl"):
        return canonicalize_name(file.partition("-")[0]) == project
    stem = next((file.removesuffix(ending) for ending in _ENDINGS if file.endswith(ending)), "")
    # An sdist's name may hold dashes, and so may an old version: any cut may be the right one.
    cuts = (match.start() for match in re.finditer("-", stem))
    return any(canonicalize_name(stem[:cut]) == project for cut in cuts)


def _plain(name: object) -> bool:
    """Whether this is a file name and nothing more, of a kind that can be installed."""
    if not isinstance(name, str) or len(name) > _LONGEST:
        return False
    return name.endswith(_ENDINGS) and name[0] != "." and not _CONTROL.search(name)


def _absolute(href: str, base: str) -> str | None:
    """Where a link leads, without fragment and credentials; None where it must not be followed."""
    try:
        url = href if href.startswith("https://") else urljoin(base, href)
        url = split_credentials(url.partition("#")[0])[0]
        parts = urlsplit(url)
    except (ValueError, FaultyInput):
        return None
    if parts.scheme in {"http", "https"} and parts.netloc:
        return url
    return url if parts.scheme == "file" and base.startswith("file:") else None


def _digest(text: object) -> Digest | None:
    try:
        return Digest.parse(text.lower()) if isinstance(text, str) else None
    except ValueError:
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _load(body: bytes, base: str) -> Iterable[object]:
    try:
        page = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise _faulty(base, f"it is not JSON ({exc})") from exc
    if not isinstance(page, dict) or not isinstance(page.get("files"), list):
        raise _faulty(base, "it has no list of files")
    meta = page.get("meta")
    version = meta.get("api-version") if isinstance(meta, dict) else None
    if not isinstance(version, str) or not version.startswith("1."):
        raise _faulty(base, f"its API version is {version!r}, not 1.x")
    files: list[object] = page["files"]
    return files


def _json_files(files: Iterable[object], base: str) -> Iterator[IndexFile]:
    for entry in files:
        if not isinstance(entry, dict) or not isinstance(entry.get("url"), str) or not _plain(entry.get("filename")):
            continue
        url = _absolute(entry["url"], base)
        if url is None:
            continue
        hashes, size, yanked = entry.get("hashes"), entry.get("size"), entry.get("yanked", False)
        metadata = entry.get("core-metadata", entry.get("dist-info-metadata", False))
        yield IndexFile(
            file=entry["filename"],
            url=url,
            sha256=_digest(hashes.get("sha256")) if isinstance(hashes, dict) else None,
            size=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
            requires_python=_text(entry.get("requires-python")),
            yanked=yanked if isinstance(yanked, str) else ("" if yanked is True else None),
            upload_time=_text(entry.get("upload-time")),
            metadata_sha256=_digest(metadata.get("sha256")) if isinstance(metadata, dict) else None,
            has_metadata=metadata is True or isinstance(metadata, dict),
        )


def _html_files(body: bytes, content_type: str, base: str) -> Iterator[IndexFile]:
    charset = _CHARSET.search(content_type)
    try:
        text = body.decode(charset[1] if charset else "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    reader = _Anchors()
    reader.feed(text)
    reader.close()
    if reader.version is not None and not reader.version.startswith("1."):
        raise _faulty(base, f"its repository version is {reader.version}, not 1.x")
    root = urljoin(base, reader.base) if reader.base else base
    if root.startswith("file:") and not base.startswith("file:"):
        raise _faulty(base, "its <base> leads into this machine's files")
    for anchor in reader.anchors:
        if (file := _html_file(anchor, root)) is not None:
            yield file


def _html_file(anchor: Mapping[str, str], root: str) -> IndexFile | None:
    href = anchor["href"].strip()
    url = _absolute(href, root)
    name = file_name(url) if url else ""
    if url is None or not _plain(name):
        return None
    fragment = dict(item.partition("=")[::2] for item in href.partition("#")[2].split("&"))
    metadata = anchor.get("data-core-metadata", anchor.get("data-dist-info-metadata"))
    return IndexFile(
        file=name,
        url=url,
        sha256=_digest(fragment.get("sha256")),
        requires_python=_text(anchor.get("data-requires-python")),
        yanked=anchor.get("data-yanked"),
        metadata_sha256=_digest(metadata.removeprefix("sha256=")) if metadata else None,
        has_metadata=metadata is not None and metadata != "false",
    )


class _Anchors(HTMLParser):
    """Collects a page's links with their attributes, its base and its repository version."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: list[dict[str, str]] = []
        self.base: str | None = None
        self.version: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what is of use; an attribute without a value counts as the empty string."""
        values = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in values:
            self.anchors.append(values)
        elif tag == "base" and self.base is None:
            self.base = values.get("href")
        elif tag == "meta" and values.get("name") == "pypi:repository-version":
            self.version = values.get("content")


def _faulty(base: str, why: str) -> FaultyInput:
    return FaultyInput(
        f"the page at {mask(base)} is not an index page: {why}",
        hint="See whether the URL is the index's root (it mostly ends in /simple).",
        code="index-page-faulty",
    )
