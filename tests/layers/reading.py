"""Layers, read back by others than their writer."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass

from envlock.image.layers.entries import Entry, LayerBlob
from envlock.image.layers.writer import write_layer


@dataclass(frozen=True)
class Layer:
    """A written layer: its blob, and what tarfile finds in it."""

    raw: bytes
    blob: LayerBlob

    @property
    def tar(self) -> bytes:
        return gzip.decompress(self.raw)

    def members(self) -> list[tarfile.TarInfo]:
        with tarfile.open(fileobj=io.BytesIO(self.tar)) as tar:
            return tar.getmembers()

    def files(self) -> dict[str, bytes]:
        """Path -> bytes of the regular files."""
        with tarfile.open(fileobj=io.BytesIO(self.tar)) as tar:
            return {member.name: _bytes(tar, member) for member in tar if member.isreg()}

    def modes(self) -> dict[str, int]:
        """Path -> mode of everything but directories."""
        return {member.name: member.mode for member in self.members() if not member.isdir()}


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def layer_of(entries: Iterable[Entry]) -> Layer:
    """Write the entries, and check what the writer tells of them."""
    out = io.BytesIO()
    blob = write_layer(entries, out)
    layer = Layer(out.getvalue(), blob)
    assert hashlib.sha256(layer.raw).hexdigest() == blob.digest.hex
    assert hashlib.sha256(layer.tar).hexdigest() == blob.diff_id.hex
    assert (len(layer.raw), len(layer.tar)) == (blob.size, blob.unpacked)
    return layer
