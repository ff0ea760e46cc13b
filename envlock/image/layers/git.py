"""What git says about a folder: which files it tracks, and the commit they belong to."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock.errors import FaultyInput, MachineLacks

__all__ = ["GitState", "git_state", "tracked_paths"]

_LIMIT = 120  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The commit that is checked out (None before the first one), and whether files differ from it."""

    commit: str | None
    dirty: bool


def tracked_paths(folder: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Paths below `folder`, relative to it, that git tracks, those of submodules included.

    Raise MachineLacks (code "no-git") without a git, FaultyInput (code "no-work-tree") outside of a work tree.
    """
    listed = _git(folder, environ, "ls-files", "-z", "--cached", "--recurse-submodules", "--", ".")
    try:
        return tuple(path.decode() for path in listed.split(b"\0") if path)
    except UnicodeDecodeError as exc:
        raise FaultyInput(
            f"{folder}: git tracks a file whose name is not UTF-8 ({exc.object!r})",
            hint="Rename it, or leave it out with ignore under [[image.copy]].",
            code="copy-faulty",
        ) from exc


def git_state(path: Path, environ: Mapping[str, str], *, tracked: bool) -> GitState | None:
    """The state of the work tree that `path` stands in, as far as this path goes.

    None where it stands in none, or git is not installed. With `tracked`, files that git does not know do not make
    it dirty.
    """
    folder = path if path.is_dir() else path.parent
    if not _in_work_tree(folder) or _program(environ) is None:
        return None
    untracked = "no" if tracked else "all"
    changes = _git(folder, environ, "status", "--porcelain", "-z", f"--untracked-files={untracked}", "--", str(path))
    commit = _git(folder, environ, "rev-parse", "--verify", "--quiet", "HEAD", missing=True)
    return GitState(commit=commit.decode().strip() or None, dirty=bool(changes))


def _in_work_tree(folder: Path) -> bool:
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def _program(environ: Mapping[str, str]) -> str | None:
    return shutil.which("git", path=environ.get("PATH"))


def _git(folder: Path, environ: Mapping[str, str], *words: str, missing: bool = False) -> bytes:
    """What git prints; with `missing`, nothing where it finds nothing."""
    program = _program(environ)
    if program is None:
        raise MachineLacks(
            f"git is not installed, and [[image.copy]] asks for the tracked files of {folder}",
            hint="Install git, or write tracked = false.",
            code="no-git",
        )
    # Other GIT_* variables (a commit hook has some) would mean another work tree. The owner of the tree does not
    # matter, since nothing of it is run.
    settings = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
    variables = {name: value for name, value in environ.items() if name in {"PATH", "HOME"}}
    command = [program, *settings, "-C", str(folder), *words]
    done = subprocess.run(
        command,
        env=variables | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
        capture_output=True,
        timeout=_LIMIT,
        check=False,
    )
    if done.returncode == 0 or missing:
        return done.stdout
    raise FaultyInput(
        f"git cannot tell about {folder}: {done.stderr.decode(errors='replace').strip()}",
        hint="Make it a git work tree, or write tracked = false under [[image.copy]].",
        code="no-work-tree",
    )
