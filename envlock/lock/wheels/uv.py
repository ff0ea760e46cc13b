"""uv as a resolver: it resolves for any target from any host."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.version import Version
from uv import find_uv_bin

from envlock.errors import MachineLacks
from envlock.lock.wheels.resolver import NoAnswer, Question, clean_environment, read_pins, run, write_question

__all__ = ["Uv", "uv_program"]


def uv_program() -> str:
    """The path of the installed uv package's program; raises MachineLacks "resolver-missing"."""
    try:
        return find_uv_bin()
    except FileNotFoundError as exc:
        raise MachineLacks(
            "uv is installed without its program",
            hint="Install the package uv beside envlock again.",
            code="resolver-missing",
        ) from exc


class Uv:
    """`uv pip compile`, without any configuration, with a cache that lasts as long as the question."""

    name = "uv"

    def __init__(self, environ: Mapping[str, str], *, python: Path = Path(sys.executable)) -> None:
        self._environ = environ
        self._python = python

    @property
    def version(self) -> str:
        """The installed package's version."""
        return metadata.version("uv")

    def resolve(self, question: Question) -> Mapping[str, Version]:
        """Versions by name. Raises NoAnswer, MachineLacks."""
        requirements, constraints, answer = write_question(question)
        target = question.target
        command = [
            *(uv_program(), "pip", "compile", str(requirements), "--output-file", str(answer)),
            *("--constraints", str(constraints)),
            *("--default-index", question.index_url, "--index-strategy", "first-index"),
            *("--python", str(self._python), "--python-version", target.python_full),
            # Only markers hang on the platform: what fits was decided before, so any Linux of the machine will do.
            *("--python-platform", f"{target.machine}-unknown-linux-gnu"),
            *("--only-binary", ":all:", "--no-sources", "--no-python-downloads", "--keyring-provider", "disabled"),
            *("--no-header", "--no-annotate", "--no-config", "--no-progress", "--quiet"),
            *("--color", "never", "--cache-dir", str(question.folder / "cache")),
        ]
        environment = clean_environment(self._environ, question.folder) | {
            "UV_HTTP_RETRIES": "0",  # the index is on this machine: what fails fails for good
            "UV_HTTP_TIMEOUT": str(int(question.timeout)),  # a package may be built before its metadata is known
        }
        done = run(command, environment, question, "uv")
        if done.status != 0:
            raise NoAnswer(_words(done.output))
        return read_pins(answer.read_text(encoding="utf-8"))


def _words(output: str) -> str:
    """The reasons that uv gives, without the heading and the marks that it draws."""
    text = re.sub(r"^.*No solution found when resolving dependencies:?\n", "", output)
    lines = [re.sub(r"^[\s│╰├─▶\u00d7]*(?:cause: |error: )?", "", line) for line in text.splitlines()]
    return "\n".join(line for line in lines if line)
