"""The world outside, read once: environment, working directory, home and clock."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from envlock.errors import FaultyInput

__all__ = ["World", "told_path"]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a run sees of the world outside."""

    environ: Mapping[str, str]
    cwd: Path
    home: Path
    now: datetime

    @classmethod
    def here(cls, folder: Path = Path()) -> World:
        """The world of this process, started in `folder`."""
        cwd = Path.cwd() / folder
        if not cwd.is_dir():
            raise FaultyInput(f"{cwd} is not a folder", hint="Give -C a folder that exists.", code="no-such-folder")
        return cls(environ=dict(os.environ), cwd=cwd, home=_home(os.environ), now=datetime.now(UTC))

    @property
    def cache(self) -> Path:
        """Where artefacts and layers are kept: XDG_CACHE_HOME/envlock. A relative value is ignored, as XDG says."""
        named = Path(self.environ.get("XDG_CACHE_HOME") or "")
        return (named if named.is_absolute() else self.home / ".cache") / "envlock"

    def path(self, path: Path) -> Path:
        """A path as the user gave it, made absolute; `~` is the home, where a shell has left it in."""
        below_home = path.parts[:1] == ("~",)
        return (self.home.joinpath(*path.parts[1:]) if below_home else self.cwd / path).absolute()


def told_path(path: Path) -> str:
    """A path as a shell takes it, for commands that a user is told to run."""
    return shlex.quote(str(path))


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path("/")
