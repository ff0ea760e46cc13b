"""Source distributions: unpacked so that nothing but their bytes shapes what is built from them."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.lock.model import BuildRequirement, BuiltFrom

__all__ = ["EPOCH", "SdistSource", "unpack_archive"]

EPOCH = 946684800  # 2000-01-01, as in the layers: 1970 and 1980 break zip tools
_BLOCK = 1 << 20
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError)
_CLASHES = (FileExistsError, NotADirectoryError, IsADirectoryError)  # one path for two kinds of things


@dataclass(frozen=True, slots=True, kw_only=True)
class SdistSource:
    """A source distribution at `path`. `index` is "direct" where `url` names it."""

    name: str
    path: Path
    file: str
    size: int
    sha256: Digest
    index: str
    url: str | None = None

    @property
    def label(self) -> str:
        """For talk."""
        return self.file

    @property
    def key(self) -> str:
        """What identifies the bytes that are built."""
        return str(self.sha256)

    def unpack(self, folder: Path) -> Path:
        """Lay the source out below `folder`; returns the project's root."""
        unpack_archive(self.path, self.file, folder)
        inside = sorted(folder.iterdir())
        if len(inside) != 1 or not inside[0].is_dir():
            raise _faulty(self.file, "it does not hold one folder")
        return inside[0]

    def built_from(self, python: str, requires: tuple[BuildRequirement, ...]) -> BuiltFrom:
        """What a lock says of it."""
        return BuiltFrom(
            file=self.file,
            size=self.size,
            sha256=self.sha256,
            index=self.index,
            url=self.url,
            python=python,
            requires=requires,
        )


@dataclass(frozen=True, slots=True)
class _Member:
    """A file or, without `content`, a folder of an archive."""

    path: PurePosixPath
    executable: bool
    content: IO[bytes] | None


@dataclass(frozen=True, slots=True)
class _Link:
    """A link of an archive; a hard one's target counts from the archive's root."""

    path: PurePosixPath
    target: str
    hard: bool


def unpack_archive(archive: Path, file: str, folder: Path) -> None:
    """Unpack a tar or zip file into a new folder, with fixed modes and times. Raises FaultyInput "sdist-faulty"."""
    folder.mkdir(parents=True)
    links: list[_Link] = []
    try:
        for member in _zip_members(archive) if file.endswith(".zip") else _tar_members(archive):
            _check_path(file, member.path)
            if isinstance(member, _Link):
                links.append(member)
            else:
                _write(folder, member)
        # Links come last, so that no file is ever written through one.
        for link in links:
            _link(file, folder, link)
    except (*_DAMAGED, *_CLASHES) as exc:
        raise _faulty(file, str(exc) or type(exc).__name__) from exc
    for path, _, files in os.walk(folder, topdown=False):
        for name in (*files, "."):
            os.utime(Path(path, name), (EPOCH, EPOCH), follow_symlinks=False)


def _tar_members(archive: Path) -> Iterator[_Member | _Link]:
    with tarfile.open(archive, "r:*") as tar:
        for info in tar:
            path = PurePosixPath(info.name)
            if info.isdir():
                yield _Member(path, executable=True, content=None)
            elif info.issym() or info.islnk():
                yield _Link(path, info.linkname, hard=info.islnk())
            elif info.isfile():
                content = tar.extractfile(info)
                if content is not None:
                    yield _Member(path, executable=bool(info.mode & stat.S_IXUSR), content=content)
            # Devices and pipes have no place in a source; pax headers are read by tarfile itself.


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            path, mode = PurePosixPath(info.filename), info.external_attr >> 16
            if info.is_dir():
                yield _Member(path, executable=True, content=None)
            else:
                with opened.open(info) as content:
                    yield _Member(path, executable=bool(mode & stat.S_IXUSR), content=content)


def _check_path(file: str, path: PurePosixPath) -> None:
    if path.is_absolute() or ".." in path.parts or "\\" in str(path) or "\0" in str(path):
        raise _faulty(file, f"its entry {str(path)!r} leads out of it")


def _write(folder: Path, member: _Member) -> None:
    target = folder / member.path
    if member.content is None:
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with target.open("wb") as out:
        while block := member.content.read(_BLOCK):
            out.write(block)
    target.chmod(0o755 if member.executable else 0o644)


def _link(file: str, folder: Path, link: _Link) -> None:
    """Make a link; one that leaves the archive is refused."""
    root = Path(os.path.realpath(folder))
    place = root / link.path.parent
    place.mkdir(mode=0o755, parents=True, exist_ok=True)
    # Where it really stands, as links made before may be on the way: its target counts from there.
    path = Path(os.path.realpath(place)) / link.path.name
    target = Path(os.path.normpath((root if link.hard else path.parent) / link.target))
    if not target.is_relative_to(root):
        raise _faulty(file, f"its link {str(link.path)!r} leads out of it, to {link.target!r}")
    if link.hard:
        if target.is_symlink() or not target.is_file():
            raise _faulty(file, f"its hard link {str(link.path)!r} is to no file of it, {link.target!r}")
        path.write_bytes(target.read_bytes())
        path.chmod(stat.S_IMODE(target.stat().st_mode))
    else:
        path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))


def _faulty(file: str, why: str) -> FaultyInput:
    return FaultyInput(
        f"{file} is not a sound source distribution: {why}",
        hint="Leave this version out (name!=version), or take it from another index.",
        code="sdist-faulty",
    )
