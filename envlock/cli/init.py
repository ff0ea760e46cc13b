"""`envlock init`: a first envlock.toml."""

from __future__ import annotations

from pathlib import Path

import click

from envlock.cli.common import common_options, terminal
from envlock.wiring.starter import write_starter
from envlock.wiring.world import World, told_path

__all__ = ["init"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--name", help="The environment's name [default: the folder's].")
@common_options
@click.pass_context
def init(context: click.Context, folder: Path, name: str | None) -> None:
    """Write an envlock.toml to start from into FOLDER.

    The driver is this machine's where it has one, the requirements are requirements.txt where it is there.
    """
    talk = terminal(context)
    path = write_starter(World.here(talk.start), folder, name)
    talk.data({"file": str(path)}, f"wrote {path}; look it over, then: envlock lock {told_path(folder)}")
