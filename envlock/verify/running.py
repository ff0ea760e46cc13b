"""Run a probe as a subprocess with a time limit; a hang is an observation, and its whole process tree is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlock.verify.model import Died, Failed, Hung, Observation, Seen

__all__ = ["Launcher"]

_TALK = 4000  # characters kept of what a probe wrote to stderr
_CACHES = (
    "CUDA_CACHE_PATH",
    "HF_HOME",
    "MPLCONFIGDIR",
    "NUMBA_CACHE_DIR",
    "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_HOME",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
)


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """How probes are started: the target's Python, the folder that holds this package, and a scratch folder.

    `python` is the command line of the interpreter; `source` is the folder that has `envlock/verify` as plain files;
    `environ` holds the variables as the user has them, and `scratch` takes every cache: a target stays as it was.
    """

    python: tuple[str, ...]
    source: Path
    scratch: Path
    environ: Mapping[str, str]

    def run(self, probe: str, request: Mapping[str, object], limit: float) -> Observation:
        """Run the probe named `probe`; return what it saw, or how it ended. `limit` is in seconds."""
        folder = self.scratch / f"{probe}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        launch = self.source / "envlock/verify/probes/launch.py"
        command = [*self.python, str(launch), probe, str(folder)]
        begin = time.monotonic()
        talk_path, answers_path = folder / "stderr", folder / "answers"
        with talk_path.open("wb") as talk, answers_path.open("wb") as answers:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=talk,
                env=self._variables(folder),
                cwd=folder,
                start_new_session=True,
            )
            try:
                process.communicate(json.dumps(request).encode(), timeout=limit)
            except subprocess.TimeoutExpired:
                _kill_tree(process)
                return Hung(limit=limit, stage=_Answers.read(answers_path).stage, talk=_tail(talk_path))
            except BaseException:
                _kill_tree(process)
                raise
            finally:
                _kill_group(process.pid)  # what the probe left behind
        return _ended(process.returncode, _Answers.read(answers_path), _tail(talk_path), time.monotonic() - begin)

    def _variables(self, folder: Path) -> dict[str, str]:
        """The user's variables, with every cache moved to the scratch folder and no network."""
        moved = {name: str(folder / name.lower()) for name in _CACHES}
        for path in moved.values():
            Path(path).mkdir()
        fixed = {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "PYTHONFAULTHANDLER": "1"}
        return {**self.environ, **moved, **fixed}


@dataclass(frozen=True)
class _Answers:
    stage: str
    last: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> _Answers:
        """What a probe's lines told; one that was cut off tells nothing."""
        stage, last = "start", {}
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            stage = told.get("stage", stage)
            last = told
        return cls(stage, last)


def _ended(status: int, answers: _Answers, talk: str, seconds: float) -> Observation:
    if status == 0 and "seen" in answers.last:
        return Seen(value=answers.last["seen"], seconds=seconds)
    if status == 0 and "failed" in answers.last:
        return Failed(**answers.last["failed"], stage=answers.stage, seconds=seconds)
    return Died(status=status, stage=answers.stage, talk=talk, seconds=seconds)


def _tail(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-_TALK:]


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all that came from it, those too that left its session."""
    for pid in _descendants(process.pid):
        _kill(pid)
    _kill_group(process.pid)
    process.wait()


def _descendants(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            parents.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        children = parents.get(queue.pop(), [])
        found += children
        queue += children
    return found


def _parent(process: Path) -> int | None:
    try:
        status = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended meanwhile
        return None
    return int(status.rpartition(")")[2].split()[1])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
