"""`envlock build`: a lock to an image."""

from __future__ import annotations

import os
import platform as host
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from envlock.errors import FaultyInput
from envlock.fetch.locate import deb_urls, wheel_urls
from envlock.image.artefacts import Artefact
from envlock.image.build import BuildRequest, Outputs, build_image
from envlock.image.build import Services as BuildServices
from envlock.image.built import BuiltImage
from envlock.image.plan import EPOCH
from envlock.lock.model import LockedDeb, LockedWheel
from envlock.lock.wheels.resolve import WheelResolver
from envlock.platforms import Platform
from envlock.progress import Progress
from envlock.spec.model import EnvSpec
from envlock.spec.reader import read_spec
from envlock.wiring.lock_files import lock_files
from envlock.wiring.services import Services, Sources, open_services
from envlock.wiring.world import World

__all__ = ["ImageRequest", "build", "image_time"]

_OUTPUT = "envlock-out"
_LAST_SECOND = 253402300799  # of the year 9999: RFC 3339 writes no later one


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """What the command line asks for. `output` is the folder that takes layout and manifest."""

    folder: Path
    lock_folder: Path | None = None
    sources: Sources = field(default_factory=Sources)
    output: Path | None = None
    as_tar: bool = False
    docker_archive: Path | None = None
    tag: str | None = None
    platforms: tuple[Platform, ...] = ()
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where locked files come from: the user's indexes and mirrors, or their source."""

    services: Services
    spec: EnvSpec
    resolver: WheelResolver

    def urls(self, artefact: Artefact) -> Iterable[str]:
        """Candidate URLs, best first."""
        if isinstance(artefact, LockedDeb):
            return deb_urls(artefact.pool, artefact.archive, self.services.apt)
        if artefact.direct_url is not None:
            return (artefact.direct_url,)
        return wheel_urls(
            artefact.file,
            artefact.name,
            self.services.places(self.spec),
            self.services.client,
            sha256=artefact.sha256,
            index=artefact.index,
            say=self.services.progress.say,
        )

    def rebuild(self, wheel: LockedWheel) -> Path:
        """The wheel, built from its locked source again."""
        return self.resolver.rebuild(wheel)


def build(world: World, request: ImageRequest, progress: Progress) -> BuiltImage:
    """Build the image; raises what `build_image` raises, and Difference "no-lock"."""
    spec = read_spec(world.path(request.folder), home=world.home)
    files = lock_files(spec, world.path(request.lock_folder) if request.lock_folder else None)
    lock, text = files.require(request.folder)
    output = world.path(request.output) if request.output else world.cwd / _OUTPUT / spec.name
    outputs = Outputs(
        layout=output / ("image.tar" if request.as_tar else "image"),
        manifest=output / "manifest.json",
        as_tar=request.as_tar,
        docker_archive=world.path(request.docker_archive) if request.docker_archive else None,
        tag=request.tag or f"envlock/{spec.name}:latest",
    )
    with open_services(world, spec, request.sources, progress) as services:
        return build_image(
            BuildRequest(
                spec=spec,
                lock=lock,
                lock_text=text,
                platforms=request.platforms or lock.platforms,
                outputs=outputs,
                workers=request.workers or len(os.sched_getaffinity(0)),
                epoch=image_time(world),
            ),
            BuildServices(
                store=services.store,
                fetcher=services.downloader,
                origin=_Origin(services, spec, services.resolver(spec)),
                progress=progress,
                environ=world.environ,
                machine=host.machine(),
                clock=time.monotonic,
            ),
        )


def image_time(world: World) -> int:
    """The time that stands in the image: SOURCE_DATE_EPOCH, else a fixed one."""
    text = world.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return EPOCH
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) > _LAST_SECOND:
        raise FaultyInput(
            f"SOURCE_DATE_EPOCH is {text!r}", hint="Give whole seconds since 1970, or unset it.", code="bad-epoch"
        )
    return int(text)
