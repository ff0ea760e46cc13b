"""`envlock build`."""

from __future__ import annotations

from pathlib import Path

import click

from envlock.cli.common import common_options, terminal
from envlock.cli.console import human_bytes
from envlock.cli.options import spec_options
from envlock.image.built import BuiltImage, BuiltPlatform
from envlock.platforms import Platform
from envlock.wiring.building import ImageRequest
from envlock.wiring.building import build as build_files
from envlock.wiring.services import Sources
from envlock.wiring.world import World

__all__ = ["build"]


@click.command()
@spec_options
@click.option("--target", type=click.Choice(["oci"]), default="oci", show_default=True, help="What to make.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where outputs go [default: envlock-out/NAME here].",
)
@click.option("--oci-tar", "as_tar", is_flag=True, help="Write the layout as one tar, DIR/image.tar.")
@click.option(
    "--docker-archive",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write an archive for `docker load`, too: of one platform.",
)
@click.option("--tag", metavar="NAME:TAG", help="The docker-archive's tag [default: envlock/NAME:latest].")
@click.option(
    "--platform",
    "platforms",
    type=click.Choice([str(platform) for platform in Platform]),
    multiple=True,
    help="Only this platform of the lock (repeatable).",
)
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes [default: one per core].")
@common_options
@click.pass_context
def build(
    context: click.Context,
    /,
    spec: Path,
    lock_dir: Path | None,
    target: str,  # noqa: ARG001 (only one so far)
    output: Path | None,
    as_tar: bool,
    docker_archive: Path | None,
    tag: str | None,
    platforms: tuple[str, ...],
    workers: int | None,
    index_url: str | None,
    debian_mirror: str | None,
    offline: bool,
) -> None:
    """Build the image of SPEC's lock.

    SPEC is a folder with envlock.toml, or the file itself [default: here]. Makes an OCI layout in DIR/image, and
    DIR/manifest.json.
    """
    talk = terminal(context)
    built = build_files(
        World.here(talk.start),
        ImageRequest(
            folder=spec,
            lock_folder=lock_dir,
            sources=Sources(index_url=index_url, debian_mirror=debian_mirror, offline=offline),
            output=output,
            as_tar=as_tar,
            docker_archive=docker_archive,
            tag=tag,
            platforms=tuple(Platform(name) for name in platforms),
            workers=workers,
        ),
        talk.progress(),
    )
    talk.data(built.to_json(), _told(built))


def _told(built: BuiltImage) -> str:
    lines = [line for platform in built.platforms for line in _platform(platform)]
    lines.append("; ".join([_fetched(built), *_stages(built)]))
    lines.append(f"image: {built.layout} ({built.digest})")
    if built.docker_archive:
        lines.append(f"docker load -i {built.docker_archive}   # {built.tag}")
    return "\n".join(lines)


def _fetched(built: BuiltImage) -> str:
    told = f"{human_bytes(built.bytes_downloaded)} downloaded"
    return f"{told} in {built.seconds['fetch']:.1f} s" if built.bytes_downloaded else told


def _stages(built: BuiltImage) -> list[str]:
    """What took time worth telling; fetching is a part of making the layers."""
    told = {stage: f"{seconds:.1f}" for stage, seconds in built.seconds.items() if stage != "fetch"}
    worth = [f"{stage} {seconds} s" for stage, seconds in told.items() if seconds != "0.0"]
    return [", ".join(worth)] if worth else []


def _platform(platform: BuiltPlatform) -> list[str]:
    layers = platform.layers
    reused = sum(layer.reused for layer in layers)
    size, unpacked = sum(layer.size for layer in layers), sum(layer.unpacked for layer in layers)
    sizes = f"{human_bytes(size)}, {human_bytes(unpacked)} on the system disk"
    return [
        f"{platform.platform}: {len(layers)} layers ({reused} reused), {sizes}",
        f"manifest: {platform.manifest}",
    ]
