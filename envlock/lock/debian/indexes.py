"""A suite's package indexes: fetched by the hash that its release gives, and kept in their compact form."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput
from envlock.fetch.store import Store
from envlock.fetch.urls import local_path
from envlock.lock.debian.packages import COMPACT_FORMAT, PackageIndex, compact
from envlock.lock.debian.release import Listed, Release, Source, Web, read_local
from envlock.progress import Progress

__all__ = ["read_indexes"]

_LARGEST = 1 << 30  # bytes of a Packages file, unpacked; Debian's largest is near 60 MB
_ENDINGS = (".xz", ".gz", "")  # the smallest first
_NOT_FOUND = frozenset({404, 410})
_LARGEST_APOLOGY = 1 << 20  # bytes; an answer of 404 has a body too
_XZ_MEMORY = 256 << 20
_GZIP_WINDOW = 31  # zlib's number for a gzip wrapper


def read_indexes(
    source: Source,
    release: Release,
    *,
    component: str,
    architecture: str,
    web: Web,
    store: Store,
    progress: Progress,
) -> Iterator[PackageIndex]:
    """The component's index for an architecture, and the one of architecture "all" where that is separate.

    Raises FaultyInput "debian-index-faulty" when what is served is not what the release lists.
    """
    for folder in (architecture, "all") if release.separate_all else (architecture,):
        path = f"{component}/binary-{folder}/Packages"
        yield _Job(source, release, path, web=web, store=store, progress=progress).read(architecture)


class _Job:
    """One Packages file of one suite."""

    def __init__(
        self, source: Source, release: Release, path: str, *, web: Web, store: Store, progress: Progress
    ) -> None:
        self._source = source
        self._release = release
        self._web = web
        self._store = store
        self._progress = progress
        ending = next((ending for ending in _ENDINGS if path + ending in release.files), None)
        if ending is None:
            raise self._faulty(f"it lists no {path}", "See whether the suite has this component.")
        self._ending = ending
        self._path = path + ending
        self._listed = release.files[self._path]
        self._plain = release.files.get(path, Listed(self._listed.sha256, _LARGEST))
        if max(self._listed.size, self._plain.size) > _LARGEST:
            raise self._faulty(f"it says that {path} has {self._plain.size:,} bytes", "Use another mirror.")

    def read(self, architecture: str) -> PackageIndex:
        """The index, from the store if it is there."""
        name = f"packages-{self._listed.sha256.hex}-{COMPACT_FORMAT}"
        place = self._store.area("debian") / f"{name}.jsonl"
        if index := self._open(place, architecture):
            return index
        with self._store.locked(name):
            # Another process may have made it while this one waited.
            if index := self._open(place, architecture):
                return index
            data = compact(self._unpacked(self._fetched()).decode("utf-8", "replace"))
            self._store.write(place, data)
        return self._index(data, architecture)

    def _open(self, place: Path, architecture: str) -> PackageIndex | None:
        try:
            return self._index(place.read_bytes(), architecture)
        except (OSError, ValueError, KeyError):  # not there, or damaged: it is made again
            return None

    def _index(self, data: bytes, architecture: str) -> PackageIndex:
        return PackageIndex(data, archive=self._source.archive, architecture=architecture, origin=self._source.origin)

    def _fetched(self) -> bytes:
        label = f"Debian index {self._source.suite} {self._path.split('/')[1].removeprefix('binary-')}"
        task = self._progress.start(label, total=self._listed.size)
        try:
            data = self._download()
            task.advance(len(data))
        finally:
            task.finish()
        if len(data) != self._listed.size or Digest.of(data) != self._listed.sha256:
            raise self._faulty(
                f"{self._path} is not the file that the release lists ({self._listed.sha256}, "
                f"{self._listed.size:,} bytes)",
                "The mirror may be in the middle of an update: try again in a few minutes, or use another one.",
            )
        return data

    def _download(self) -> bytes:
        if local_path(self._source.address(self._path)) is not None:
            return read_local(self._source, self._path)
        limit = max(self._listed.size, _LARGEST_APOLOGY)
        if self._release.by_hash:
            folder = self._path.rpartition("/")[0]
            address = self._source.address(f"{folder}/by-hash/SHA256/{self._listed.sha256.hex}")
            response = self._web.get(address, allow=_NOT_FOUND, limit=limit)
            if response.status_code not in _NOT_FOUND:
                return response.content
            # Some mirrors do not carry by-hash folders; the hash is checked either way.
        return self._web.get(self._source.address(self._path), limit=limit).content

    def _unpacked(self, data: bytes) -> bytes:
        unpack: Callable[[bytes, int], bytes] = {".xz": _unxz, ".gz": _gunzip, "": _plain}[self._ending]
        try:
            text = unpack(data, self._plain.size + 1)
        except (lzma.LZMAError, zlib.error, EOFError) as exc:
            raise self._faulty(f"{self._path} does not unpack: {exc}", "Use another mirror.") from exc
        listed = self._plain is not self._listed and self._plain.size != _LARGEST
        if len(text) > self._plain.size or (listed and Digest.of(text) != self._plain.sha256):
            raise self._faulty(f"{self._path} does not unpack to what the release lists", "Use another mirror.")
        return text

    def _faulty(self, why: str, hint: str) -> EnvlockError:
        return FaultyInput(f"{self._source.origin}: {why}", hint=hint, code="debian-index-faulty")


def _unxz(data: bytes, limit: int) -> bytes:
    decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    text = decompressor.decompress(data, max_length=limit)
    if not decompressor.eof and len(text) < limit:
        raise EOFError("it breaks off")
    return text


def _gunzip(data: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj(_GZIP_WINDOW)
    text = decompressor.decompress(data, limit)
    if not decompressor.eof and len(text) < limit:
        raise EOFError("it breaks off")
    return text


def _plain(data: bytes, limit: int) -> bytes:
    return data[:limit]
