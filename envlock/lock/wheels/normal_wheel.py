"""A wheel in normal form: the same content always gives the same bytes, on any machine and Python.

Entries are sorted by path, those of .dist-info after all others and RECORD last; stored, not compressed; dated
2000-01-01 00:00:00; of mode 0644 or, where the owner may execute them, 0755. RECORD is written anew in that order,
signatures of the old one are dropped, folders have no entries. The zip structures are written here, as those of
Python's zipfile may differ between its versions. See PKWARE's APPNOTE 4.3 for them.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from envlock.errors import FaultyInput

__all__ = ["NORMAL_FORM", "Content", "WheelContents", "read_wheel", "write_wheel"]

NORMAL_FORM = 1  # goes up when the bytes change
_DATE = (2000 - 1980) << 9 | 1 << 5 | 1
_LARGEST = (1 << 32) - 2
_MOST = (1 << 16) - 2
_UTF8 = 0x0800
_UNIX = 3
_VERSION = 20  # needed to extract: 2.0
_DROPPED = ("RECORD", "RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True, slots=True)
class Content:
    """One file of a wheel."""

    path: str
    data: bytes
    executable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelContents:
    """A wheel taken apart: `file` is its name, `info` its .dist-info folder, `contents` all files but RECORD."""

    file: str
    info: str
    contents: tuple[Content, ...]

    def text(self, name: str) -> str:
        """A file of .dist-info."""
        wanted = f"{self.info}/{name}"
        found = [content.data for content in self.contents if content.path == wanted]
        if not found:
            raise _faulty(self.file, f"it has no {name}")
        return found[0].decode("utf-8", "replace")

    @property
    def impure(self) -> str | None:
        """Why it is not for any platform; None if it is."""
        header = [line.partition(":") for line in self.text("WHEEL").splitlines()]
        fields = [(name.strip().lower(), value.strip()) for name, _, value in header]
        tags = [value for name, value in fields if name == "tag"]
        bound = [tag for tag in tags if not tag.endswith("-none-any")]
        if bound or not self.file.endswith("-none-any.whl"):
            return f"it has the tag {bound[0] if bound else '-'.join(self.file[:-4].split('-')[-3:])}"
        if ("root-is-purelib", "true") not in [(name, value.lower()) for name, value in fields]:
            return "it says Root-Is-Purelib: false"
        return None


def read_wheel(path: Path, file: str) -> WheelContents:
    """Take a wheel apart; raises FaultyInput "wheel-faulty"."""
    contents: dict[str, Content] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.is_dir():
                    continue
                inside = PurePosixPath(info.filename)
                if inside.is_absolute() or ".." in inside.parts or str(inside) != info.filename:
                    raise _faulty(file, f"its entry {info.filename!r} is no plain path")
                if info.filename in contents:
                    raise _faulty(file, f"it holds {info.filename!r} twice")
                executable = bool((info.external_attr >> 16) & stat.S_IXUSR)
                contents[info.filename] = Content(info.filename, archive.read(info), executable)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as exc:
        raise _faulty(file, str(exc)) from exc
    folder = _info_folder(file, contents)
    dropped = {f"{folder}/{name}" for name in _DROPPED}
    kept = [content for name, content in contents.items() if name not in dropped]
    ordered = sorted(kept, key=lambda content: (content.path.startswith(f"{folder}/"), content.path.encode()))
    return WheelContents(file=file, info=folder, contents=tuple(ordered))


def write_wheel(wheel: WheelContents) -> bytes:
    """The wheel in normal form."""
    record = Content(f"{wheel.info}/RECORD", _record(wheel), executable=False)
    return _zip((*wheel.contents, record), wheel.file)


def _info_folder(file: str, names: Iterable[str]) -> str:
    project = canonicalize_name(file.partition("-")[0])
    folders = {name.partition("/")[0] for name in names if name.partition("/")[0].endswith(".dist-info")}
    mine = [folder for folder in folders if canonicalize_name(folder.partition("-")[0]) == project]
    if len(mine) != 1:
        raise _faulty(file, f"it has {len(mine)} .dist-info folders of its own")
    return mine[0]


def _record(wheel: WheelContents) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for content in wheel.contents:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.data).digest()).rstrip(b"=").decode()
        writer.writerow((content.path, f"sha256={digest}", len(content.data)))
    writer.writerow((f"{wheel.info}/RECORD", "", ""))
    return text.getvalue().encode()


def _zip(contents: Iterable[Content], file: str) -> bytes:
    out = bytearray()
    directory = bytearray()
    count = 0
    for content in contents:
        name = content.path.encode()
        flags = 0 if content.path.isascii() else _UTF8
        mode = stat.S_IFREG | (0o755 if content.executable else 0o644)
        size = len(content.data)
        # Version, flags, method (stored), time, date, CRC-32, both sizes, and the lengths of name and extra field.
        shared = struct.pack("<HHHHIIIHH", flags, 0, 0, _DATE, zlib.crc32(content.data), size, size, len(name), 0)
        directory += struct.pack("<4sBBH", b"PK\1\2", _VERSION, _UNIX, _VERSION) + shared
        directory += struct.pack("<HHHII", 0, 0, 0, mode << 16, len(out)) + name
        out += struct.pack("<4sH", b"PK\3\4", _VERSION) + shared + name + content.data
        count += 1
        if len(out) > _LARGEST or count > _MOST:
            raise _faulty(file, "it is larger than the normal form provides for (4 GiB, 65534 files)")
    start = len(out)
    return bytes(out + directory + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0))


def _faulty(file: str, why: str) -> FaultyInput:
    return FaultyInput(
        f"{file} is not a sound wheel: {why}",
        hint="Leave this version out (name!=version), or take it from another index.",
        code="wheel-faulty",
    )
