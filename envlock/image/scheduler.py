"""Which layer is built when: each as soon as its artefacts are there, the longest first."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from envlock.digest import Digest
from envlock.errors import MachineLacks
from envlock.image.layer_cache import CachedLayer
from envlock.image.layer_job import Interpreter, LayerJob, RootJob
from envlock.image.layer_parts import deb_file
from envlock.image.recipes import (
    BaseRecipe,
    DebianRecipe,
    Recipe,
    StdlibRecipe,
    WheelsRecipe,
)
from envlock.image.workers import Workers
from envlock.lock.model import LockedDeb, LockedWheel
from envlock.progress import Task

__all__ = ["Compiling", "Scheduler", "artefacts_of", "compiles"]

_MODULES = 16 << 20  # bytes of a wheel that are less than this are mostly Python
_SLICE = 0.5  # seconds; a wait without end cannot be interrupted everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """How bytecode is made: the interpreter, and the packages that it is unpacked from, () where it is there."""

    interpreter: Interpreter
    debs: tuple[LockedDeb, ...] = ()


def artefacts_of(recipe: Recipe) -> tuple[LockedDeb | LockedWheel, ...]:
    """The locked files that a recipe is made of."""
    match recipe:
        case DebianRecipe() | BaseRecipe() | StdlibRecipe():
            return recipe.debs
        case WheelsRecipe():
            return recipe.wheels
        case _:
            return ()


def compiles(recipe: Recipe) -> bool:
    """Whether the layer holds bytecode."""
    return isinstance(recipe, (StdlibRecipe, WheelsRecipe)) and recipe.bytecode is not None


def _cost(recipe: Recipe) -> int:
    """How long a layer takes, to order layers by: bytes, weighed by what was measured for their kind.

    A big wheel is mostly copied. Packages are unpacked, small wheels are mostly modules to compile.
    """
    size = sum(each.size for each in artefacts_of(recipe))
    if isinstance(recipe, WheelsRecipe):
        is_mostly_modules = size < len(recipe.wheels) * _MODULES
        return size * (30 if is_mostly_modules and compiles(recipe) else 2)
    return size * (10 if isinstance(recipe, (DebianRecipe, StdlibRecipe)) else 1)


@dataclass(slots=True)
class _Waiting:
    """A layer that is not begun: what it still lacks, and how long it will take, in no particular unit."""

    recipe: Recipe
    lacks: set[Digest]
    cost: int


class Scheduler:
    """Hands jobs to the workers. `ready` may be called from any thread."""

    def __init__(
        self,
        recipes: Sequence[Recipe],
        workers: Workers,
        *,
        store: Path,
        lanes: int,
        compiling: Compiling | None,
        task: Task,
    ) -> None:
        self._workers = workers
        self._store = store
        self._lanes = lanes
        self._compiling = compiling
        self._task = task
        self._changed = threading.Condition(threading.RLock())
        self._files: dict[Digest, Path] = {}
        self._waiting = [self._wait_for(recipe) for recipe in recipes]
        self._heap: list[tuple[int, int]] = []  # (-cost, number) of layers that lack nothing
        self._running = 0
        self._left = len(recipes)
        self._root_lacks = {deb.sha256 for deb in compiling.debs} if compiling else set()
        self._root_begun = self._root_there = not self._root_lacks
        self._built: dict[Digest, tuple[CachedLayer, bool]] = {}
        self._fault: BaseException | None = None
        self._stopped = False

    def _wait_for(self, recipe: Recipe) -> _Waiting:
        artefacts = artefacts_of(recipe)
        return _Waiting(recipe, {each.sha256 for each in artefacts}, _cost(recipe))

    def begin(self) -> None:
        """Start what needs no artefacts."""
        with self._changed:
            for number, waiting in enumerate(self._waiting):
                if not waiting.lacks:
                    heapq.heappush(self._heap, (-waiting.cost, number))
            self._dispatch()

    def ready(self, digest: Digest, path: Path) -> None:
        """An artefact is there. Raise the first fault of a job, so that fetching stops, too."""
        with self._changed:
            if self._fault is not None:
                raise self._fault
            self._files[digest] = path
            self._root_lacks.discard(digest)
            for number, waiting in enumerate(self._waiting):
                if digest in waiting.lacks:
                    waiting.lacks.discard(digest)
                    if not waiting.lacks:
                        heapq.heappush(self._heap, (-waiting.cost, number))
            self._dispatch()

    def stop(self) -> None:
        """Hand out no more jobs: the workers are about to be dismissed."""
        with self._changed:
            self._stopped = True

    def wait(self) -> dict[Digest, tuple[CachedLayer, bool]]:
        """Every layer by its recipe's key, and whether another process had built it; raise the first fault."""
        with self._changed:
            while self._left and self._fault is None:
                self._changed.wait(_SLICE)
            if self._fault is not None:
                raise self._fault
            return self._built

    def _dispatch(self) -> None:
        """Give the workers what they can take; the lock is held."""
        if self._stopped or self._fault is not None:
            return
        if self._compiling and not self._root_begun and not self._root_lacks:
            self._root_begun = True
            self._submit_root(self._compiling)
        put_off: list[tuple[int, int]] = []
        while self._heap and self._running < self._lanes:
            item = heapq.heappop(self._heap)
            recipe = self._waiting[item[1]].recipe
            if compiles(recipe) and not self._root_there:
                put_off.append(item)
                continue
            self._submit(recipe)
        for item in put_off:
            heapq.heappush(self._heap, item)

    def _submit_root(self, compiling: Compiling) -> None:
        debs = tuple(deb_file(deb, self._files) for deb in compiling.debs)
        self._running += 1
        self._workers.root(RootJob(root=compiling.interpreter.root, store=self._store, debs=debs)).add_done_callback(
            self._root_done
        )

    def _submit(self, recipe: Recipe) -> None:
        files = tuple((each.sha256, self._files[each.sha256]) for each in artefacts_of(recipe))
        interpreter = self._compiling.interpreter if self._compiling and compiles(recipe) else None
        job = LayerJob(recipe=recipe, store=self._store, files=files, interpreter=interpreter)
        self._running += 1
        self._workers.layer(job).add_done_callback(lambda done: self._layer_done(recipe, done))

    def _root_done(self, done: Future[None]) -> None:
        with self._changed:
            if self._settle(done):
                self._root_there = True
                self._dispatch()

    def _layer_done(self, recipe: Recipe, done: Future[tuple[CachedLayer, bool]]) -> None:
        with self._changed:
            if self._settle(done):
                self._built[recipe.key] = done.result()
                self._left -= 1
                self._task.advance(sum(each.size for each in artefacts_of(recipe)))
                self._dispatch()

    def _settle(self, done: Future[None] | Future[tuple[CachedLayer, bool]]) -> bool:
        """Whether a job went well; keep the first fault otherwise."""
        self._running -= 1
        self._changed.notify_all()
        try:
            fault = done.exception()
        except CancelledError:
            return False
        if isinstance(fault, BrokenProcessPool):
            fault = MachineLacks(
                "a worker process died, most likely for want of memory",
                hint="Run it again with fewer workers; finished layers are kept.",
                code="worker-died",
            )
        self._fault = self._fault or fault
        return fault is None
