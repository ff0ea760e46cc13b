"""pip-tools as a resolver: pip's own choices, for the interpreter that it runs on."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from importlib import metadata

from packaging.version import Version

from envlock.errors import MachineLacks
from envlock.lock.wheels.interpreter import Interpreter
from envlock.lock.wheels.resolver import NoAnswer, Question, clean_environment, read_pins, run, write_question

__all__ = ["PipTools"]

_ERROR = re.compile(r"^ *ERROR: ", re.MULTILINE)
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_FEW = 4


class PipTools:
    """`pip-compile`, without any configuration. `host` is the interpreter that has pip-tools: envlock's own."""

    name = "pip-tools"

    def __init__(self, environ: Mapping[str, str], host: Interpreter) -> None:
        self._environ = environ
        self._host = host

    @property
    def version(self) -> str:
        """The installed package's version."""
        return metadata.version("pip-tools")

    def resolve(self, question: Question) -> Mapping[str, Version]:
        """Versions by name. Raises NoAnswer, MachineLacks "resolver-unfit" for a target unlike the host."""
        target, host = question.target, self._host.target
        if (host.python, host.machine) != (target.python, target.machine) or not self._host.linux:
            raise MachineLacks(
                f"pip-tools resolves for the interpreter it runs on, CPython {host.python} on {host.machine}, "
                f"and the environment is for CPython {target.python} on Linux {target.machine}",
                hint='Write resolver = "uv" in [python], which resolves for any target, '
                f"or run envlock with Python {target.python} on such a machine.",
                code="resolver-unfit",
            )
        requirements, constraints, answer = write_question(question)
        # -v, as pip's reasons are said at that level only.
        command = [
            *(str(self._host.path), "-m", "piptools", "compile", str(requirements), "--output-file", str(answer)),
            *("--constraint", str(constraints), "--index-url", question.index_url, "--resolver", "backtracking"),
            *("--no-config", "--no-header", "--no-annotate", "--strip-extras", "--allow-unsafe", "-v"),
            *("--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-options", "--no-color"),
            *("--cache-dir", str(question.folder / "cache"), "--pip-args", "--no-cache-dir --only-binary :all:"),
        ]
        environment = clean_environment(self._environ, question.folder) | {
            "PIP_DEFAULT_TIMEOUT": str(int(question.timeout)),  # a package may be built before its metadata is known
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "PIP_RETRIES": "0",
        }
        done = run(command, environment, question, "pip-tools")
        if done.status != 0:
            raise NoAnswer(_words(done.output, question))
        return read_pins(answer.read_text(encoding="utf-8"))


def _words(output: str, question: Question) -> str:
    """Of all that pip-compile says, pip's own error; lines of our files are put back as what they say."""
    before = output.partition("Traceback (most recent call last)")[0].partition("To fix this you could try")[0]
    found = _ERROR.search(before)
    text = textwrap.dedent(before[found.end() :]) if found else output
    for number, line in enumerate(question.requirements, 1):
        text = text.replace(f"-r {question.folder / 'requirements.in'} (line {number})", line)
    return _VERSIONS.sub(_few_versions, text.replace(f"{question.folder}/", ""))


def _few_versions(found: re.Match[str]) -> str:
    versions = found[1].split(", ")
    few = versions if len(versions) <= _FEW else [versions[0], "...", *versions[-_FEW:]]
    return f"(from versions: {', '.join(few)})"
