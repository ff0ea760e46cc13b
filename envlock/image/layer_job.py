"""One layer, built in a worker process from picklable data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from envlock.digest import Digest
from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.store import Store
from envlock.image.layer_cache import CachedLayer, LayerCache
from envlock.image.layer_parts import Merge, deb_file, layer_parts
from envlock.image.layers.bytecode import Compiler
from envlock.image.layers.debian import DebFile, interpreter, interpreter_debs, undone, unpack_root
from envlock.image.layers.entries import Entry
from envlock.image.layers.writer import write_layer
from envlock.image.members import read_back
from envlock.image.recipes import BaseRecipe, Recipe
from envlock.platforms import Platform

__all__ = ["Interpreter", "LayerJob", "RootJob", "build_layer", "unpack_interpreter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The locked Python, unpacked below `root` to be run on this machine; `version` is what it must say it is."""

    root: Path
    platform: Platform
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerJob:
    """A layer to build: its recipe, where its artefacts are, and the store that it goes into."""

    recipe: Recipe
    store: Path
    files: tuple[tuple[Digest, Path], ...]
    interpreter: Interpreter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootJob:
    """The base's Python to unpack, for running it here."""

    root: Path
    store: Path
    debs: tuple[DebFile, ...]


def build_layer(job: LayerJob, cancelled: Callable[[], bool]) -> tuple[CachedLayer, bool]:
    """The layer, and whether it was there already, built by another process meanwhile.

    It is read back before it counts: what it holds is what an engine will find in it. `cancelled` is asked between
    entries; then MachineLacks (code "cancelled") is raised.
    """
    store = Store(job.store)
    cache = LayerCache(store)
    key = job.recipe.key
    with (
        _telling_damage(store, (path for _, path in job.files)),
        cache.building(key, cancelled=cancelled),
        ExitStack() as stack,
    ):
        found = cache.find(key)
        if found is not None:
            return found, True
        merge = Merge()
        parts = layer_parts(job.recipe, dict(job.files), _compiler(job, stack))
        file = stack.enter_context(store.temporary()) / "layer"
        with store.writing(sum(path.stat().st_size for _, path in job.files)), file.open("wb") as out:
            blob = write_layer(_watched(merge.entries(parts), cancelled), out)
        members = tuple(
            replace(member, owner=merge.owners.get(member.path, "")) for member in read_back(file, blob.diff_id)
        )
        layer = CachedLayer(
            key=key,
            blob=blob,
            members=cache.keep_members(members),
            overwritten=tuple(merge.overwritten),
            notes=_notes(job),
        )
        return cache.add(layer, file), False


def unpack_interpreter(job: RootJob) -> None:
    """Unpack the base's Python, unless another process has done so."""
    store = Store(job.store)
    with _telling_damage(store, (deb.path for deb in job.debs)), store.locked(f"root-{job.root.name}"):
        if not job.root.is_dir():
            with store.temporary() as scratch:  # which is swept, should this process be killed
                unpack_root(interpreter_debs(job.debs), scratch / "root")
                job.root.parent.mkdir(parents=True, exist_ok=True)
                (scratch / "root").rename(job.root)


@contextmanager
def _telling_damage(store: Store, blobs: Iterable[Path]) -> Iterator[None]:
    """Around work on blobs of the store: a fault that is the store's, not the publisher's, is told as such.

    Damaged blobs are removed, so that the next run fetches them again.
    """
    try:
        yield
    except FaultyInput as fault:
        named = {Digest(path.name) for path in blobs if path == store.path(Digest(path.name))}
        if len([digest for digest in named if store.verify(digest)]) == len(named):
            raise
        raise MachineLacks(
            f"{fault.message}; the store's copy was damaged, and is removed",
            hint="Run it again: what was removed is fetched anew. If it recurs, look after the disk.",
            code="store-damaged",
        ) from fault


def _compiler(job: LayerJob, stack: ExitStack) -> Compiler | None:
    locked = job.interpreter
    if locked is None:
        return None
    python = ".".join(locked.version.split(".")[:2])
    compiler = stack.enter_context(Compiler(*interpreter(locked.root, locked.platform, python)))
    found = compiler.version.split()[-1]
    if found != locked.version:
        raise MachineLacks(
            f"the base's Python says that it is {found}, and {locked.version} is locked",
            hint="Lock again: the lock's base does not fit together.",
            code="interpreter-differs",
        )
    return compiler


def _notes(job: LayerJob) -> tuple[str, ...]:
    """What the base's packages would have done on installation, and is not done."""
    if not isinstance(job.recipe, BaseRecipe):
        return ()
    files = dict(job.files)
    return undone([deb_file(deb, files) for deb in job.recipe.debs])


def _watched(entries: Iterator[Entry], cancelled: Callable[[], bool]) -> Iterator[Entry]:
    for entry in entries:
        if cancelled():
            raise MachineLacks("building was cancelled", hint="Run it again.", code="cancelled")
        yield entry
