"""Layers that are not in the store yet: their artefacts brought, and each built as soon as it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from envlock.digest import Digest
from envlock.image.artefacts import Artefact, Supply
from envlock.image.canonical import canonical_json
from envlock.image.layer_cache import CachedLayer, LayerCache
from envlock.image.layer_job import Interpreter
from envlock.image.preflight import host_platform
from envlock.image.recipes import Recipe
from envlock.image.scheduler import Compiling, Scheduler, artefacts_of, compiles
from envlock.image.workers import workers as worker_processes
from envlock.lock.model import Lock
from envlock.progress import Progress

__all__ = ["MadeLayers", "make_layers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeLayers:
    """All layers by recipe key; `reused` are the keys of those that were there before."""

    layers: Mapping[Digest, CachedLayer]
    reused: frozenset[Digest]
    bytes_fetched: int = 0
    fetch_seconds: float = 0.0


def make_layers(
    recipes: Sequence[Recipe], lock: Lock, *, supply: Supply, machine: str, workers: int, progress: Progress
) -> MadeLayers:
    """Have every recipe's layer in the store; artefacts are fetched for those alone that are not there.

    A layer that was there is hashed before it is used: a disk or a program may have changed it since it was made.
    """
    found = _found(recipes, LayerCache(supply.store), workers)
    missing = [recipe for recipe in recipes if recipe.key not in found]
    if not missing:
        return MadeLayers(layers=found, reused=frozenset(found))
    compiling = _compiling(missing, lock, supply.store.area("roots"), machine)
    artefacts: list[Artefact] = [each for recipe in missing for each in artefacts_of(recipe)]
    artefacts += compiling.debs if compiling else ()
    total = sum(each.size for recipe in missing for each in artefacts_of(recipe))
    task = progress.start(f"building {len(missing)} layers", total=total)
    try:
        with worker_processes(workers) as pool:
            scheduler = Scheduler(
                missing, pool, store=supply.store.root, lanes=workers, compiling=compiling, task=task
            )
            try:
                scheduler.begin()
                report = supply.provide(artefacts, lambda artefact, path: scheduler.ready(artefact.sha256, path))
                built = scheduler.wait()
            finally:
                scheduler.stop()
    finally:
        task.finish()
    elsewhere = {key for key, (_, there) in built.items() if there}
    return MadeLayers(
        layers=found | {key: layer for key, (layer, _) in built.items()},
        reused=frozenset(found) | elsewhere,
        bytes_fetched=report.bytes_fetched,
        fetch_seconds=report.seconds,
    )


def _found(recipes: Sequence[Recipe], cache: LayerCache, workers: int) -> dict[Digest, CachedLayer]:
    with ThreadPoolExecutor(workers) as threads:  # hashing lets other threads run
        layers = threads.map(lambda recipe: (recipe.key, cache.find(recipe.key, verify=True)), recipes)
        return {key: layer for key, layer in layers if layer is not None}


def _compiling(missing: Sequence[Recipe], lock: Lock, roots: Path, machine: str) -> Compiling | None:
    """How the missing layers' bytecode is made, where one of them has some."""
    host = host_platform(machine)
    if host is None or not any(map(compiles, missing)):
        return None
    debs = lock.debs_for(host)
    root = roots / Digest.of(canonical_json(sorted(str(deb.sha256) for deb in debs))).hex
    interpreter = Interpreter(root=root, platform=host, version=lock.base.python)
    return Compiling(interpreter=interpreter, debs=() if root.is_dir() else debs)
