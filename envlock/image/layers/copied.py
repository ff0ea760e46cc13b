"""The user's own files as plain data: what was found, digested once, before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from envlock.digest import Digest
from envlock.image.canonical import canonical_json

__all__ = ["CopiedFile", "CopiedTree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFile:
    """One file, link or directory of a copy.

    `path` is relative to the copy's place, "" for a copy that is one file. A file has `sha256` and `size`, a link
    has `target`, a directory has neither.
    """

    path: str
    mode: int
    size: int = 0
    sha256: Digest | None = None
    target: str | None = None

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.sha256 is None and self.target is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTree:
    """A copy: where it stands on this machine, where it goes, and what is in it (sorted bytewise by path).

    `label` is what the manifest calls the source: never an absolute path of this machine. `commit` and `dirty` tell
    the git work tree that it stands in, where there is one; `notes` are lines of talk about what was left out.
    """

    root: Path
    label: str
    to: PurePosixPath
    files: tuple[CopiedFile, ...]
    tracked: bool = False
    commit: str | None = None
    dirty: bool = False
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> Digest:
        """Over names, modes, contents and links; not over where the tree stands here or there."""
        rows = [[file.path, file.mode, str(file.sha256) if file.sha256 else None, file.target] for file in self.files]
        return Digest.of(canonical_json(rows))

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def count(self) -> int:
        """Files and links."""
        return sum(not file.is_directory for file in self.files)
