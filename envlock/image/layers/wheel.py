"""A wheel as the entries of a layer: what an installer would have made of it, with its deflate bytes left alone."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from envlock.errors import MachineLacks
from envlock.image.layers.bytecode import Compiler
from envlock.image.layers.entries import Directory, Entry, File
from envlock.image.layers.venv import venv_entries
from envlock.image.layers.wheel_directory import ZipEntry
from envlock.image.layers.wheel_faults import faulty
from envlock.image.layers.wheel_metadata import (
    WheelMetadata,
    find_dist_info,
    read_entry_points,
    read_metadata,
    read_name,
)
from envlock.image.layers.wheel_scheme import Scheme, is_the_environments, place, relative_to_site_packages
from envlock.image.layers.wheel_scripts import entry_point_script, rewritten, wraps
from envlock.image.layers.wheel_zip import DeflatedFile, StoredFile, WheelZip

__all__ = ["Scheme", "WheelInstall", "prefix_entries", "venv_entries", "wheel_entries", "wheel_paths"]

_LARGEST_SCRIPT = 1 << 24
_LARGEST_SOURCE = 1 << 25  # a longer module gets no bytecode: it is data, or a bomb


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelInstall:
    """A wheel to install: the file at `path`, whose real name is `file`.

    `requested` is whether the user named it; `direct_url` the JSON text of direct_url.json, where one is due.
    """

    path: Path
    file: str
    name: str
    version: str
    requested: bool = False
    direct_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A file to be: its body, whether it is executable, and the hash and size that RECORD gives it."""

    body: bytes | DeflatedFile | StoredFile
    executable: bool = False
    hash: str = ""
    size: str = ""


def prefix_entries(scheme: Scheme) -> Iterator[Entry]:
    """The head of a wheel layer: directories from the root down to bin and site-packages."""
    return (Directory(path=path) for path in scheme.folders())


def wheel_entries(install: WheelInstall, scheme: Scheme, *, compiler: Compiler | None) -> Iterator[Entry]:
    """What installing this wheel makes: a segment of a layer, sorted by path, from the prefix's directory on.

    With a compiler there is a .pyc for each module that compiles, which RECORD does not list. Bodies check
    themselves as they are written; raise FaultyInput (code "wheel-faulty") for a wheel that is not what it says,
    MachineLacks where the compiler is of another Python.
    """
    if compiler is not None and compiler.python != scheme.python:
        raise MachineLacks(
            f"the environment is for Python {scheme.python}, and the compiler is Python {compiler.python}",
            hint=f"compile with Python {scheme.python}, or build without bytecode",
            code="compiler-differs",
        )
    with WheelZip(install.path, install.file) as archive:
        metadata = read_metadata(archive, name=install.name, version=install.version)
        items = _items(archive, metadata, install, scheme)
        sources = {} if compiler is None else _sources(items, scheme)
        for path in sources:
            items.pop(path, None)  # bytecode that the wheel brought: ours takes its place
        record = f"{scheme.site_packages}/{metadata.dist_info}/RECORD"
        items[record] = _Item(body=_record(items, record, scheme))
        with _compiling(compiler, sources) as bytecode:
            for path in _with_folders({*items, *sources}, scheme):
                if path in items:
                    item = items[path]
                    yield File(path=path, body=item.body, mode=0o755 if item.executable else 0o644)
                elif path not in sources:
                    yield Directory(path=path)
                elif (compiled := next(bytecode)) is not None:
                    yield File(path=path, body=compiled)


def wheel_paths(path: Path, scheme: Scheme, *, file: str | None = None) -> tuple[str, ...]:
    """The files that installing this wheel makes, bytecode aside, sorted: to find what two wheels both write.

    Nothing but METADATA's and the entry points' text is inflated. `file` is the wheel's name where the path does not
    tell it. Raise FaultyInput (code "wheel-faulty").
    """
    with WheelZip(path, file or path.name) as archive:
        dist_info = find_dist_info(archive)
        scripts = {point.name for point in read_entry_points(archive, dist_info)}
        project, _ = read_name(archive, dist_info)
        placed = _placed(archive, dist_info, project, scheme, frozenset(scripts))
        made = {f"{scheme.scripts}/{name}" for name in scripts}
        own = {f"{scheme.site_packages}/{dist_info}/{name}" for name in ("INSTALLER", "RECORD")}
        return tuple(sorted({*placed, *made, *own}))


