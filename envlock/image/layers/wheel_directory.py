"""The central directory of a zip file, read strictly: one way to read the file is the only way it can be read."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from envlock.image.layers.wheel_faults import faulty

__all__ = ["DEFLATED", "STORED", "ZipEntry", "read_directory"]

STORED = 0
DEFLATED = 8

_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075

# Flags: 1 and 2 are hints about the compressor, 3 a data descriptor, 11 names in UTF-8. Any other means encryption or
# a feature that no wheel needs.
_DESCRIPTOR, _UTF8 = 1 << 3, 1 << 11
_KNOWN_FLAGS = 0b110 | _DESCRIPTOR | _UTF8

_NEWEST = 63
_LONGEST_DESCRIPTOR = 24
_USUAL_EXTRA = 64

# The largest honest wheels stay far below these: about 15,000 entries, 2 GB unpacked (twice the wheel's size), and
# pure-Python ones that unpack to 10 times their size.
_MOST_ENTRIES = 500_000
_LONGEST_DIRECTORY = 1 << 28
_MOST_UNPACKED = 1 << 36
_FREE_UNPACKED = 1 << 28
_HIGHEST_RATIO = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    """One entry: what the central directory says, and where its data begins (from the local header)."""

    raw_name: bytes
    version: int  # of the zip format, times ten, that a reader needs
    flags: int
    method: int
    crc32: int
    compressed: int
    size: int
    mode: int  # the Unix mode, 0 where there is none
    header: int  # offset of the local header
    data: int = 0  # offset of the data

    @property
    def name(self) -> str:
        """The name, in the encoding that its flags say. Raise UnicodeDecodeError."""
        return self.raw_name.decode("utf-8" if self.flags & _UTF8 else "cp437")

    @property
    def label(self) -> str:
        """The name for messages."""
        return self.raw_name.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the central directory is, and how many entries it has."""

    start: int
    end: int
    count: int


def read_directory(descriptor: int, file: str) -> list[ZipEntry]:
    """All entries of the zip file behind this file descriptor, in the order of their data.

    Local headers, data and descriptors fill the file from its first byte to the central directory without gap or
    overlap, and agree with the central directory. `file` is for messages. Raise FaultyInput (code "wheel-faulty").
    """
    place = _find(descriptor, file)
    raw = os.pread(descriptor, place.end - place.start, place.start)
    entries = sorted(_central_entries(raw, place, file), key=lambda entry: entry.header)
    _check_sizes(entries, os.fstat(descriptor).st_size, file)
    ends = [*(entry.header for entry in entries[1:]), place.start]
    if not entries or entries[0].header != 0:
        raise faulty(file, None, "its first entry does not begin at its first byte")
    return [_locate(descriptor, entry, end, file) for entry, end in zip(entries, ends, strict=True)]


def _find(descriptor: int, file: str) -> _Place:
    length = os.fstat(descriptor).st_size
    at = length - _END.size
    tail = os.pread(descriptor, _END.size, at) if at >= 0 else b""
    if tail[:4] != b"PK\x05\x06" or tail[-2:] != b"\0\0":
        raise faulty(
            file, None, "does not end with the end record of a zip file (it is cut short, or bytes follow it)"
        )
    _, disk, first_disk, here, count, size, start, _ = _END.unpack(tail)
    end = at
    if at >= _LOCATOR.size + _END64.size:
        locator = os.pread(descriptor, _LOCATOR.size, at - _LOCATOR.size)
        if locator[:4] == b"PK\x06\x07":
            end = at - _LOCATOR.size - _END64.size
            fields = _end64(os.pread(descriptor, _END64.size, end), locator, end, file)
            _check_narrow((disk, first_disk, here, count, size, start), fields, file)
            disk, first_disk, here, count, size, start = fields
    if (disk, first_disk) != (0, 0) or here != count:
        raise faulty(file, None, "is one part of a zip file of several")
    if start + size != end:
        raise faulty(file, None, "its end record is wrong about where the central directory is")
    if count > _MOST_ENTRIES or size > _LONGEST_DIRECTORY:
        raise faulty(file, None, f"has {count} entries; no more than {_MOST_ENTRIES} are taken")
    return _Place(start=start, end=end, count=count)


def _end64(record: bytes, locator: bytes, at: int, file: str) -> tuple[int, int, int, int, int, int]:
    """Disk, first disk, entries here, entries, size and start, of a zip64 end record that stands at `at`."""
    _, locator_disk, offset, disks = _LOCATOR.unpack(locator)
    signature, length, _, _, *fields = _END64.unpack(record)
    if signature != b"PK\x06\x06" or length != _END64.size - 12 or offset != at or locator_disk != 0 or disks != 1:
        raise faulty(file, None, "its zip64 end record is not where or what its locator says")
    disk, first_disk, here, count, size, start = fields
    return disk, first_disk, here, count, size, start


def _check_narrow(narrow: tuple[int, ...], wide: tuple[int, ...], file: str) -> None:
    """Each field of the plain end record says the same as the zip64 one, or that it is full."""
    full = (_FULL16, _FULL16, _FULL16, _FULL16, _FULL32, _FULL32)
    for small, large, limit in zip(narrow, wide, full, strict=True):
        if small not in (large, limit):
            raise faulty(file, None, "its two end records disagree")


