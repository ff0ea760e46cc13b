"""The isolated place in which a package is built: an own environment, a fixed world, no compiler, no network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from build import BuildBackendException, BuildException, ProjectBuilder
from packaging.requirements import InvalidRequirement, Requirement

from envlock.errors import MachineLacks
from envlock.lock.wheels.interpreter import Interpreter
from envlock.lock.wheels.resolver import clean_environment
from envlock.lock.wheels.sdist import EPOCH
from envlock.lock.wheels.uv import uv_program

__all__ = ["BuildFailed", "BuildRoom", "WheelAtHand", "cuts_network", "stated_requirements"]

_NO_COMPILER = "envlock builds without a C compiler"
_SCRIPT = f"#!/bin/sh\necho '{_NO_COMPILER}' >&2\nexit 1\n"
_COMPILERS = ("AS", "CC", "CXX", "FC", "F77", "LD", "LDSHARED", "NVCC", "RUSTC")
_NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens
_TIMEOUT = 1800.0  # seconds
_LINES = 15


class BuildFailed(Exception):
    """The build backend failed; `words` is the end of what it said. `compiler`: it was for want of one."""

    def __init__(self, words: str, *, compiler: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.compiler = compiler


@dataclass(frozen=True, slots=True)
class WheelAtHand:
    """A wheel in the store, which keeps no names, and its name."""

    file: str
    path: Path
    sha256: str  # hex


class BuildRoom:
    """One environment below the empty folder `folder`, for one build.

    The backend sees a fixed clock (SOURCE_DATE_EPOCH), hash seed, locale, time zone and umask, a home of its own,
    compilers that fail, and no network where the machine lets it be cut (`cuts_network`); elsewhere proxies that
    lead nowhere stand in for that.
    """

    def __init__(self, folder: Path, interpreter: Interpreter, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._interpreter = interpreter
        self._environ = environ
        self._said = ""
        for name in ("home", "tmp", "uv", "wheels", "out"):
            (folder / name).mkdir(parents=True)
        compiler = folder / "no-compiler"
        compiler.write_text(_SCRIPT, encoding="utf-8")
        compiler.chmod(0o755)

    @property
    def _python(self) -> Path:
        return self._folder / "venv" / "bin" / "python"

    def furnish(self, wheels: Sequence[WheelAtHand]) -> None:
        """Make the environment and install exactly these wheels, each checked against its hash."""
        self._uv("venv", "--python", str(self._interpreter.path), "--no-project", str(self._folder / "venv"))
        lines = []
        for wheel in wheels:
            place = self._folder / "wheels" / wheel.file
            place.symlink_to(wheel.path)
            lines.append(f"{place} --hash=sha256:{wheel.sha256}\n")
        if lines:
            requirements = self._folder / "requirements.txt"
            requirements.write_text("".join(lines), encoding="utf-8")
            self._uv(
                *("pip", "install", "--python", str(self._python), "--no-deps", "--require-hashes", "--no-index"),
                *("--link-mode", "copy", "-r", str(requirements)),
            )

    def wanted(self, source: Path) -> frozenset[str]:
        """What the backend wants for building a wheel beyond what pyproject.toml says. Raises BuildFailed."""
        with self._explained():
            return _plain(self._builder(source).get_requires_for_build("wheel"))

    def build(self, source: Path) -> Path:
        """Build the wheel; returns its path. Raises BuildFailed."""
        with self._explained():
            return Path(self._builder(source).build("wheel", self._folder / "out"))

    def _builder(self, source: Path) -> ProjectBuilder:
        return ProjectBuilder(source, str(self._python), runner=self._run)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BuildBackendException as exc:
            words = self._said if isinstance(exc.exception, subprocess.CalledProcessError) else str(exc.exception)
            lines = [line.rstrip() for line in words.splitlines() if line.strip()]
            raise BuildFailed("\n".join(lines[-_LINES:]), compiler=_NO_COMPILER in words) from exc
        except BuildException as exc:
            raise BuildFailed(str(exc)) from exc
        except subprocess.TimeoutExpired as exc:
            raise BuildFailed(f"it was not done after {_TIMEOUT:.0f} s") from exc

    def _run(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        done = subprocess.run(
            [*cuts_network(self._environ.get("PATH", os.defpath)), *cmd],
            cwd=cwd,
            env=self._world() | dict(extra_environ or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT,
            check=False,
            umask=0o022,
        )
        self._said = done.stdout.decode("utf-8", "replace")
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, list(cmd))

    def _world(self) -> dict[str, str]:
        kept = {name: self._environ[name] for name in ("LD_LIBRARY_PATH",) if name in self._environ}
        path = f"{self._folder / 'venv' / 'bin'}{os.pathsep}{self._environ.get('PATH', os.defpath)}"
        return (
            kept
            | dict.fromkeys(_COMPILERS, str(self._folder / "no-compiler"))
            | dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _NOWHERE)
            | {
                "GIT_CEILING_DIRECTORIES": str(self._folder.parent),  # no repository that happens to surround us
                "HOME": str(self._folder / "home"),
                "LC_ALL": "C.UTF-8",
                "PATH": path,
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_INDEX": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONHASHSEED": "0",
                "PYTHONWARNINGS": "ignore",  # a backend's talk to the package's own author
                "SOURCE_DATE_EPOCH": str(EPOCH),
                "TMPDIR": str(self._folder / "tmp"),
                "TZ": "UTC",
                "VIRTUAL_ENV": str(self._folder / "venv"),
            }
        )

    def _uv(self, *words: str) -> None:
        command = [
            uv_program(),
            *words,
            "--no-config",
            "--offline",
            "--quiet",
            "--cache-dir",
            str(self._folder / "uv"),
        ]
        environment = clean_environment(self._environ, self._folder / "tmp")
        done = subprocess.run(
            command, env=environment, cwd=self._folder, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
        if done.returncode != 0:
            raise MachineLacks(
                f"no build environment could be made with {self._interpreter.path}: {done.stderr.strip()[-1000:]}",
                hint="See whether that interpreter is whole, and whether there is room on the disk of the cache.",
                code="build-environment",
            )


def stated_requirements(source: Path) -> frozenset[str]:
    """The build requirements that a source tree's pyproject.toml states. Raises BuildFailed."""
    try:
        return _plain(ProjectBuilder(source).build_system_requires)
    except BuildException as exc:
        raise BuildFailed(str(exc)) from exc


def _plain(requirements: Iterable[str]) -> frozenset[str]:
    """Requirements in one spelling, so that the same one is known again."""
    try:
        return frozenset(str(Requirement(text)) for text in requirements)
    except InvalidRequirement as exc:
        raise BuildFailed(f"it wants {exc}") from exc


@cache
def cuts_network(path: str) -> tuple[str, ...]:
    """The command that runs another without network on this machine; () where it lets nobody cut it off."""
    unshare = shutil.which("unshare", path=path)
    if unshare is None:
        return ()
    for way in (("--net",), ("--map-current-user", "--net"), ("--map-root-user", "--net")):
        command = (unshare, *way, "--")
        try:
            tried = subprocess.run(
                [*command, "true"], env={"PATH": path}, capture_output=True, timeout=20, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ()
        if tried.returncode == 0:
            return command
    return ()