def _items(archive: WheelZip, metadata: WheelMetadata, install: WheelInstall, scheme: Scheme) -> dict[str, _Item]:
    """Every file but RECORD and bytecode, by installed path."""
    points = read_entry_points(archive, metadata.dist_info)
    names = frozenset(point.name for point in points)
    placed = _placed(archive, metadata.dist_info, metadata.name, scheme, names)
    items = {path: _item(archive, metadata, path, entry, scheme) for path, entry in placed.items()}
    made = {f"{scheme.scripts}/{point.name}": entry_point_script(point, scheme.executable) for point in points}
    for path, script in made.items():
        if is_the_environments(path, scheme):
            raise faulty(archive.file, None, f"asks for a script that would replace the environment's own {path}")
        if path in items:
            raise faulty(archive.file, None, f"brings a file and a script that are both installed as {path}")
        items[path] = _made(script, executable=True)
    folder = f"{scheme.site_packages}/{metadata.dist_info}"
    items[f"{folder}/INSTALLER"] = _made(b"envlock\n")
    if install.requested:
        items[f"{folder}/REQUESTED"] = _made(b"")
    if install.direct_url is not None:
        items[f"{folder}/direct_url.json"] = _made(install.direct_url.encode())
    for path in items:
        if (clash := next((parent for parent in _parents(path, scheme) if parent in items), None)) is not None:
            raise faulty(archive.file, None, f"installs {clash} as a file and as a directory")
    return items


def _placed(
    archive: WheelZip, dist_info: str, project: str, scheme: Scheme, scripts: frozenset[str]
) -> dict[str, ZipEntry]:
    """The entries that are installed as they are, or nearly so, by installed path.

    Left out are RECORD and the installer's own files, which are made anew, and scripts that only wrap an entry point.
    """
    data = dist_info.removesuffix(".dist-info") + ".data"
    made_anew = {f"{dist_info}/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")}
    placed: dict[str, ZipEntry] = {}
    for name, entry in archive.files.items():
        if name in made_anew or (name.startswith(f"{data}/scripts/") and wraps(posixpath.basename(name), scripts)):
            continue
        path = place(name, data=data, project=project, scheme=scheme)
        if path is None:
            raise faulty(
                archive.file, name, "is for a place that the wheel standard does not know, or that is not its own"
            )
        if path in placed:
            raise faulty(archive.file, name, f"is installed as {path}, and so is another entry")
        placed[path] = entry
    return placed


def _item(archive: WheelZip, metadata: WheelMetadata, path: str, entry: ZipEntry, scheme: Scheme) -> _Item:
    promise = metadata.promises.get(entry.name)
    body = archive.body(entry, promise)
    executable = stat.S_ISREG(entry.mode) and bool(entry.mode & 0o111)
    if promise is None:  # RECORD.jws and RECORD.p7s
        return _Item(body=body, executable=executable)
    if posixpath.dirname(path) == scheme.scripts and entry.size <= _LARGEST_SCRIPT:
        script = rewritten(b"".join(body.chunks()), scheme.executable)
        if script is not None:
            return _made(script, executable=executable)
    return _Item(body=body, executable=executable, hash=f"{promise.algorithm}={promise.value}", size=str(entry.size))


def _made(data: bytes, *, executable: bool = False) -> _Item:
    value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return _Item(body=data, executable=executable, hash=f"sha256={value}", size=str(len(data)))


def _record(items: dict[str, _Item], own: str, scheme: Scheme) -> bytes:
    """RECORD as it is installed: every file but bytecode, sorted by its path there."""
    rows = [(relative_to_site_packages(path, scheme), item.hash, item.size) for path, item in items.items()]
    rows.append((relative_to_site_packages(own, scheme), "", ""))
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(sorted(rows))
    return text.getvalue().encode()


def _sources(items: dict[str, _Item], scheme: Scheme) -> dict[str, tuple[str, _Item]]:
    """The modules to compile: path of the .pyc -> path and item of the source, sorted by the first."""
    tag = "cpython-" + scheme.python.replace(".", "")
    found: dict[str, tuple[str, _Item]] = {}
    for path, item in items.items():
        folder, _, name = path.rpartition("/")
        size = len(item.body) if isinstance(item.body, bytes) else item.body.size
        if name.endswith(".py") and path.startswith(f"{scheme.site_packages}/") and size <= _LARGEST_SOURCE:
            found[f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"] = path, item
    return dict(sorted(found.items()))


@contextmanager
def _compiling(compiler: Compiler | None, sources: dict[str, tuple[str, _Item]]) -> Iterator[Iterator[bytes | None]]:
    """The .pyc files of the sources, one after the other."""
    if compiler is None or not sources:
        yield iter(())
        return
    with compiler.stream(map(_text_of, sources.values())) as compilation:
        yield compilation


def _text_of(source: tuple[str, _Item]) -> tuple[str, bytes]:
    """Absolute path and text of a module. RECORD's hash is left to be checked when the module itself is written."""
    path, item = source
    text = item.body if isinstance(item.body, bytes) else b"".join(replace(item.body, promise=None).chunks())
    return f"/{path}", text


def _with_folders(paths: set[str], scheme: Scheme) -> list[str]:
    """Sort the paths and all directories they need, bytewise (which UTF-8 and code points do alike)."""
    found = set(paths)
    for path in paths:
        for parent in _parents(path, scheme):
            if parent in found:
                break
            found.add(parent)
    return sorted(found)


def _parents(path: str, scheme: Scheme) -> Iterator[str]:
    """The directories above a path, up to the prefix and with it."""
    while path != scheme.prefix:
        path = posixpath.dirname(path)
        yield path
