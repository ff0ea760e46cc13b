"""sha256 digests, parsed once at the edge and a type from there on."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Digest"]

_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A sha256, written `sha256:<64 hex digits>`."""

    hex: str

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read `sha256:...` or 64 bare hex digits; raise ValueError on anything else."""
        digits = text.removeprefix("sha256:")
        if not _HEX.fullmatch(digits):
            raise ValueError(f"not a sha256 digest: {text!r}")
        return cls(digits)

    @classmethod
    def of(cls, data: bytes) -> Digest:
        """The digest of these bytes."""
        return cls(hashlib.sha256(data).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Digest:
        """The digest of a file's bytes."""
        with path.open("rb") as file:
            return cls(hashlib.file_digest(file, "sha256").hexdigest())

    def __str__(self) -> str:
        return f"sha256:{self.hex}"
