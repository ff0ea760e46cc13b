"""What a wheel says about itself: METADATA, WHEEL, RECORD and entry points, checked against its file name."""

from __future__ import annotations

import base64
import configparser
import csv
import hashlib
import io
import re
from dataclasses import dataclass

from installer.utils import parse_entrypoints, parse_metadata_file
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envlock.image.layers.wheel_faults import faulty
from envlock.image.layers.wheel_zip import Promise, WheelZip

__all__ = ["EntryPoint", "WheelMetadata", "find_dist_info", "read_entry_points", "read_metadata", "read_name"]

# Limits for the small files of .dist-info; the largest honest ones seen are a tenth of these.
_LIMIT = 1 << 24
_RECORD_LIMIT = 1 << 27
_ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})  # "sha256 or better", says the wheel standard
_HEX = re.compile(r"[0-9a-f]+")
_SIGNATURES = frozenset({"RECORD.jws", "RECORD.p7s"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """A script that a wheel asks for: `name` calls `attribute` of `module`."""

    name: str
    module: str
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelMetadata:
    """A wheel's own words: `name` as METADATA writes it; `promises` are RECORD's, for each file but its own kin."""

    name: str
    version: str
    dist_info: str
    promises: dict[str, Promise]


def find_dist_info(archive: WheelZip) -> str:
    """The name of the one .dist-info folder."""
    found = {name.split("/", 1)[0] for name in archive.files if ".dist-info/" in name}
    folders = sorted(folder for folder in found if folder.endswith(".dist-info"))
    if len(folders) != 1:
        raise faulty(archive.file, None, f"has {len(folders)} .dist-info folders at its top: {', '.join(folders)}")
    return folders[0]


def read_metadata(archive: WheelZip, *, name: str, version: str) -> WheelMetadata:
    """Read the metadata of the wheel, which must be that of this project and version.

    File name, .dist-info folder and METADATA agree on both. Each file of the archive stands in RECORD, and the other
    way round. Raise FaultyInput (code "wheel-faulty").
    """
    dist_info = find_dist_info(archive)
    _check_wheel_version(archive, dist_info)
    said = read_name(archive, dist_info)
    stem, _, folder_version = dist_info.removesuffix(".dist-info").rpartition("-")
    for where, claim in (
        ("file name", _of_file(archive.file)),
        ("METADATA", said),
        (dist_info, (stem, folder_version)),
    ):
        if canonicalize_name(claim[0]) != canonicalize_name(name) or not _same_version(claim[1], version):
            raise faulty(
                archive.file, None, f"is to be {name} {version}, and is {claim[0]} {claim[1]} by its {where}"
            )
    return WheelMetadata(
        name=said[0], version=said[1], dist_info=dist_info, promises=_read_record(archive, dist_info)
    )


def read_name(archive: WheelZip, dist_info: str) -> tuple[str, str]:
    """Name and version as METADATA writes them."""
    fields = parse_metadata_file(_text(archive, f"{dist_info}/METADATA", _LIMIT))
    return str(fields.get("Name", "")).strip(), str(fields.get("Version", "")).strip()


def read_entry_points(archive: WheelZip, dist_info: str) -> tuple[EntryPoint, ...]:
    """The console and GUI scripts that the wheel asks for, sorted by name."""
    path = f"{dist_info}/entry_points.txt"
    if path not in archive.files:
        return ()
    found: dict[str, EntryPoint] = {}
    try:
        for name, module, attribute, _ in parse_entrypoints(_text(archive, path, _LIMIT)):
            point = EntryPoint(name=name, module=module, attribute=attribute)
            if not name or name in {".", ".."} or "/" in name or not name.isprintable():
                raise faulty(archive.file, path, f"asks for a script called {name!r}")
            if found.setdefault(name, point) != point:
                raise faulty(archive.file, path, f"asks for two scripts called {name!r}")
    except (configparser.Error, AssertionError, AttributeError) as exc:  # what parse_entrypoints has for bad lines
        raise faulty(
            archive.file, path, f"cannot be understood: {str(exc) or 'a script without module:function'}"
        ) from exc
    return tuple(found[name] for name in sorted(found))


def _text(archive: WheelZip, name: str, limit: int) -> str:
    try:
        return archive.read(name, limit=limit).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise faulty(archive.file, name, "is not UTF-8") from exc


def _check_wheel_version(archive: WheelZip, dist_info: str) -> None:
    path = f"{dist_info}/WHEEL"
    version = str(parse_metadata_file(_text(archive, path, _LIMIT)).get("Wheel-Version", "")).strip()
    if version.split(".")[0] != "1":
        raise faulty(archive.file, path, f"is of wheel version {version!r}; versions 1.x are understood")


def _of_file(file: str) -> tuple[str, str]:
    try:
        name, version, _, _ = parse_wheel_filename(file)
    except InvalidWheelFilename as exc:
        raise faulty(file, None, f"is not a wheel's file name: {exc}") from exc
    return name, str(version)


def _same_version(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return False


def _read_record(archive: WheelZip, dist_info: str) -> dict[str, Promise]:
    path = f"{dist_info}/RECORD"
    own = {path, *(f"{dist_info}/{name}" for name in _SIGNATURES)}
    promises: dict[str, Promise] = {}
    try:
        for row in csv.reader(io.StringIO(_text(archive, path, _RECORD_LIMIT), newline=""), strict=True):
            if not row or row[0] in own:
                continue
            promise = _promise(archive, path, row)
            if promises.setdefault(row[0], promise) != promise:
                raise faulty(archive.file, path, f"has two different rows for {row[0]!r}")
    except csv.Error as exc:
        raise faulty(archive.file, path, f"cannot be understood: {exc}") from exc
    for name in archive.files.keys() - promises.keys() - own:
        raise faulty(archive.file, name, "does not stand in RECORD")
    for name in promises.keys() - archive.files.keys():
        raise faulty(archive.file, name, "stands in RECORD, and not in the archive")
    return promises


def _promise(archive: WheelZip, path: str, row: list[str]) -> Promise:
    if len(row) != 3:  # noqa: PLR2004 (path, hash, size)
        raise faulty(archive.file, path, f"has a row of {len(row)} columns: {row[0]!r}")
    name, hash_, size = row
    algorithm, _, value = hash_.partition("=")
    if algorithm not in _ALGORITHMS:
        raise faulty(archive.file, path, f"gives {name!r} no hash that is sha256 or better: {hash_!r}")
    if size and not (size.isascii() and size.isdigit()):
        raise faulty(archive.file, path, f"gives {name!r} a size that is no number: {size!r}")
    return Promise(algorithm=algorithm, value=_base64(value, algorithm), size=int(size) if size else None)


def _base64(value: str, algorithm: str) -> str:
    """A hash as the wheel standard writes it. An honest wheel was seen (gmsh) that writes it in hexadecimal."""
    if len(value) == 2 * hashlib.new(algorithm).digest_size and _HEX.fullmatch(value):
        value = base64.urlsafe_b64encode(bytes.fromhex(value)).decode()
    return value.rstrip("=")
