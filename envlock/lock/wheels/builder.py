"""Wheels from source: built isolated, brought into normal form, kept, and built again on other machines."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent
from typing import Any, Protocol

from envlock.digest import Digest
from envlock.errors import FaultyInput, Unsatisfiable
from envlock.fetch.store import Store
from envlock.lock.model import BuildRequirement, BuiltFrom, LockedWheel
from envlock.lock.wheels.build_room import BuildFailed, BuildRoom, WheelAtHand, cuts_network, stated_requirements
from envlock.lock.wheels.catalogue import Ready
from envlock.lock.wheels.interpreter import Interpreter
from envlock.lock.wheels.metadata import read_wheel_metadata
from envlock.lock.wheels.normal_wheel import NORMAL_FORM, WheelContents, read_wheel, write_wheel
from envlock.platforms import Platform
from envlock.progress import Progress

__all__ = ["Builder", "Needs", "Source"]

_ROUNDS = 4
_ADVICE = (
    "Leave this version out (name!=version), bound what it is built with by [python] constraints "
    "(such as setuptools<80), or name a wheel of it."
)


class Source(Protocol):
    """What wheels are built from."""

    @property
    def name(self) -> str:
        """The project's normalised name."""

    @property
    def label(self) -> str:
        """For talk."""

    @property
    def key(self) -> str:
        """What identifies the bytes that are built."""

    def unpack(self, folder: Path) -> Path:
        """Lay the source out below the new folder; returns the project's root."""

    def built_from(self, python: str, requires: tuple[BuildRequirement, ...]) -> BuiltFrom:
        """What a lock says of it."""


Needs = Callable[[Sequence[str], Sequence[BuildRequirement], str], tuple[BuildRequirement, ...]]
"""Locks build requirements: `BuildNeeds.lock`."""


