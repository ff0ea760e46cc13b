"""Read a .deb: an ar file of three members, with a tar of control files and a tar of what is installed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import zstandard

from envlock.errors import FaultyInput

__all__ = ["ControlFile", "DebFile", "Member", "faulty", "read_control_files", "read_files", "read_members"]

_MAGIC = b"!<arch>\n"
_HEADER = 60  # bytes of an ar member's header
_LONGEST_TAR = 4 << 30  # bytes; a stream that inflates to more is taken for a bomb
_LONGEST_CONTROL = 64 << 20
_DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError)


@dataclass(frozen=True, slots=True)
class DebFile:
    """A .deb on this disk, and what the lock says it is."""

    path: Path
    name: str
    version: str
    architecture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFile:
    """A file of the control archive: `control`, `md5sums`, `postinst`, ..."""

    name: str
    body: bytes
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of the data archive, as the package ships it.

    `path` has no leading `./`. `body` is set for a file, `symlink` and `hardlink` (a path like `path`) for links;
    a directory has none of them.
    """

    path: str
    mode: int
    uid: int
    gid: int
    body: bytes | None = None
    symlink: str | None = None
    hardlink: str | None = None

    @property
    def is_directory(self) -> bool:
        """Neither a file nor a link."""
        return self.body is None and self.symlink is None and self.hardlink is None


def faulty(deb: DebFile, where: str, what: str) -> FaultyInput:
    """The error for a package that is not what it should be; `where` is an entry of it."""
    return FaultyInput(
        f"{deb.name}_{deb.version}_{deb.architecture}.deb: {where}: {what}",
        hint="The file is damaged or was made to do harm. Fetch it again from a mirror you trust; "
        "if its sha256 is the locked one, report the package to its maintainers.",
        code="deb-faulty",
    )


def read_control_files(deb: DebFile) -> tuple[ControlFile, ...]:
    """The files of the control archive, in the archive's order. Reads only the head of the .deb."""
    tar = _read_tar(deb, "control.tar", _LONGEST_CONTROL)
    files = [
        ControlFile(name=member.path, body=member.body, mode=member.mode)
        for member in _members(deb, tar)
        if member.body is not None
    ]
    return tuple(files)


def read_members(deb: DebFile) -> tuple[Member, ...]:
    """The entries of the data archive, checked, in the archive's order, without the root itself.

    Refused, each with the entry's name: paths that leave the root or lie below something that is no directory,
    entries that come twice, devices and pipes, hard links to what is no earlier file, and archives that are cut
    short or go on after their end.
    """
    tar = _read_tar(deb, "data.tar", _LONGEST_TAR)
    seen: dict[str, Member] = {}
    for member in _members(deb, tar):
        before = seen.get(member.path)
        if before is not None and not (before.is_directory and member.is_directory):
            raise faulty(deb, member.path, "stands twice in the data archive")
        if member.hardlink is not None:
            target = seen.get(member.hardlink)
            if target is None or (target.body is None and target.hardlink is None):
                raise faulty(deb, member.path, f"is a hard link to {member.hardlink}, which is no earlier file")
        seen[member.path] = member
    _check_parents(deb, seen)
    return tuple(seen.values())


def read_files(deb: DebFile, paths: Collection[str]) -> dict[str, bytes]:
    """The bodies of some regular files by path, read no further than to the last of them.

    What is not there is left out. The archive as a whole is `read_members`' to check.
    """
    found: dict[str, bytes] = {}
    with deb.path.open("rb") as file:
        name, raw = next((name, raw()) for name, raw in _ar_members(deb, file) if name.startswith("data.tar"))
    try:
        with _stream(deb, name, raw) as stream, tarfile.open(fileobj=stream, mode="r|", encoding="utf-8") as tar:
            for info in tar:
                path = _path(deb, info.name)
                body = tar.extractfile(info) if info.isfile() and path in paths else None
                if path is not None and body is not None:
                    found[path] = body.read()
                    if len(found) == len(paths):
                        break
    except (*_DAMAGE, tarfile.TarError) as exc:
        raise faulty(deb, name, f"cannot be read: {exc}") from exc
    return found


def _check_parents(deb: DebFile, members: dict[str, Member]) -> None:
    """Refuse what lies below a link or a file, whichever of the two came first."""
    for path in members:
        parent = path.rpartition("/")[0]
        while parent:
            above = members.get(parent)
            if above is not None and not above.is_directory:
                raise faulty(deb, path, f"lies below {parent}, which is no directory")
            parent = parent.rpartition("/")[0]


def _read_tar(deb: DebFile, stem: str, limit: int) -> bytes:
    found = None
    with deb.path.open("rb") as file:
        for name, raw in _ar_members(deb, file):
            if name == stem or name.startswith(stem + "."):
                found = _inflated(deb, name, raw(), limit)
    if found is None:
        raise faulty(deb, stem, "no such member")
    return found


