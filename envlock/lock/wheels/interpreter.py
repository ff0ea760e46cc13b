"""An interpreter of this machine, asked what it is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock.errors import MachineLacks
from envlock.lock.wheels.target import Target

__all__ = ["Interpreter", "ask_interpreter"]

_ASK = """
import json, os, platform, sys
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION")
except (AttributeError, OSError, ValueError):
    libc = None
print(json.dumps({
    "python": "%d.%d" % sys.version_info[:2], "full": "%d.%d.%d" % sys.version_info[:3],
    "machine": platform.machine(), "glibc": libc.split()[1] if libc else None,
    "linux": sys.platform == "linux", "implementation": sys.implementation.name,
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A CPython at `path`, and what wheels fit it."""

    path: Path
    target: Target
    linux: bool = True


def ask_interpreter(path: Path, environ: Mapping[str, str]) -> Interpreter:
    """Run it and ask; raises MachineLacks "interpreter-unfit"."""
    environment = {name: environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in environ}
    try:
        told = subprocess.run(
            [str(path), "-I", "-c", _ASK], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        facts = json.loads(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as exc:
        raise _unfit(path, f"cannot be run: {exc}") from exc
    if facts["implementation"] != "cpython":
        raise _unfit(path, f"is {facts['implementation']}, not CPython")
    target = Target(python=facts["python"], python_full=facts["full"], machine=facts["machine"], glibc=facts["glibc"])
    return Interpreter(path=path, target=target, linux=facts["linux"])


def _unfit(path: Path, why: str) -> MachineLacks:
    return MachineLacks(
        f"the interpreter {path} {why}",
        hint="Run envlock with a CPython of 3.11 or later.",
        code="interpreter-unfit",
    )
