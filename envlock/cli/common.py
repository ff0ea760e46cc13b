"""Options that every command has, and the terminal they are about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from envlock.cli.console import choose_progress
from envlock.progress import Progress

__all__ = ["Invocation", "Terminal", "as_json", "common_options", "terminal"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Terminal:
    """How the user wants to be talked to: data goes to stdout, talk to stderr."""

    start: Path = Path()
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    bars: bool = True

    def progress(self) -> Progress:
        """Where work tells how far it is."""
        return choose_progress(quiet=self.quiet, bars=self.bars)

    def data(self, values: Mapping[str, object], text: str) -> None:
        """Print a command's result: the values with --json, else the text."""
        if self.as_json:
            click.echo(as_json(values))
        elif text and not self.quiet:
            click.echo(text)


@dataclass(slots=True)
class Invocation:
    """The one cell that outlives click's contexts, so that an error is told as the user asked to be talked to."""

    terminal: Terminal = field(default_factory=Terminal)


def as_json(values: Mapping[str, object]) -> str:
    """Values as JSON in ASCII, which is the same JSON whatever the terminal's encoding is."""
    return json.dumps(values, indent=2)


def terminal(context: click.Context) -> Terminal:
    """The terminal of this invocation."""
    return _invocation(context).terminal


def _invocation(context: click.Context) -> Invocation:
    return context.ensure_object(Invocation)


def common_options(command: _Command) -> _Command:
    """Give a command (or the whole program) the options that all have."""
    for option in (
        click.option("-C", "start", type=click.Path(path_type=Path), metavar="DIR", help="Start in DIR."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors."),
        click.option("-v", "--verbose", is_flag=True, help="Say what led to an error, too."),
        click.option("--no-progress", "bars", flag_value=False, default=True, help="Plain lines, no bars."),
    ):
        command = _shared(option)(command)
    return command


def _shared(option: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        decorated = option(command)
        parameters = getattr(decorated, "__click_params__", None) or getattr(decorated, "params", [])
        parameter = parameters[-1]
        parameter.expose_value = False
        parameter.callback = _remember
        return decorated

    return decorate


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep a shared option where it was given: before the command's name or after it."""
    name = parameter.name
    if name and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
        invocation = _invocation(context)
        invocation.terminal = replace(invocation.terminal, **{name: value})  # type: ignore[arg-type] # click checked it
