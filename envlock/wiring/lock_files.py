"""Where a specification's lock and the files derived from it stand, and how they are replaced whole."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from envlock.errors import Difference, FaultyInput, MachineLacks
from envlock.lock.codec import loads
from envlock.lock.model import Lock
from envlock.spec.model import EnvSpec
from envlock.wiring.world import told_path

__all__ = ["LockFiles", "lock_files", "read_text", "write_whole"]

_FOLDER = "lockfiles"


@dataclass(frozen=True, slots=True)
class LockFiles:
    """The lock of one environment and the files beside it, by the environment's name."""

    folder: Path
    name: str

    @property
    def lock(self) -> Path:
        """`<name>.lock`, the source of the others."""
        return self.folder / f"{self.name}.lock"

    def read(self) -> tuple[Lock, str] | None:
        """The lock that is there, and its text; None without one. Raises what `loads` raises."""
        text = read_text(self.lock)
        return None if text is None else (loads(text, str(self.lock)), text)

    def require(self, folder: Path) -> tuple[Lock, str]:
        """As `read`; raises Difference "no-lock" without one. `folder` is the specification, as the user named it."""
        found = self.read()
        if found is None:
            raise Difference(
                f"there is no lock at {self.lock}", hint=f"envlock lock {told_path(folder)}", code="no-lock"
            )
        return found


def lock_files(spec: EnvSpec, chosen: Path | None) -> LockFiles:
    """The place of a lock: `chosen`, else the nearest `lockfiles` folder at or above the specification.

    The way up stays within the git repository that the specification is in; outside of one there is no way up, so
    that a stray folder above somebody's home takes nobody's lock. Where there is none, it is `lockfiles` beside it.
    """
    if chosen is not None:
        return LockFiles(chosen, spec.name)
    start = spec.file.parent
    found = (folder / _FOLDER for folder in _within_repository(start) if (folder / _FOLDER).is_dir())
    return LockFiles(next(found, start / _FOLDER), spec.name)


def _within_repository(start: Path) -> tuple[Path, ...]:
    """The folder and those above it, up to the root of its git repository; the folder alone outside of one."""
    upward = (start, *start.parents)
    roots = [count for count, folder in enumerate(upward, 1) if (folder / ".git").exists()]
    return upward[: min(roots, default=1)]


def read_text(path: Path) -> str | None:
    """A file's text; None where there is no file. Raises FaultyInput "unreadable-file"."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise FaultyInput(
            f"{path} cannot be read: {exc}", hint="Restore the file, or lock anew.", code="unreadable-file"
        ) from exc


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader sees the old text or the new. Raises MachineLacks."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).chmod(0o644)
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise MachineLacks(
            f"{path} cannot be written: {exc.strerror}",
            hint="Make room or give rights there, or name another folder.",
            code="cannot-write",
        ) from exc
