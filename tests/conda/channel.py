"""Conda packages and channels made in code, and served over HTTP on loopback."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import zstandard

PLACEHOLDER = "/opt/placeholder_" + "placehold_" * 23 + "pl"


@dataclass(frozen=True, kw_only=True)
class Link:
    """A symbolic link in a package."""

    target: str


@dataclass(frozen=True, kw_only=True)
class Package:
    """One package; `prefixes` tells how the placeholder stands in a file ("text" or "binary")."""

    name: str
    version: str = "1.0"
    build: str = "h0_0"
    subdir: str = "linux-64"
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    noarch: str | None = None  # "python" or "generic"
    files: Mapping[str, bytes | Link] = field(default_factory=dict)
    executable: frozenset[str] = frozenset()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    entry_points: tuple[str, ...] = ()
    suffix: str = ".conda"
    timestamp: int = 1_700_000_000_000
    placeholder: str = PLACEHOLDER
    license: str = "MIT"

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-{self.build}{self.suffix}"

    def index(self) -> dict[str, Any]:
        number = self.build.rpartition("_")[2]
        found: dict[str, Any] = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": int(number) if number.isdecimal() else 0,
            "depends": list(self.depends),
            "constrains": list(self.constrains),
            "subdir": self.subdir,
            "timestamp": self.timestamp,
            "license": self.license,
        }
        if self.noarch:
            found["noarch"] = self.noarch
        return found

    def info(self) -> dict[str, bytes]:
        """The files below info/."""
        held = {
            "info/index.json": json.dumps(self.index()).encode(),
            "info/paths.json": json.dumps({"paths_version": 1, "paths": self._paths()}).encode(),
            "info/files": "".join(f"{path}\n" for path in sorted(self.files)).encode(),
            "info/about.json": b"{}",
        }
        if self.noarch == "python":
            link = {
                "noarch": {"type": "python", "entry_points": list(self.entry_points)},
                "package_metadata_version": 1,
            }
            held["info/link.json"] = json.dumps(link).encode()
        return held

    def _paths(self) -> list[dict[str, Any]]:
        rows = []
        for path, body in sorted(self.files.items()):
            row: dict[str, Any] = {"_path": path, "path_type": "hardlink"}
            data = body
            if isinstance(body, Link):
                row["path_type"] = "softlink"
                data = self.files.get(str(PurePosixPath(path).parent / body.target), b"")
            held = data if isinstance(data, bytes) else b""
            row |= {"sha256": hashlib.sha256(held).hexdigest(), "size_in_bytes": len(held)}
            if path in self.prefixes:
                row |= {"prefix_placeholder": self.placeholder, "file_mode": self.prefixes[path]}
            rows.append(row)
        return rows

    def archive(self) -> bytes:
        if self.suffix == ".tar.bz2":
            return bz2.compress(self.tar({**dict[str, bytes | Link](self.info()), **self.files}))
        stem = self.file.removesuffix(".conda")
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            for name, body in (
                ("metadata.json", b'{"conda_pkg_format_version": 2}'),
                (f"pkg-{stem}.tar.zst", zstandard.compress(self.tar(self.files))),
                (f"info-{stem}.tar.zst", zstandard.compress(self.tar(self.info()))),
            ):
                archive.writestr(zipfile.ZipInfo(name), body)
        return out.getvalue()

    def tar(self, files: Mapping[str, bytes | Link]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for path, body in files.items():
                info = tarfile.TarInfo(path)
                info.mode = 0o755 if path in self.executable else 0o644
                if isinstance(body, Link):
                    info.type, info.linkname = tarfile.SYMTYPE, body.target
                    tar.addfile(info)
                else:
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))
        return out.getvalue()


@dataclass
class Channel:
    """Packages and what repodata says of them; `patch` changes a record as the channel's hotfixes do."""

    packages: list[Package] = field(default_factory=list)
    patch: Callable[[str, dict[str, Any]], None] = lambda _file, _record: None
    removed: list[str] = field(default_factory=list)

    def add(self, *packages: Package) -> None:
        self.packages += packages

    def repodata(self, subdir: str) -> bytes:
        plain: dict[str, Any] = {}
        new: dict[str, Any] = {}
        for package in self.packages:
            if package.subdir != subdir or package.file in self.removed:
                continue
            body = package.archive()
            record = package.index() | {
                "size": len(body),
                "sha256": hashlib.sha256(body).hexdigest(),
                "md5": hashlib.md5(body, usedforsecurity=False).hexdigest(),
            }
            self.patch(package.file, record)
            (new if package.suffix == ".conda" else plain)[package.file] = record
        found = {
            "info": {"subdir": subdir},
            "packages": plain,
            "packages.conda": new,
            "removed": self.removed,
            "repodata_version": 1,
        }
        return json.dumps(found).encode()

    def files(self) -> dict[str, bytes]:
        """Everything below the channel, by its path."""
        subdirs = {"linux-64", "linux-aarch64", "noarch"}
        held = {f"{subdir}/repodata.json": self.repodata(subdir) for subdir in subdirs}
        held |= {f"{each.subdir}/{each.file}": each.archive() for each in self.packages}
        return held
