"""Bytecode for modules, compiled by the interpreter that will run them, and the same on every machine."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from envlock.errors import MachineLacks
from envlock.image.layers.bytecode_job import Compilation

__all__ = ["Compilation", "Compiler"]

_PROGRAM = Path(__file__).with_name("bytecode_program.py")
# No site, no user site, no script's directory on sys.path, no bytecode written, no warnings. Not -I or -E: an
# interpreter that is run from an unpacked root is told its home by PYTHONHOME.
_FLAGS = ("-S", "-s", "-P", "-B", "-W", "ignore")
_ASK_VERSION = "import sys; print(sys.implementation.cache_tag, '.'.join(map(str, sys.version_info[:3])))"


class Compiler:
    """Compiles modules with a given interpreter, in one process for each wheel. A context manager.

    `command` runs the interpreter, in exactly this `environment` (and with PYTHONHASHSEED=0).
    """

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._command = (*command, *_FLAGS)
        self._environment = {**environment, "PYTHONHASHSEED": "0"}
        self._started: list[Compilation] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for compilation in self._started:
            compilation.close()

    @functools.cached_property
    def version(self) -> str:
        """The interpreter's bytecode tag and full version, for recipe keys: "cpython-313 3.13.5"."""
        command = (*self._command, "-c", _ASK_VERSION)
        try:
            asked = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as exc:
            said = exc.stderr if isinstance(exc, subprocess.CalledProcessError) else str(exc)
            raise MachineLacks(
                f"the interpreter that is to compile bytecode cannot be run: {' '.join(command)}\n{said}".rstrip(),
                hint="give an interpreter of the same X.Y that runs on this machine, or build without bytecode",
                code="interpreter-fails",
            ) from exc
        return asked.stdout.strip()

    @property
    def python(self) -> str:
        """The interpreter's X.Y."""
        return ".".join(self.version.split()[1].split(".")[:2])

    def compile(self, sources: Sequence[tuple[str, bytes]]) -> list[bytes | None]:
        """The .pyc of each (absolute path, source), None where it does not compile. One process, in this order."""
        with self.stream(sources) as compilation:
            return list(compilation)

    def stream(self, sources: Iterable[tuple[str, bytes]]) -> Compilation:
        """As `compile`, while the caller is at other work: sources are taken, and results kept, some way ahead.

        `sources` is walked in another thread; what it raises is raised where the next result is asked for. So is
        MachineLacks (code "interpreter-fails"), where the interpreter cannot be run or dies.
        """
        self._started = [compilation for compilation in self._started if not compilation.closed]
        compilation = Compilation((*self._command, str(_PROGRAM)), self._environment, sources)
        self._started.append(compilation)
        return compilation