class Builder:
    """Builds one wheel at a time, and none twice: what it built is kept by source, requirements and interpreter."""

    def __init__(
        self,
        *,
        store: Store,
        interpreter: Interpreter,
        environ: Mapping[str, str],
        bring: Callable[[Sequence[BuildRequirement]], tuple[WheelAtHand, ...]],
        progress: Progress,
    ) -> None:
        self._store = store
        self._interpreter = interpreter
        self._environ = environ
        self._bring = bring
        self._progress = progress
        self._one = threading.Lock()

    @property
    def python(self) -> str:
        """X.Y of the interpreter that builds."""
        return self._interpreter.target.python

    def build(self, source: Source, needs: Needs, platform: Platform, *, kept: BuiltFrom | None = None) -> Ready:
        """Build with whatever the source says it needs; `kept` has what it was built with in an earlier lock.

        Raises Unsatisfiable "build-failed", "needs-compiler" or "build-needs", FaultyInput "wheel-faulty".
        """
        before = kept.requires if kept is not None and kept.python == self.python else ()
        with self._alone(source):
            asked = self._stated(source)
            for _ in range(_ROUNDS):
                requires = needs(sorted(asked), before, source.label)
                outcome = self._attempt(source, requires, asked)
                wanted = frozenset(outcome["wanted"])
                if wanted <= asked:
                    return self._ready(source, requires, outcome, platform)
                asked |= wanted
        raise Unsatisfiable(
            f"{source.label} wants other build requirements each time it is asked", hint=_ADVICE, code="build-failed"
        )

    def build_with(self, source: Source, requires: Sequence[BuildRequirement], platform: Platform) -> Ready:
        """Build with exactly these requirements, as a lock states them; raises as `build` does."""
        with self._alone(source):
            outcome = self._attempt(source, tuple(requires), None)
            return self._ready(source, tuple(requires), outcome, platform)

    @contextmanager
    def _alone(self, source: Source) -> Iterator[None]:
        with self._one, self._store.locked(f"build-{_digest([source.key])}"):
            yield

    def _stated(self, source: Source) -> frozenset[str]:
        """What pyproject.toml says is needed; kept, so that a source is not unpacked for it again."""
        note = self._note("stated", [source.key])
        known = self._read(note)
        if known is None:
            with self._store.temporary() as scratch, self._told(source):
                stated = stated_requirements(source.unpack(scratch / "source"))
            known = {"requires": sorted(stated)}
            self._store.write(note, json.dumps(known).encode())
        return frozenset(known["requires"])

    def _attempt(
        self, source: Source, requires: tuple[BuildRequirement, ...], asked: frozenset[str] | None
    ) -> dict[str, Any]:
        """Have the wheel built with these requirements, unless the backend wants more than was asked for.

        Returns what the backend "wanted", and, where it was built, the wheel's "file", "sha256" and "size". With
        `asked` None the requirements are final.
        """
        note = self._outcome(source, requires)
        known = self._read(note)
        if known is not None:
            short = asked is not None and not asked.issuperset(known["wanted"])
            if short or ("sha256" in known and self._store.find(Digest.parse(known["sha256"]), known["size"])):
                return known
        task = self._progress.start(f"building {source.label}", total=None, unit="builds")
        try:
            if not cuts_network(self._environ.get("PATH", "")):
                self._progress.say(f"{source.label}: this machine cannot cut a build off from the network")
            with self._store.temporary() as scratch, self._told(source):
                outcome = self._build(source, requires, asked, scratch)
        finally:
            task.finish()
        self._store.write(note, json.dumps(outcome).encode())
        return outcome

    def _build(
        self, source: Source, requires: tuple[BuildRequirement, ...], asked: frozenset[str] | None, scratch: Path
    ) -> dict[str, Any]:
        room = BuildRoom(scratch / "room", self._interpreter, self._environ)
        room.furnish(self._bring(requires))
        tree = source.unpack(scratch / "source")
        wanted = room.wanted(tree)
        if asked is not None and not wanted <= asked:
            return {"wanted": sorted(wanted)}
        built = room.build(tree)
        wheel = read_wheel(built, built.name)
        self._check(source, wheel)
        data = write_wheel(wheel)
        digest = self._store.put(data)
        return {"wanted": sorted(wanted), "file": built.name, "sha256": digest.hex, "size": len(data)}

    def _check(self, source: Source, wheel: WheelContents) -> None:
        if (why := wheel.impure) is not None:
            raise Unsatisfiable(
                f"{source.name} ({source.label}) holds machine code: built, {why}, so a compiler in the target "
                "environment is needed, which is not supported yet",
                hint=_wheel_instead(source.name),
                code="needs-compiler",
            )
        stated = read_wheel_metadata(wheel.text("METADATA").encode(), wheel.file)
        if stated.name != source.name:
            raise FaultyInput(
                f"{source.label} builds {stated.name}, not {source.name}",
                hint=f"Write {stated.name} where {source.name} stands.",
                code="wheel-faulty",
            )

    def _ready(
        self, source: Source, requires: tuple[BuildRequirement, ...], built: Mapping[str, Any], platform: Platform
    ) -> Ready:
        digest = Digest.parse(built["sha256"])
        path = self._store.path(digest)
        metadata = read_wheel(path, built["file"]).text("METADATA").encode()
        wheel = LockedWheel(
            name=source.name,
            version=str(read_wheel_metadata(metadata, built["file"]).version),
            file=built["file"],
            size=built["size"],
            sha256=digest,
            index="built",
            platforms=(platform,),
            hash_source="computed",
            built_from=source.built_from(self.python, requires),
        )
        return Ready(wheel, path, metadata)

    @contextmanager
    def _told(self, source: Source) -> Iterator[None]:
        try:
            yield
        except BuildFailed as exc:
            if exc.compiler:
                raise Unsatisfiable(
                    f"{source.name} ({source.label}) cannot be built without a compiler in the target environment, "
                    "which is not supported yet",
                    hint=_wheel_instead(source.name),
                    code="needs-compiler",
                ) from exc
            raise Unsatisfiable(
                f"{source.name} cannot be built from {source.label}:\n{indent(exc.words, '  ')}",
                hint=_ADVICE,
                code="build-failed",
            ) from exc

    def _outcome(self, source: Source, requires: Sequence[BuildRequirement]) -> Path:
        installed = sorted([each.file, each.sha256.hex] for each in requires)
        return self._note("built", [source.key, self.python, installed, NORMAL_FORM])

    def _note(self, kind: str, key: list[object]) -> Path:
        return self._store.area("builds") / kind / f"{_digest(key)}.json"

    def _read(self, note: Path) -> dict[str, Any] | None:
        try:
            known = json.loads(note.read_bytes())
        except (OSError, ValueError):
            return None
        return known if isinstance(known, dict) else None


def _digest(key: list[object]) -> str:
    return Digest.of(json.dumps(key).encode()).hex


def _wheel_instead(name: str) -> str:
    return f"Name a wheel of {name} that was built elsewhere (an [[index]], a URL or a file), or leave it out."
