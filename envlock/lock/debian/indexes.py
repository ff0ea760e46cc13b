"""A suite's package indexes: fetched by the hash that its release gives, and kept in their compact form."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput
from envlock.fetch.download import Downloader, Want
from envlock.fetch.store import Store
from envlock.lock.debian.packages import COMPACT_FORMAT, PackageIndex, compact
from envlock.lock.debian.release import Listed, Release, Source
from envlock.progress import Progress

__all__ = ["IndexFile", "index_files", "read_indexes"]

_LARGEST = 1 << 30  # bytes of a Packages file, unpacked; Debian's largest is near 60 MB
_ENDINGS = (".xz", ".gz", "")  # the smallest first
_XZ_MEMORY = 256 << 20
_GZIP_WINDOW = 31  # zlib's number for a gzip wrapper
_UPDATING = "The mirror may be in the middle of an update: try again in a few minutes, or use another one."


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A Packages file that a release lists, for an architecture that a closure is made for.

    `packed` is the file to fetch; `plain` what it unpacks to, where the release lists that too.
    """

    source: Source
    path: str
    ending: str
    packed: Listed
    plain: Listed | None
    architecture: str
    by_hash: bool

    @property
    def name(self) -> str:
        """The name of its compact form in the store."""
        return f"packages-{self.packed.sha256.hex}-{COMPACT_FORMAT}"

    def want(self) -> Want:
        """What to fetch. Some mirrors do not carry the folders by hash, so the plain path comes after it."""
        folder = self.path.rpartition("/")[0]
        paths = [f"{folder}/by-hash/SHA256/{self.packed.sha256.hex}"] if self.by_hash else []
        paths.append(self.path + self.ending)
        return Want(
            label=f"{self.path}{self.ending} of {self.source.suite}",
            sha256=self.packed.sha256,
            size=self.packed.size,
            urls=lambda: [self.source.address(path) for path in paths],
        )


def index_files(source: Source, release: Release, *, component: str, architecture: str) -> Iterator[IndexFile]:
    """The component's index for an architecture, and the one of architecture "all" where that is separate.

    Raises FaultyInput "debian-index-faulty" when the release does not list it, or with an absurd size.
    """
    for folder in (architecture, "all") if release.separate_all else (architecture,):
        path = f"{component}/binary-{folder}/Packages"
        ending = next((ending for ending in _ENDINGS if path + ending in release.files), None)
        if ending is None:
            raise _faulty(source, f"it lists no {path}", "See whether the suite has this component.")
        packed, plain = release.files[path + ending], release.files.get(path)
        for listed in (packed, plain or packed):
            if listed.size > _LARGEST:
                raise _faulty(source, f"it says that {path} has {listed.size:,} bytes", "Use another mirror.")
        yield IndexFile(
            source=source,
            path=path,
            ending=ending,
            packed=packed,
            plain=plain,
            architecture=architecture,
            by_hash=release.by_hash,
        )


def read_indexes(
    files: Sequence[IndexFile], *, downloader: Downloader, store: Store, progress: Progress, workers: int
) -> tuple[PackageIndex, ...]:
    """The packages of each file, from the store where its compact form is there, else fetched and made compact.

    Raises FaultyInput "debian-index-faulty" when what is served is not what was signed.
    """
    found = [_kept(file, store) for file in files]
    missing = [file for file, index in zip(files, found, strict=True) if index is None]
    if missing:
        _fetch(missing, downloader)
        task = progress.start("reading Debian's package indexes", total=len(missing), unit="indexes")

        def make(file: IndexFile) -> PackageIndex:
            index = _make(file, store)
            task.advance(1)
            return index

        try:
            with ThreadPoolExecutor(workers) as pool:
                made = pool.map(make, missing)
                found = [index if index is not None else next(made) for index in found]
        finally:
            task.finish()
    return tuple(index for index in found if index is not None)


def _fetch(files: Sequence[IndexFile], downloader: Downloader) -> None:
    try:
        downloader.fetch([file.want() for file in files])
    except FaultyInput as exc:
        if exc.code not in {"hash-mismatch", "artefact-gone"}:
            raise
        message = f"Debian's package index is not what its release lists: {exc.message}"
        raise FaultyInput(message, hint=_UPDATING, code="debian-index-faulty") from exc


def _place(file: IndexFile, store: Store) -> Path:
    return store.area("debian") / f"{file.name}.jsonl"


def _kept(file: IndexFile, store: Store) -> PackageIndex | None:
    try:
        return _index(file, _place(file, store).read_bytes())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # absent, or damaged: it is made again
        return None


def _make(file: IndexFile, store: Store) -> PackageIndex:
    with store.locked(file.name):
        # Another process may have made it while this one waited.
        if index := _kept(file, store):
            return index
        data = compact(_unpacked(file, store.path(file.packed.sha256).read_bytes()).decode("utf-8", "replace"))
        store.write(_place(file, store), data)
    return _index(file, data)


def _index(file: IndexFile, data: bytes) -> PackageIndex:
    source = file.source
    return PackageIndex(data, archive=source.archive, architecture=file.architecture, origin=source.origin)


def _unpacked(file: IndexFile, data: bytes) -> bytes:
    unpack: Callable[[bytes, int], bytes] = {".xz": _unxz, ".gz": _gunzip, "": _as_it_is}[file.ending]
    limit = file.plain.size if file.plain else _LARGEST
    try:
        text = unpack(data, limit + 1)
    except (lzma.LZMAError, zlib.error, EOFError) as exc:
        raise _faulty(file.source, f"{file.path} does not unpack: {exc}", "Use another mirror.") from exc
    if len(text) > limit or (file.plain and Digest.of(text) != file.plain.sha256):
        raise _faulty(file.source, f"{file.path} does not unpack to what the release lists", "Use another mirror.")
    return text


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


def _as_it_is(data: bytes, limit: int) -> bytes:
    return data[:limit]


def _faulty(source: Source, why: str, hint: str) -> EnvlockError:
    return FaultyInput(f"{source.origin}: {why}", hint=hint, code="debian-index-faulty")