def _ar_members(deb: DebFile, file: BinaryIO) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Name and reader of each member, after the format's version was checked; deb(5) allows members named `_...`."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise faulty(deb, "ar header", "not a Debian package")
    names: list[str] = []
    while header := file.read(_HEADER):
        name, size = _ar_header(deb, header)
        start = file.tell()

        def raw(start: int = start, size: int = size, name: str = name) -> bytes:
            file.seek(start)
            data = file.read(size)
            if len(data) != size:
                raise faulty(deb, name, f"says {size} bytes, has {len(data)}")
            return data

        _check_sequence(deb, names, name)
        if name == "debian-binary" and not raw().startswith(b"2."):
            raise faulty(deb, name, f"format {raw()[:20]!r} is not 2.x")
        names.append(name)
        yield name, raw
        file.seek(start + size + size % 2)


def _ar_header(deb: DebFile, header: bytes) -> tuple[str, int]:
    name = header[:16].rstrip().removesuffix(b"/").decode("ascii", "replace")
    if len(header) != _HEADER or header[58:] != b"`\n":
        raise faulty(deb, name or "ar header", "the ar file is cut short or damaged here")
    digits = header[48:58].strip()
    if not digits.isdigit():
        raise faulty(deb, name, f"size {digits!r} is no number")
    return name, int(digits)


def _check_sequence(deb: DebFile, before: list[str], name: str) -> None:
    """debian-binary, control.tar.*, data.tar.*, in this order and once each; `_*` may stand between (deb(5))."""
    if name.startswith("_") and before:
        return
    plain = [earlier for earlier in before if not earlier.startswith("_")]
    expected = ("debian-binary", "control.tar", "data.tar")
    if len(plain) >= len(expected):
        raise faulty(deb, name, "unknown member after data.tar")
    wanted = expected[len(plain)]
    if name != wanted and not (wanted.endswith(".tar") and name.startswith(wanted + ".")):
        raise faulty(deb, name, f"unknown member where {wanted} should be")


def _inflated(deb: DebFile, name: str, raw: bytes, limit: int) -> bytes:
    try:
        with _stream(deb, name, raw) as stream:
            data = stream.read(limit + 1)
    except _DAMAGE as exc:
        raise faulty(deb, name, f"cannot be inflated: {exc}") from exc
    if len(data) > limit:
        raise faulty(deb, name, f"inflates to more than {limit >> 20} MiB")
    return data


def _stream(deb: DebFile, name: str, raw: bytes) -> BinaryIO:
    source = io.BytesIO(raw)
    suffix = name.partition(".tar")[2]
    match suffix:
        case "":
            return source
        case ".gz":
            return gzip.open(source, "rb")  # type: ignore[return-value]  # GzipFile is a BinaryIO in all but name
        case ".xz" | ".lzma":
            return lzma.open(source, "rb")  # type: ignore[return-value]  # as GzipFile
        case ".bz2":
            return bz2.open(source, "rb")  # type: ignore[return-value]  # as GzipFile
        case ".zst":
            return zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    raise faulty(deb, name, f"unknown compression {suffix!r}")


def _members(deb: DebFile, data: bytes) -> Iterator[Member]:
    """The entries of a tar, read straight from its bytes; tarfile only parses the headers."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            for info in tar:
                member = _member(deb, info, data)
                if member is not None:
                    yield member
            # tarfile takes a damaged header for the end, so the end is looked at here
            rest = data[tar.offset :]
    except tarfile.TarError as exc:
        raise faulty(deb, "tar header", f"cannot be read: {exc}") from exc
    if len(rest) < tarfile.BLOCKSIZE or rest.strip(b"\0"):
        raise faulty(deb, "end of the archive", "the tar is cut short, damaged, or goes on after its end")


def _member(deb: DebFile, info: tarfile.TarInfo, data: bytes) -> Member | None:
    path = _path(deb, info.name)
    if path is None:
        if info.isdir():
            return None
        raise faulty(deb, info.name, "the root is no directory")
    mode, uid, gid = info.mode & 0o7777, info.uid, info.gid
    if info.isdir():
        return Member(path=path, mode=mode, uid=uid, gid=gid)
    if info.issym():
        return Member(path=path, mode=0o777, uid=uid, gid=gid, symlink=_link_target(deb, path, info.linkname))
    if info.islnk():
        target = _path(deb, info.linkname)
        return Member(path=path, mode=mode, uid=uid, gid=gid, hardlink=target or "")
    if info.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
        raise faulty(deb, path, "is a device, a pipe or of an unknown kind")
    body = data[info.offset_data : info.offset_data + info.size]
    if len(body) != info.size:
        raise faulty(deb, path, f"says {info.size} bytes, and the archive ends after {len(body)}")
    return Member(path=path, mode=mode, uid=uid, gid=gid, body=body)


def _path(deb: DebFile, name: str) -> str | None:
    """The path without `./`; None is the root."""
    path = name.rstrip("/")
    path = path.removeprefix("./") if path != "." else ""
    if not path:
        return None
    if any(part in {"", ".", ".."} for part in path.split("/")):
        raise faulty(deb, name, "the path leaves the root or is not a plain one")
    _check_text(deb, path)
    return path


def _link_target(deb: DebFile, path: str, target: str) -> str:
    if not target:
        raise faulty(deb, path, "a symbolic link to nothing")
    _check_text(deb, target)
    return target


def _check_text(deb: DebFile, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise faulty(deb, ascii(text), "the name is not UTF-8") from exc
    if "\0" in text or "\n" in text:
        raise faulty(deb, ascii(text), "the name holds a line end or a NUL")
