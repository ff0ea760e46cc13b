"""Where the bytes of a locked file may be had: candidate URLs, best first; the sha256 decides which are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput
from envlock.fetch.apt import AptSettings
from envlock.fetch.model import IndexFile, IndexUrl
from envlock.fetch.simple import IndexClient

__all__ = ["deb_urls", "wheel_urls"]


def wheel_urls(
    file: str,
    name: str,
    indexes: Sequence[IndexUrl],
    client: IndexClient,
    *,
    sha256: Digest | None = None,
    index: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """URLs of a wheel or sdist by its project `name` and exact `file` name, over the indexes in order.

    The indexes called `index` go first. A page that states another hash than `sha256` is passed over, and `say` is
    told. A page that was kept and lacks the file is asked for anew. An index that cannot be asked is passed over
    too; its error is raised after the last index if none of them had the file.
    """
    found = False
    errors: list[EnvlockError] = []
    for place in sorted(indexes, key=lambda place: place.name != index):
        try:
            listed = _listed(file, name, place, client)
        except EnvlockError as exc:
            errors.append(exc)
            say(f"{file}: passed over {place}, as {exc.message}")
            continue
        for entry in listed:
            if sha256 is not None and entry.sha256 not in {None, sha256}:
                say(f"{file}: passed over {place}, which states {entry.sha256} where {sha256} is locked")
                continue
            found = True
            yield entry.url
    if errors and not found:
        raise errors[0]


def deb_urls(pool: str, archive: str, apt: AptSettings) -> Iterator[str]:
    """URLs of a Debian package by its path below the archive's root ("pool/main/...").

    Raises MachineLacks "no-debian-mirror", FaultyInput "lock-faulty" for a path that leaves the archive.
    """
    path = PurePosixPath(pool)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise FaultyInput(
            f"the pool path {pool!r} leads out of the archive",
            hint="The lock is faulty: lock anew.",
            code="lock-faulty",
        )
    for root in apt.urls(archive):
        # The names have +, ~ and : in them, which mirrors know as they are.
        yield f"{root}/{quote(pool, safe='/+~:')}"


def _listed(file: str, name: str, place: IndexUrl, client: IndexClient) -> list[IndexFile]:
    entries = [entry for entry in client.files(name, place) if entry.file == file]
    if entries or place.folder is not None or client.http.offline:
        return entries
    return [entry for entry in client.files(name, place, fresh=True) if entry.file == file]