def _central_entries(raw: bytes, place: _Place, file: str) -> Iterator[ZipEntry]:
    at = 0
    for _ in range(place.count):
        if at + _CENTRAL.size > len(raw) or raw[at : at + 4] != b"PK\x01\x02":
            raise faulty(file, None, "its central directory has fewer entries than its end record says")
        fields = _CENTRAL.unpack_from(raw, at)
        version, flags, method, _, _, crc32, compressed, size = fields[2:10]
        name_length, extra_length, comment_length, disk, _, attributes, header = fields[10:]
        name = raw[at + _CENTRAL.size : (after := at + _CENTRAL.size + name_length)]
        extra = _extra(raw[after : after + extra_length], name, file)
        size, compressed, header = _widened((size, compressed, header), extra, name, file)
        at = after + extra_length + comment_length
        if disk != 0 or at > len(raw):
            raise faulty(file, _label(name), "its central directory record is broken")
        yield ZipEntry(
            raw_name=name,
            version=version,
            flags=flags,
            method=method,
            crc32=crc32,
            compressed=compressed,
            size=size,
            mode=attributes >> 16,
            header=header,
        )
    if at != len(raw):
        raise faulty(file, None, "its central directory has bytes after its last entry")


def _extra(raw: bytes, name: bytes, file: str) -> dict[int, bytes]:
    """The extra fields of a header, by number."""
    fields: dict[int, bytes] = {}
    at = 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise faulty(file, _label(name), "has a broken extra field")
        number, length = struct.unpack_from("<2H", raw, at)
        value = raw[at + 4 : at + 4 + length]
        if len(value) != length or (number in fields and number in {_ZIP64, _UNICODE_PATH}):
            raise faulty(file, _label(name), "has a broken extra field")
        fields[number] = value
        at += 4 + length
    if _UNICODE_PATH in fields and fields[_UNICODE_PATH][5:] != name:
        raise faulty(file, _label(name), "has a second name in an extra field")
    return fields


def _widened(values: tuple[int, ...], extra: dict[int, bytes], name: bytes, file: str) -> tuple[int, ...]:
    """The 32-bit values, with those that are full replaced from the zip64 extra field."""
    wide = extra.get(_ZIP64, b"")
    full = sum(value == _FULL32 for value in values)
    if len(wide) < 8 * full:
        raise faulty(
            file, _label(name), "is said to be larger than 4 GiB, and its zip64 field is missing or cut short"
        )
    numbers = iter(struct.unpack_from(f"<{full}Q", wide))
    return tuple(next(numbers) if value == _FULL32 else value for value in values)


def _check_sizes(entries: list[ZipEntry], length: int, file: str) -> None:
    total = sum(entry.size for entry in entries)
    if total > min(_MOST_UNPACKED, max(_FREE_UNPACKED, _HIGHEST_RATIO * length)):
        raise faulty(file, None, f"would unpack to {total} bytes, from {length}: it looks like a bomb")


def _locate(descriptor: int, entry: ZipEntry, end: int, file: str) -> ZipEntry:
    """The entry with the offset of its data, which must end, descriptor included, where the next entry begins."""
    label = entry.label
    if entry.version > _NEWEST or entry.flags & ~_KNOWN_FLAGS or entry.method not in {STORED, DEFLATED}:
        kind = f"flags {entry.flags:#x}, method {entry.method}, version {entry.version}"
        raise faulty(file, label, f"is encrypted or of an unknown kind ({kind})")
    if entry.method == STORED and entry.compressed != entry.size:
        raise faulty(file, label, "is stored, and yet has two sizes")
    data = _check_local(descriptor, entry, end, file)
    gap = end - data - entry.compressed
    if gap < 0:
        raise faulty(file, label, "overlaps another entry")
    if gap > _LONGEST_DESCRIPTOR or os.pread(descriptor, gap, end - gap) not in _descriptors(entry):
        raise faulty(file, label, "is followed by bytes that belong to no entry, or by a wrong data descriptor")
    return replace(entry, data=data)


def _check_local(descriptor: int, entry: ZipEntry, end: int, file: str) -> int:
    """Compare the local header with the central directory's record; the offset of the data behind it."""
    name, label = entry.raw_name, entry.label
    length = _LOCAL.size + len(name)
    head = os.pread(descriptor, length + _USUAL_EXTRA, entry.header)
    if entry.header + length > end:
        raise faulty(file, label, "overlaps another entry")
    fields: tuple[int, ...] = _LOCAL.unpack_from(head)[1:]
    version, flags, method, _, _, crc32, compressed, size, name_length, extra_length = fields
    if head[:4] != b"PK\x03\x04":
        raise faulty(file, label, "has no local header where the central directory says")
    if name_length != len(name) or head[_LOCAL.size : length] != name:
        raise faulty(file, label, "has another name in its local header")
    raw_extra = head[length : length + extra_length]
    if extra_length > _USUAL_EXTRA:
        raw_extra = os.pread(descriptor, extra_length, entry.header + length)
    size, compressed = _widened((size, compressed), _extra(raw_extra, name, file), name, file)
    said = (flags, method, crc32, compressed, size)
    real = (entry.flags, entry.method, entry.crc32, entry.compressed, entry.size)
    if version > _NEWEST:
        raise faulty(file, label, f"is of an unknown kind (version {version} in its local header)")
    if said != real and not (entry.flags & _DESCRIPTOR and said == (entry.flags, entry.method, 0, 0, 0)):
        raise faulty(file, label, "its local header and the central directory disagree")
    return entry.header + length + extra_length


def _descriptors(entry: ZipEntry) -> tuple[bytes, ...]:
    """What may stand between the data and the next entry."""
    if not entry.flags & _DESCRIPTOR:
        return (b"",)
    wide = struct.pack("<IQQ", entry.crc32, entry.compressed, entry.size)
    if entry.compressed > _FULL32 or entry.size > _FULL32:
        return wide, b"PK\x07\x08" + wide
    narrow = struct.pack("<III", entry.crc32, entry.compressed, entry.size)
    return narrow, b"PK\x07\x08" + narrow, wide, b"PK\x07\x08" + wide


def _label(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
