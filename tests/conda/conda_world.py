"""Locking a specification with a conda side over a channel on loopback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from channel import Channel
from fetch_server import Server

from envlock.fetch.conda_config import CondaSettings
from envlock.lock.conda.locking import CondaKept, CondaWorld, lock_conda
from envlock.lock.conda.sides import CondaSide
from envlock.lock.conda.solve import CondaSolver
from envlock.spec.model import EnvSpec
from envlock.spec.reader import read_spec


def publish(server: Server, channel: Channel, at: str = "/chan") -> str:
    """Serve a channel's files as they are now; its URL."""
    for path, body in channel.files().items():
        server.serve(f"{at}/{path}", body)
    return server.url(at)


@contextmanager
def served(channel: Channel, at: str = "/chan") -> Iterator[tuple[Server, str]]:
    with Server() as server:
        yield server, publish(server, channel, at)


def spec_text(url: str, *dependencies: str, more: str = "", env: str = "") -> str:
    listed = ", ".join(f'"{each}"' for each in dependencies)
    conda = f'channels = ["{url}"]\ndependencies = [{listed}]\n'
    return f'[env]\nname = "mixed"\n{env}\n[python]\nrequirements = []\n\n[conda]\n{conda}{more}\n'


@dataclass(frozen=True, kw_only=True)
class CondaRoom:
    """A folder with an envlock.toml, and how its conda side is locked."""

    folder: Path
    settings: CondaSettings = field(default_factory=CondaSettings)
    outer: Any = None
    patience: float = 30
    offline: bool = False

    def spec(self, text: str) -> EnvSpec:
        (self.folder / "envlock.toml").write_text(text)
        return read_spec(self.folder)

    def lock(self, text: str, kept: CondaKept | None = None) -> CondaSide:
        world = CondaWorld(
            solver=CondaSolver(self.folder / "cache", patience=self.patience, offline=self.offline),
            settings=self.settings,
            outer=self.outer,
        )
        return lock_conda(self.spec(text), "2.41", kept or CondaKept(), world)


def versions(side: CondaSide) -> Mapping[str, str]:
    return {package.name: f"{package.version} {package.build}" for package in side.locked.packages}
