"""What a resolver is asked and answers, and how one is run as a subprocess that sees nothing of this machine."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envlock.errors import MachineLacks
from envlock.lock.wheels.target import Target

__all__ = ["NoAnswer", "Question", "Resolver", "Run", "clean_environment", "read_pins", "run", "write_question"]

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([^\s;#]+)")
_POLL = 0.05  # seconds


class NoAnswer(Exception):
    """The resolver found no solution; `words` is all that it said."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One resolution: lines as in requirements files, without markers. `pins` are kept wherever that is possible.

    `folder` is an empty scratch folder. When `stop` is set the resolver is ended. `timeout` is in seconds.
    """

    requirements: Sequence[str]
    constraints: Sequence[str]
    pins: Mapping[str, str]
    index_url: str
    target: Target
    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    timeout: float = 3600.0


class Resolver(Protocol):
    """A program that chooses versions."""

    @property
    def name(self) -> str:
        """As the spec names it."""

    @property
    def version(self) -> str:
        """The program's version."""

    def resolve(self, question: Question) -> Mapping[str, Version]:
        """The versions by normalised name. Raises NoAnswer, MachineLacks."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a resolver's subprocess ended."""

    status: int
    output: str  # stdout and stderr, in the order of writing


def clean_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Only what a program needs to start: no configuration of pip's or uv's, no proxy, no index."""
    kept = {name: environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONUSERBASE") if name in environ}
    return kept | {
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "NO_PROXY": "*",
        "PIP_CONFIG_FILE": "/dev/null",
        "TMPDIR": str(folder),
        "UV_NO_CONFIG": "1",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_DIRS": str(folder / "none"),
        "XDG_CONFIG_HOME": str(folder / "none"),
        "XDG_DATA_HOME": str(folder / "data"),
    }


def write_question(question: Question) -> tuple[Path, Path, Path]:
    """Write requirements.in, constraints.txt and the answer's file, which holds the pins to keep."""
    requirements = question.folder / "requirements.in"
    constraints = question.folder / "constraints.txt"
    answer = question.folder / "requirements.txt"
    requirements.write_text("".join(f"{line}\n" for line in question.requirements), encoding="utf-8")
    constraints.write_text("".join(f"{line}\n" for line in question.constraints), encoding="utf-8")
    answer.write_text(
        "".join(f"{name}=={version}\n" for name, version in sorted(question.pins.items())), encoding="utf-8"
    )
    return requirements, constraints, answer


def read_pins(text: str) -> dict[str, Version]:
    """`name==version` lines as versions by normalised name; raises NoAnswer where a line cannot be read."""
    pins: dict[str, Version] = {}
    for line in text.splitlines():
        bare = line.partition(" #")[0].strip()
        if not bare or bare.startswith("#"):
            continue
        match = _PIN.match(bare)
        try:
            if match is None:
                raise NoAnswer(f"it answered with the line {line!r}")
            pins[canonicalize_name(match[1])] = Version(match[2])
        except InvalidVersion:
            raise NoAnswer(f"it answered with the line {line!r}") from None
    return pins


def run(command: Sequence[str], environment: Mapping[str, str], question: Question, name: str) -> Run:
    """Run a resolver to its end, or to the question's. Raises MachineLacks "resolver-missing", "resolver-slow"."""
    log = question.folder / "output.log"
    deadline = time.monotonic() + question.timeout
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                list(command),
                cwd=question.folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        except OSError as exc:
            raise MachineLacks(
                f"{name} cannot be run: {exc}",
                hint=f"Install {name} beside envlock again.",
                code="resolver-missing",
            ) from exc
        try:
            while (status := _wait(process)) is None:
                if question.stop.is_set():
                    status = -1
                    break
                if time.monotonic() > deadline:
                    raise MachineLacks(
                        f"{name} has not come to an end after {question.timeout:.0f} s",
                        hint="Narrow the requirements (lower bounds help most), or try the other resolver.",
                        code="resolver-slow",
                    )
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return Run(status, log.read_text(encoding="utf-8", errors="replace"))


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_POLL)
    except subprocess.TimeoutExpired:
        return None
