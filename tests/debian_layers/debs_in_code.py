"""Debian packages built in code: an ar file of a control tar and a data tar, honest or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import Path

import zstandard

from envlock.image.layers.debian import DebFile

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """An entry of a data tar; the kind follows from what is set, a path that ends in `/` is a directory."""

    path: str
    body: bytes | None = None
    symlink: str | None = None
    hardlink: str | None = None
    kind: bytes | None = None
    mode: int | None = None
    uid: int = 0
    gid: int = 0

    def info(self) -> tarfile.TarInfo:
        info = tarfile.TarInfo(self.path)
        info.uid, info.gid = self.uid, self.gid
        if self.symlink is not None:
            info.type, info.linkname = tarfile.SYMTYPE, self.symlink
        elif self.hardlink is not None:
            info.type, info.linkname = tarfile.LNKTYPE, self.hardlink
        elif self.path.endswith("/"):
            info.type = tarfile.DIRTYPE
        else:
            info.size = len(self.body or b"")
        info.type = self.kind or info.type
        info.mode = self.mode if self.mode is not None else (0o755 if info.isdir() else 0o644)
        return info


@dataclass(frozen=True, kw_only=True)
class Package:
    """What a package is made of; `control` adds fields, `scripts` are further files of the control archive."""

    name: str = "example"
    version: str = "1.0-1"
    architecture: str = "amd64"
    items: Sequence[Item] = ()
    control: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    conffiles: Sequence[str] = ()
    md5sums: bool = True
    compression: str = ".xz"

    def fields(self) -> str:
        given = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": self.architecture,
            "Maintainer": "Nobody <nobody@example.org>",
            "Description": "an example",
        } | dict(self.control)
        return "".join(f"{name}: {value}\n" for name, value in given.items())

    def control_files(self) -> dict[str, str]:
        files = {"control": self.fields()} | dict(self.scripts)
        if self.conffiles:
            files["conffiles"] = "".join(f"{path}\n" for path in self.conffiles)
        if self.md5sums:
            files["md5sums"] = "".join(
                f"{md5(item.body, usedforsecurity=False).hexdigest()}  {item.path.removeprefix('./')}\n"
                for item in self.items
                if item.body is not None and item.path.removeprefix(".") not in self.conffiles
            )
        return files


def tar_of(items: Iterable[Item]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for item in items:
            info = item.info()
            tar.addfile(info, io.BytesIO(item.body or b"") if info.size else None)
    return out.getvalue()


def control_tar(package: Package) -> bytes:
    scripts = ("preinst", "postinst", "prerm", "postrm", "config")
    return tar_of(
        Item(path=f"./{name}", body=text.encode(), mode=0o755 if name in scripts else 0o644)
        for name, text in package.control_files().items()
    )


def ar_of(members: Iterable[tuple[str, bytes]]) -> bytes:
    out = b"!<arch>\n"
    for name, body in members:
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n".encode() + body
        out += b"\n" * (len(body) % 2)
    return out


def members_of(package: Package, data: bytes | None = None) -> list[tuple[str, bytes]]:
    squeeze = COMPRESSORS[package.compression]
    items = [Item(path="./"), *package.items]
    return [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", gzip.compress(control_tar(package))),
        (f"data.tar{package.compression}", squeeze(tar_of(items) if data is None else data)),
    ]


def deb_of(
    folder: Path,
    package: Package,
    *,
    members: Iterable[tuple[str, bytes]] | None = None,
    data: bytes | None = None,
) -> DebFile:
    """Write the package, or these members under its name, and say what it is."""
    path = folder / f"{package.name}_{package.version}_{package.architecture}.deb"
    path.write_bytes(ar_of(members_of(package, data) if members is None else members))
    return DebFile(path, package.name, package.version, package.architecture)
