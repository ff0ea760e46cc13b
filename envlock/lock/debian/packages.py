"""Package indexes: a Packages file made small once, then looked up by name in milliseconds.

A suite's index has some 69 000 packages and 57 MB of text, of which a closure needs a few hundred. So the text is
reduced to one JSON line per package, with a table of names in front, kept as a file, and a package is only parsed
and checked when it is asked for. JSON, since the store may be shared: reading it can run nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.lock.debian.relations import Relation, parse_alternatives, parse_list
from envlock.lock.debian.version import Version

__all__ = ["COMPACT_FORMAT", "Package", "PackageIndex", "compact", "newest"]

COMPACT_FORMAT = 1
"""Stands in the names of cached files: raise it when `compact` writes anything else than before."""

_FIELDS = (
    "Package",
    "Version",
    "Architecture",
    "Filename",
    "Size",
    "SHA256",
    "Pre-Depends",
    "Depends",
    "Conflicts",
    "Breaks",
    "Provides",
    "Multi-Arch",
    "Essential",
    "Priority",
)
_FIELD = re.compile(rf"^({'|'.join(_FIELDS)}):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
_PROVIDED = re.compile(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]*)")
_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9.+_~-]*"
_POOL = re.compile(rf"(?:{_SEGMENT}/)+{_SEGMENT}\.deb")
_encode = json.JSONEncoder(separators=(",", ":")).encode
_LARGEST_DEB = 9_999_999_999  # a .deb is an ar archive, and ar has ten digits for a size
_SIZE = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One version of one binary package.

    `depends` are Pre-Depends and Depends, `conflicts` are Conflicts and Breaks. `pinned` says that an earlier lock
    chose this version; `borrowed` that its relations are those of another version, since this one has left the
    index.
    """

    name: str
    version: str
    architecture: str
    archive: str
    pool: str
    size: int
    sha256: Digest
    depends: tuple[tuple[Relation, ...], ...] = ()
    conflicts: tuple[Relation, ...] = ()
    provides: tuple[Relation, ...] = ()
    multi_arch: str = ""
    priority: str = ""
    pinned: bool = False
    borrowed: bool = False


def compact(text: str) -> bytes:
    """Reduce a Packages file to what closures need: a line with tables, then a line per package, sorted by name.

    The tables are long strings where they can be: a JSON reader gets through one string faster than through 69 000.
    """
    rows: list[tuple[str, bytes]] = []
    providers: dict[str, list[str]] = {}
    essential: list[str] = []
    for stanza in text.split("\n\n"):
        fields = dict(_FIELD.findall(stanza))
        name = fields.get("Package", "")
        if not _NAME.fullmatch(name):  # the text's last newline; and what no dependency can name
            continue
        rows.append((name, _encode([fields.get(key, "") for key in _FIELDS]).encode("ascii")))
        for virtual in _PROVIDED.findall(fields.get("Provides", "")):
            providers.setdefault(virtual, []).append(name)
        if fields.get("Essential") == "yes":
            essential.append(name)
    rows.sort(key=itemgetter(0))
    ends = list(accumulate((len(line) + 1 for _, line in rows), initial=0))
    offsets = {name: offset for (name, _), offset in zip(reversed(rows), reversed(ends[:-1]), strict=True)}
    tables = {
        "size": ends[-1],
        "names": "\n".join(offsets),
        "offsets": list(offsets.values()),
        "virtuals": "\n".join(providers),
        "providers": "\n".join(" ".join(names) for names in providers.values()),
        "essential": sorted(set(essential)),
    }
    return b"\n".join([_encode(tables).encode("ascii"), *(line for _, line in rows), b""])


class PackageIndex:
    """One archive's packages for one architecture, as `compact` wrote them.

    Raises ValueError when the data is not whole, and FaultyInput "debian-index-faulty" for a package whose entry is
    not fit to be locked (no SHA256, a path that leaves the archive), when that package is looked up.
    """

    def __init__(self, data: bytes, *, archive: str, architecture: str, origin: str) -> None:
        self._data = data
        self._start = data.find(b"\n") + 1
        tables = json.loads(data[: self._start])
        if not isinstance(tables, dict) or tables.get("size") != len(data) - self._start:
            raise ValueError("the compact package index is not whole")
        self.archive = archive
        self.architecture = architecture
        self._origin = origin
        self._offsets = dict(zip(_lines(tables["names"]), tables["offsets"], strict=True))
        self._providers = dict(zip(_lines(tables["virtuals"]), _lines(tables["providers"]), strict=True))
        self._essential = tuple(tables["essential"])

    @property
    def essential(self) -> tuple[str, ...]:
        """The names of the packages marked Essential."""
        return self._essential

    @property
    def names(self) -> Iterable[str]:
        """The names of all real packages."""
        return self._offsets.keys()

    def find(self, name: str) -> tuple[Package, ...]:
        """Every version of a package that this index has."""
        return tuple(self._package(row) for row in self._rows(name))

    def provider_names(self, virtual: str) -> tuple[str, ...]:
        """The names of packages of which some version provides this one."""
        return tuple(self._providers.get(virtual, "").split())

    def _rows(self, name: str) -> Iterator[dict[str, str]]:
        """The lines of a package, which stand one after the other."""
        offset = self._offsets.get(name)
        while offset is not None and self._start + offset < len(self._data):
            begin = self._start + offset
            end = self._data.index(b"\n", begin)
            fields = dict(zip(_FIELDS, json.loads(self._data[begin:end]), strict=True))
            if fields["Package"] != name:
                return
            yield fields
            offset = end + 1 - self._start

    def _package(self, fields: dict[str, str]) -> Package:
        try:
            return _read(fields, self.archive, self.architecture)
        except ValueError as exc:
            raise FaultyInput(
                f"{self._origin}: the entry of package {fields['Package']!r} is faulty: {exc}",
                hint="It was signed like this, so tell the archive's owner, or use another suite or mirror.",
                code="debian-index-faulty",
            ) from exc


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _read(fields: dict[str, str], archive: str, architecture: str) -> Package:
    if fields["Architecture"] not in (architecture, "all"):
        raise ValueError(f"architecture {fields['Architecture']!r} in an index of {architecture}")
    return Package(
        name=fields["Package"],
        version=Version.parse(fields["Version"]).text,
        architecture=fields["Architecture"],
        archive=archive,
        pool=_pool(fields["Filename"]),
        size=_size(fields["Size"]),
        sha256=_sha256(fields["SHA256"]),
        depends=parse_alternatives(_joined(fields["Pre-Depends"], fields["Depends"])),
        conflicts=parse_list(_joined(fields["Conflicts"], fields["Breaks"])),
        provides=parse_list(fields["Provides"]),
        multi_arch=fields["Multi-Arch"],
        priority=fields["Priority"],
    )


def _joined(*fields: str) -> str:
    return ",".join(fields)


def _pool(text: str) -> str:
    if not _POOL.fullmatch(text):
        raise ValueError(f"Filename {text[:120]!r} is not a plain path to a .deb below the archive")
    return text


def _size(text: str) -> int:
    if not _SIZE.fullmatch(text) or not 0 < int(text) <= _LARGEST_DEB:
        raise ValueError(f"Size {text[:40]!r} is not the size of a .deb")
    return int(text)


def _sha256(text: str) -> Digest:
    if not text:
        raise ValueError("no SHA256")
    return Digest.parse(text)


def newest(packages: Iterable[Package]) -> Package | None:
    """The highest version; of equal ones the first."""
    best: Package | None = None
    for package in packages:
        if best is None or Version.parse(package.version) > Version.parse(best.version):
            best = package
    return best
