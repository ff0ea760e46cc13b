"""The adapters that commands work with: store, HTTP, indexes and archives as the user configured them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from envlock.fetch.apt import AptSettings, read_apt_archives
from envlock.fetch.download import Downloader
from envlock.fetch.http import Http
from envlock.fetch.http_settings import read_http_settings
from envlock.fetch.model import IndexUrl
from envlock.fetch.simple import IndexClient
from envlock.fetch.sources import IndexSettings, read_index_settings
from envlock.fetch.store import Store
from envlock.lock.wheels.resolve import WheelResolver
from envlock.progress import Progress
from envlock.spec.model import EnvSpec
from envlock.wiring.world import World

__all__ = ["Services", "Sources", "open_services"]

_CONNECTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the command line says about where bytes come from; None leaves it to spec and configuration."""

    index_url: str | None = None
    debian_mirror: str | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The adapters that commands work with."""

    store: Store
    http: Http
    client: IndexClient
    downloader: Downloader
    settings: IndexSettings
    apt: AptSettings
    progress: Progress
    world: World
    offline: bool = False

    def resolver(self, spec: EnvSpec) -> WheelResolver:
        """What chooses wheels, and builds again those that were built from source."""
        return WheelResolver(
            client=self.client,
            store=self.store,
            indexes=self.settings.places,
            spec_indexes=spec.indexes,
            environ=self.world.environ,
            progress=self.progress,
        )

    def places(self, spec: EnvSpec) -> tuple[IndexUrl, ...]:
        """Every place that wheels may come from: the user's own, then the spec's."""
        own = (IndexUrl(name=index.name, url=index.url) for index in spec.indexes)
        return (*self.settings.places, *own)


@contextmanager
def open_services(world: World, spec: EnvSpec, sources: Sources, progress: Progress) -> Iterator[Services]:
    """The services of one command, closed with the context."""
    settings = read_index_settings(world.environ, world.home, index_url=sources.index_url, cwd=world.cwd)
    apt = read_apt_archives(world.environ, mirror=sources.debian_mirror or spec.base.mirror)
    http_settings = read_http_settings(world.environ, world.home, indexes=settings, apt=apt, offline=sources.offline)
    store = Store(world.cache)
    with Http(http_settings) as http:
        yield Services(
            store=store,
            http=http,
            client=IndexClient(http, store, say=progress.say),
            downloader=Downloader(store, http, workers=_CONNECTIONS, progress=progress),
            settings=settings,
            apt=apt,
            progress=progress,
            world=world,
            offline=sources.offline,
        )
