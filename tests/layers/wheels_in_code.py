"""Wheels, made in code: honest ones, and ones that lie in any single field of the zip format."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envlock.image.layers.wheel import Scheme, WheelInstall

SCHEME = Scheme("opt/env", "3.13")
SITE = "opt/env/lib/python3.13/site-packages"


@dataclass(frozen=True, kw_only=True)
class Member:
    """One entry of a zip file. `local` and `central` override fields of the two headers by name."""

    name: str | bytes
    data: bytes = b""
    method: int = 8
    mode: int = 0o100644
    flags: int | None = None
    version: int = 20
    deflated: bytes | None = None
    descriptor: bytes = b""
    before: bytes = b""
    local: Mapping[str, int | bytes] = field(default_factory=dict)
    central: Mapping[str, int | bytes] = field(default_factory=dict)

    @property
    def raw_name(self) -> bytes:
        return self.name if isinstance(self.name, bytes) else self.name.encode()

    @property
    def body(self) -> bytes:
        if self.method == 0:
            return self.data
        if self.deflated is not None:
            return self.deflated
        return deflated(self.data)

    def fields(self, changes: Mapping[str, int | bytes]) -> dict[str, int | bytes]:
        flags = self.flags if self.flags is not None else (0 if self.raw_name.isascii() else 1 << 11)
        return {
            "signature": b"",
            "flags": flags,
            "method": self.method,
            "crc32": zlib.crc32(self.data),
            "compressed": len(self.body),
            "size": len(self.data),
            "name": self.raw_name,
            "extra": b"",
            "attributes": self.mode << 16,
            "disk": 0,
            "version": self.version,
            **changes,
        }


def deflated(data: bytes) -> bytes:
    """A raw deflate stream."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zip_bytes(
    members: Iterable[Member],
    *,
    after: bytes = b"",
    end: Mapping[str, int | bytes] | None = None,
    zip64: bool = False,
    end64: Mapping[str, int] | None = None,
) -> bytes:
    """A zip file of these members. `after` stands before the directory; `end` overrides fields of the end record."""
    out = bytearray()
    directory = bytearray()
    count = 0
    for member in members:
        out += member.before
        offset = len(out)
        out += _local(member.fields(member.local)) + member.body + member.descriptor
        directory += _central(member.fields({"offset": offset, **member.central}))
        count += 1
    out += after
    start = len(out)
    out += directory
    fields: dict[str, int | bytes] = {
        "count": count,
        "size": len(directory),
        "start": start,
        "comment": b"",
        "disk": 0,
    }
    if zip64:
        wide = {
            "here": count,
            "count": count,
            "size": len(directory),
            "start": start,
            "at": len(out),
            **(end64 or {}),
        }
        out += struct.pack("<4sQ2H2I", b"PK\x06\x06", 44, 45, 45, 0, 0)
        out += struct.pack("<4Q", wide["here"], wide["count"], wide["size"], wide["start"])
        out += struct.pack("<4sIQI", b"PK\x06\x07", 0, wide["at"], 1)
        fields |= {"count": 0xFFFF, "size": 0xFFFFFFFF, "start": 0xFFFFFFFF}
    fields |= end or {}
    comment = fields["comment"]
    assert isinstance(comment, bytes)
    numbers = (fields["disk"], 0, fields["count"], fields["count"], fields["size"], fields["start"])
    return bytes(out) + struct.pack("<4s4H2IH", b"PK\x05\x06", *numbers, len(comment)) + comment


def _local(fields: Mapping[str, int | bytes]) -> bytes:
    name, extra = fields["name"], fields["extra"]
    assert isinstance(name, bytes)
    assert isinstance(extra, bytes)
    numbers = (fields["flags"], fields["method"], 0, 0, fields["crc32"], fields["compressed"], fields["size"])
    signature = fields["signature"] or b"PK\x03\x04"
    return struct.pack("<4s5H3I2H", signature, fields["version"], *numbers, len(name), len(extra)) + name + extra


def _central(fields: Mapping[str, int | bytes]) -> bytes:
    name, extra = fields["name"], fields["extra"]
    assert isinstance(name, bytes)
    assert isinstance(extra, bytes)
    numbers = (fields["flags"], fields["method"], 0, 0, fields["crc32"], fields["compressed"], fields["size"])
    lengths = (len(name), len(extra), 0, fields["disk"], 0, fields["attributes"], fields["offset"])
    return struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 0x314, fields["version"], *numbers, *lengths) + name + extra


def record_row(path: str, data: bytes) -> list[str]:
    """A file's row in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [path, f"sha256={digest}", str(len(data))]


def record(rows: Iterable[Sequence[str]]) -> bytes:
    """RECORD's text."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


@dataclass(frozen=True, kw_only=True)
class WheelKit:
    """The parts of a wheel; `members()` puts them together."""

    name: str = "sample"
    version: str = "1.0"
    files: Mapping[str, bytes] = field(default_factory=lambda: {"sample/__init__.py": b"VALUE = 1\n" * 2000})
    metadata: bytes | None = None
    wheel: bytes = b"Wheel-Version: 1.0\nGenerator: code\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    entry_points: str = ""
    modes: Mapping[str, int] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()
    extra_rows: tuple[tuple[str, str, str], ...] = ()
    record: bytes | None = None

    @property
    def file(self) -> str:
        """The wheel's file name."""
        return f"{self.name}-{self.version}-py3-none-any.whl"

    @property
    def dist_info(self) -> str:
        """The name of the .dist-info folder."""
        return f"{self.name}-{self.version}.dist-info"

    def members(self) -> list[Member]:
        """All entries, RECORD last."""
        plain = f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n".encode()
        files = dict(self.files)
        files[f"{self.dist_info}/METADATA"] = plain if self.metadata is None else self.metadata
        files[f"{self.dist_info}/WHEEL"] = self.wheel
        if self.entry_points:
            files[f"{self.dist_info}/entry_points.txt"] = self.entry_points.encode()
        own = f"{self.dist_info}/RECORD"
        rows = [record_row(path, data) for path, data in files.items() if not path.endswith((".jws", ".p7s"))]
        files[own] = record([*rows, *self.extra_rows, (own, "", "")]) if self.record is None else self.record
        return [
            Member(
                name=path,
                data=data,
                mode=self.modes.get(path, 0o100644),
                method=0 if path in self.stored else 8,
            )
            for path, data in files.items()
        ]

    def write(self, folder: Path, members: Sequence[Member] | None = None) -> WheelInstall:
        """Write the wheel (of other members, if they are given), and what installs it."""
        return self.install(folder, zip_bytes(self.members() if members is None else members))

    def install(self, folder: Path, raw: bytes) -> WheelInstall:
        """Write these bytes as the wheel, and what installs it."""
        path = folder / self.file
        path.write_bytes(raw)
        return WheelInstall(path=path, file=self.file, name=self.name, version=self.version)


def changed(members: Sequence[Member], name: str, **changes: object) -> list[Member]:
    """The members with one of them changed."""
    assert any(member.name == name for member in members)
    return [replace(member, **changes) if member.name == name else member for member in members]  # type: ignore[arg-type]  # any field
