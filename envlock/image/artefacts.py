"""The locked files that layers are made of: fetched, taken from beside the spec, or built again from source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envlock.errors import FaultyInput
from envlock.fetch.download import DownloadReport, Want
from envlock.fetch.store import Store
from envlock.lock.model import LockedDeb, LockedWheel

__all__ = ["Artefact", "Fetcher", "Origin", "Supply"]

Artefact = LockedDeb | LockedWheel


class Fetcher(Protocol):
    """What downloads; `Downloader` is one."""

    def fetch(self, wants: Sequence[Want], *, on_ready: Callable[[Want, Path], None] | None = None) -> DownloadReport:
        """Bring everything into the store, telling of each file as soon as it is there."""


class Origin(Protocol):
    """Where locked files come from."""

    def urls(self, artefact: Artefact) -> Iterable[str]:
        """Candidate URLs, best first; asked only when bytes are needed."""

    def rebuild(self, wheel: LockedWheel) -> Path:
        """Build a wheel from its locked source again; a file with the locked bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """Brings artefacts into the store. `folder` is the spec's, to which local wheels are relative."""

    store: Store
    fetcher: Fetcher
    origin: Origin
    folder: Path

    def provide(self, artefacts: Iterable[Artefact], ready: Callable[[Artefact, Path], None]) -> DownloadReport:
        """Have all of them in the store, calling `ready` for each, from several threads.

        Local wheels come first, what has to be built last. Raise what fetching and building raise, FaultyInput
        ("wheel-missing", "hash-mismatch") for a local wheel that is not the locked one any more.
        """
        wanted = {artefact.sha256: artefact for artefact in artefacts}
        fetched: list[Artefact] = []
        built: list[LockedWheel] = []
        for artefact in wanted.values():
            present = self.store.find(artefact.sha256, artefact.size)
            if isinstance(artefact, LockedWheel) and present is None and artefact.index == "local":
                present = self._take_local(artefact)
            if present is not None:
                ready(artefact, present)
            elif isinstance(artefact, LockedWheel) and artefact.index == "built":
                built.append(artefact)
            else:
                fetched.append(artefact)
        wants = [self._want(artefact) for artefact in fetched]
        report = self.fetcher.fetch(wants, on_ready=lambda want, path: ready(wanted[want.sha256], path))
        for wheel in built:
            ready(wheel, self._take_built(wheel))
        return report

    def _want(self, artefact: Artefact) -> Want:
        label = artefact.file if isinstance(artefact, LockedWheel) else artefact.pool.rpartition("/")[2]
        return Want(label=label, sha256=artefact.sha256, size=artefact.size, urls=lambda: self.origin.urls(artefact))

    def _take_local(self, wheel: LockedWheel) -> Path:
        path = self.folder / (wheel.path or wheel.file)
        if not path.is_file():
            raise FaultyInput(
                f"{path} is not there, and {wheel.name} {wheel.version} is locked to it",
                hint="Put the wheel back, or lock again.",
                code="wheel-missing",
            )
        return self.store.adopt(path, wheel.sha256, keep=True)

    def _take_built(self, wheel: LockedWheel) -> Path:
        return self.store.adopt(self.origin.rebuild(wheel), wheel.sha256, keep=True)
