"""Where wheels are made of sources: what is built with what, and the same again on another machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlock.errors import Difference, FaultyInput, MachineLacks
from envlock.fetch.download import Downloader, Want
from envlock.fetch.locate import wheel_urls
from envlock.fetch.model import IndexUrl
from envlock.fetch.simple import IndexClient
from envlock.fetch.store import Store
from envlock.lock.model import BuildRequirement, BuiltFrom, LockedWheel
from envlock.lock.wheels.build_needs import BuildNeeds
from envlock.lock.wheels.build_room import WheelAtHand
from envlock.lock.wheels.builder import Builder, Source
from envlock.lock.wheels.catalogue import Ready
from envlock.lock.wheels.git import Git, GitPlace, GitSource
from envlock.lock.wheels.interpreter import Interpreter, ask_interpreter
from envlock.lock.wheels.offers import Offer
from envlock.lock.wheels.sdist import SdistSource
from envlock.lock.wheels.tags import Fit, tags_of
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS, Progress

__all__ = ["Rebuilder", "Workshop"]

_NOT_REPRODUCIBLE = "Copy the wheel from the machine that locked it, or name one that was made elsewhere."


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Builds for one request. `kept` are wheels of an earlier lock, by name."""

    client: IndexClient
    builder: Builder
    needs: BuildNeeds
    platform: Platform
    kept: Mapping[str, LockedWheel]

    def build(self, source: Source, known: BuiltFrom | None) -> Ready:
        """Make a wheel; `known` is what an earlier lock says of the same source."""
        return self.builder.build(source, self.needs.lock, self.platform, kept=known)

    def build_offer(self, name: str, offer: Offer) -> Ready:
        """Make the wheel of a source distribution that an index offers."""
        whole = self.client.whole(offer.file)
        source = SdistSource(
            name=name,
            path=whole.path,
            file=offer.file.file,
            size=whole.size,
            sha256=whole.sha256,
            index=offer.index.name,
        )
        kept = self.kept.get(name)
        known = kept.built_from if kept is not None else None
        return self.build(source, known if known is not None and known.sha256 == whole.sha256 else None)


class Rebuilder:
    """Makes locked wheels anew from their locked sources, on whatever machine. `indexes` say where bytes may be had.

    A wheel is built by the X.Y that built it for the lock: `python`, or a pythonX.Y on the PATH. Where there is none
    `python` builds it all the same, and the hash says whether that was as good.
    """

    def __init__(
        self,
        *,
        client: IndexClient,
        store: Store,
        indexes: Sequence[IndexUrl],
        environ: Mapping[str, str],
        python: Path,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        self._client = client
        self._store = store
        self._indexes = tuple(indexes)
        self._environ = environ
        self._python = python
        self._progress = progress
        self._downloader = Downloader(store, client.http, progress=progress)

    def rebuild(self, wheel: LockedWheel) -> Path:
        """The wheel's path in the store; built where it is not there.

        Raises Difference "build-differs" where other bytes come out, MachineLacks "build-requirement-unfit", and
        what fetching and building raise.
        """
        present = self._store.find(wheel.sha256, wheel.size)
        if present is not None:
            return present
        if wheel.built_from is None:
            raise FaultyInput(
                f"{wheel.file} is not locked as built from source", hint="Fetch it instead.", code="lock-faulty"
            )
        interpreter = self._interpreter(wheel.built_from.python)
        self._check_fit(wheel, wheel.built_from, interpreter)
        builder = Builder(
            store=self._store,
            interpreter=interpreter,
            environ=self._environ,
            bring=self.bring,
            progress=self._progress,
        )
        source = self._source(wheel, wheel.built_from)
        ready = builder.build_with(source, wheel.built_from.requires, wheel.platforms[0])
        if ready.wheel.sha256 != wheel.sha256:
            raise self._differs(wheel, wheel.built_from, ready, interpreter)
        return ready.path

    def bring(self, requires: Sequence[BuildRequirement]) -> tuple[WheelAtHand, ...]:
        """Have the wheels of build requirements in the store, by their hashes."""
        wants = [self._want(each) for each in requires]
        if wants:
            self._downloader.fetch(wants)
        return tuple(WheelAtHand(each.file, self._store.path(each.sha256), each.sha256.hex) for each in requires)

    def _want(self, file: BuildRequirement, url: str | None = None) -> Want:
        def urls() -> Iterable[str]:
            if url is not None:
                return [url]
            return wheel_urls(file.file, file.name, self._indexes, self._client, sha256=file.sha256, index=file.index)

        return Want(label=file.file, sha256=file.sha256, size=file.size, urls=urls)

    def _source(self, wheel: LockedWheel, built: BuiltFrom) -> Source:
        if built.url is not None and built.commit is not None:
            place = GitPlace(url=built.url, ref=None, subdirectory=built.subdirectory)
            return GitSource(name=wheel.name, place=place, commit=built.commit, git=Git(self._environ))
        if built.file is None or built.sha256 is None or built.size is None or built.index is None:
            raise FaultyInput(
                f"the lock does not say what {wheel.file} is built from", hint="Lock anew.", code="lock-faulty"
            )
        sdist = BuildRequirement(
            name=wheel.name,
            version=wheel.version,
            file=built.file,
            size=built.size,
            sha256=built.sha256,
            index=built.index,
        )
        self._downloader.fetch([self._want(sdist, built.url)])
        return SdistSource(
            name=wheel.name,
            path=self._store.path(built.sha256),
            file=built.file,
            size=built.size,
            sha256=built.sha256,
            index=built.index,
            url=built.url,
        )

    def _interpreter(self, python: str) -> Interpreter:
        own = ask_interpreter(self._python, self._environ)
        if own.target.python == python:
            return own
        found = shutil.which(f"python{python}", path=self._environ.get("PATH"))
        return ask_interpreter(Path(found), self._environ) if found else own

    def _check_fit(self, wheel: LockedWheel, built: BuiltFrom, interpreter: Interpreter) -> None:
        fit = Fit(interpreter.target)
        for each in built.requires:
            tags = tags_of(each.file)
            if fit.rank(tags) is None:
                raise MachineLacks(
                    f"{wheel.file} is built with {each.file}, which does not run here: it {fit.misfit(tags).words}",
                    hint=f"Build on a machine with Python {built.python}, or fetch the wheel from one that has it.",
                    code="build-requirement-unfit",
                )

    def _differs(self, wheel: LockedWheel, built: BuiltFrom, ready: Ready, interpreter: Interpreter) -> Difference:
        here = interpreter.target.python
        other = f", by Python {here} where the lock's was built by {built.python}" if here != built.python else ""
        return Difference(
            f"{wheel.file} comes out different when it is built here{other}: locked is {wheel.sha256}, "
            f"built is {ready.wheel.sha256} ({ready.wheel.file}, {ready.wheel.size:,} bytes; locked {wheel.size:,})",
            hint=f"Build it with Python {built.python}." if other else _NOT_REPRODUCIBLE,
            code="build-differs",
        )
