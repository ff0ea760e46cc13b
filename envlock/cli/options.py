"""Options that the commands working on a specification share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["spec_options"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def spec_options(command: _Command) -> _Command:
    """The specification, where its lock is, and where bytes come from."""
    for option in (
        click.option("--offline", is_flag=True, help="Ask no server; use what the cache holds."),
        click.option(
            "--debian-mirror", metavar="URL", help="A Debian mirror, before [base] and apt's configuration."
        ),
        click.option("--index-url", metavar="URL", help="The default package index, before uv's and pip's."),
        click.option(
            "--lock-dir",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="The lock's folder [default: the nearest lockfiles/ at or above SPEC in its repository].",
        ),
        click.argument("spec", type=click.Path(path_type=Path), default="."),
    ):
        command = option(command)
    return command
