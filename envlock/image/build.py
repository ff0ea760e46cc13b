"""A lock carried out: layers from the store or the workers, proved, and written as an image. No engine, no root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envlock import manifest
from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.fetch.store import Store
from envlock.image.archive import write_docker_archive
from envlock.image.artefacts import Fetcher, Origin, Supply
from envlock.image.built import BuiltImage, BuiltLayer, BuiltPlatform
from envlock.image.check import LayerContents, check_image, find_overwritten
from envlock.image.config import FinishedLayer, image_config
from envlock.image.describe import describe
from envlock.image.destinations import is_image_tar, is_layout, is_manifest, refuse_bad_tag, refuse_destinations
from envlock.image.layer_cache import CachedLayer, LayerCache, Overwritten
from envlock.image.layer_job import LayerJob, build_layer
from envlock.image.layers.files import read_copies
from envlock.image.layout import Bundle, Image, write_layout, write_layout_tar
from envlock.image.make import make_layers
from envlock.image.output import replacing
from envlock.image.plan import EPOCH, ImagePlan, plan_image
from envlock.image.preflight import can_compile, refuse_mismatch
from envlock.image.recipes import BaseRecipe, DebianRecipe, Recipe, StdlibRecipe
from envlock.image.settings import files_recipe
from envlock.lock.model import Lock
from envlock.platforms import Platform
from envlock.progress import Progress
from envlock.spec.model import EnvSpec

__all__ = ["BuildRequest", "Outputs", "Services", "build_image"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where a build writes: `layout` is a folder, or with `as_tar` a tar of one; `manifest` gets the manifest.

    With several platforms, each manifest's name has its architecture before the suffix.
    """

    layout: Path
    manifest: Path
    as_tar: bool = False
    docker_archive: Path | None = None
    tag: str

    def manifest_of(self, platform: Platform, *, several: bool) -> Path:
        """Where one platform's manifest goes."""
        if not several:
            return self.manifest
        return self.manifest.with_name(f"{self.manifest.stem}.{platform.architecture}{self.manifest.suffix}")

    def judge(self, platforms: Sequence[Platform]) -> None:
        """Refuse, before work is done in vain, what cannot be written.

        Raise what `refuse_destinations` and `refuse_bad_tag` raise, and FaultyInput "archive-one-platform".
        """
        manifests = [self.manifest_of(platform, several=len(platforms) > 1) for platform in platforms]
        places = [(self.layout, is_image_tar if self.as_tar else is_layout)]
        places += [(path, is_manifest) for path in manifests]
        if self.docker_archive is not None:
            places.append((self.docker_archive, is_image_tar))
            refuse_bad_tag(self.tag)
            _refuse_several(platforms)
        refuse_destinations(places)

    def paths(self) -> tuple[Path, ...]:
        """All that is written to."""
        return tuple(path for path in (self.layout, self.manifest, self.docker_archive) if path)


def _refuse_several(platforms: Sequence[Platform]) -> None:
    if len(platforms) > 1:
        raise FaultyInput(
            f"a docker-archive holds one platform, and {len(platforms)} are to be built",
            hint="Build one platform, with --platform.",
            code="archive-one-platform",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What to build: `lock_text` is the lock as it stands in its file, which goes into the image."""

    spec: EnvSpec
    lock: Lock
    lock_text: str
    platforms: tuple[Platform, ...]
    outputs: Outputs
    workers: int
    epoch: int = EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What a build works with. `machine` is this machine's, as `uname -m` has it; `environ` is for git."""

    store: Store
    fetcher: Fetcher
    origin: Origin
    progress: Progress
    environ: Mapping[str, str]
    machine: str
    clock: Callable[[], float]


@dataclass(slots=True)
class _Watch:
    """Seconds by stage."""

    clock: Callable[[], float]
    last: float
    seconds: dict[str, float] = field(default_factory=dict)

    def lap(self, stage: str) -> None:
        """What went by since the last lap was this stage."""
        now = self.clock()
        self.seconds[stage] = now - self.last
        self.last = now


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finished:
    """One platform's image with all its layers."""

    plan: ImagePlan
    image: Image
    manifest: str
    layers: tuple[BuiltLayer, ...]
    checked: int
    overwritten: tuple[Overwritten, ...]


def build_image(request: BuildRequest, services: Services) -> BuiltImage:
    """Build the image of every platform asked for, and write it once all of it is proved.

    Raise Difference ("stale-lock", "data-in-image", ...), Unsatisfiable ("contract-not-met"), FaultyInput and
    MachineLacks, before anything is written to the outputs; finished layers stay in the store.
    """
    watch = _Watch(services.clock, services.clock())
    request.outputs.judge(request.platforms)
    refuse_mismatch(request.spec, request.lock, request.platforms)
    plans = _plans(request, services)
    watch.lap("plan")
    recipes = {recipe.key: recipe for plan in plans for recipe in plan.recipes}
    supply = Supply(
        store=services.store,
        fetcher=services.fetcher,
        origin=services.origin,
        folder=request.spec.file.parent,
    )
    made = make_layers(
        tuple(recipes.values()),
        request.lock,
        supply=supply,
        machine=services.machine,
        workers=request.workers,
        progress=services.progress,
    )
    watch.lap("layers")
    finished = tuple(_finish(plan, request, services, made.layers, made.reused) for plan in plans)
    watch.lap("check")
    bundle = Bundle(images=tuple(each.image for each in finished), name=request.spec.name, blob=services.store.path)
    _write(bundle, finished, request, services.store)
    watch.lap("write")
    watch.seconds["fetch"] = made.fetch_seconds
    return BuiltImage(
        name=request.spec.name,
        digest=bundle.digest,
        platforms=tuple(_built(each, request) for each in finished),
        layout=request.outputs.layout,
        docker_archive=request.outputs.docker_archive,
        tag=request.outputs.tag,
        bytes_downloaded=made.bytes_fetched,
        seconds=watch.seconds,
    )


def _plans(request: BuildRequest, services: Services) -> tuple[ImagePlan, ...]:
    copies = read_copies(
        request.spec.image.copy, request.spec.file.parent, services.environ, outputs=request.outputs.paths()
    )
    for tree in copies:
        for note in tree.notes:
            services.progress.say(f"{tree.label}: {note}")
    compiler = can_compile(request.lock, services.machine)
    if request.spec.image.bytecode and not compiler:
        services.progress.say(
            f"the image has no bytecode: the lock has no Python that runs on {services.machine}; imports take longer"
        )
    return tuple(
        plan_image(request.spec, request.lock, platform, copies=copies, can_compile=compiler, epoch=request.epoch)
        for platform in request.platforms
    )


def _finish(
    plan: ImagePlan,
    request: BuildRequest,
    services: Services,
    layers: Mapping[Digest, CachedLayer],
    reused: frozenset[Digest],
) -> _Finished:
    """Prove the layers, write the manifest's layer upon them, and prove the whole."""
    cache = LayerCache(services.store)
    lock = Digest.of(request.lock_text.encode())
    below = [(recipe, layers[recipe.key]) for recipe in plan.recipes]
    contents = [_contents(recipe, layer, cache) for recipe, layer in below]
    overwritten = find_overwritten(contents)
    _tell(overwritten, below, services.progress)
    rows = tuple(_row(recipe, layer) for recipe, layer in below)
    text = manifest.dumps(describe(plan, rows, _clashes(overwritten), lock=lock))
    recipe = files_recipe(plan, manifest=text, lock=request.lock_text)
    job = LayerJob(recipe=recipe, store=services.store.root, files=())
    there = cache.find(recipe.key, verify=True) is not None
    top, _ = build_layer(job, lambda: False)
    checked = check_image(
        [*contents, _contents(recipe, top, cache)],
        data=[str(directory.path) for directory in plan.spec.data],
        wheels=plan.lock.wheels_for(plan.platform),
        site_packages=f"{str(plan.spec.image.prefix).strip('/')}/lib/python{plan.lock.python}/site-packages",
    )
    every = [*below, (recipe, top)]
    finished = tuple(_row(each, layer) for each, layer in every)
    return _Finished(
        plan=plan,
        image=Image(platform=plan.platform, config=image_config(plan, finished, lock=lock), layers=finished),
        manifest=text,
        layers=_built_layers(every, reused | ({recipe.key} if there else set())),
        checked=checked,
        overwritten=overwritten,
    )


def _contents(recipe: Recipe, layer: CachedLayer, cache: LayerCache) -> LayerContents:
    is_base = isinstance(recipe, (DebianRecipe, BaseRecipe, StdlibRecipe))
    return LayerContents(
        title=recipe.title, members=cache.members(layer), is_base=is_base, overwritten=layer.overwritten
    )


def _row(recipe: Recipe, layer: CachedLayer) -> FinishedLayer:
    blob = layer.blob
    return FinishedLayer(
        recipe=recipe.key,
        title=recipe.title,
        digest=blob.digest,
        size=blob.size,
        diff_id=blob.diff_id,
        unpacked=blob.unpacked,
    )


def _built_layers(layers: Sequence[tuple[Recipe, CachedLayer]], reused: Iterable[Digest]) -> tuple[BuiltLayer, ...]:
    there = frozenset(reused)
    return tuple(
        BuiltLayer(
            title=recipe.title,
            recipe=recipe.key,
            digest=layer.blob.digest,
            size=layer.blob.size,
            unpacked=layer.blob.unpacked,
            reused=recipe.key in there,
        )
        for recipe, layer in layers
    )


def _clashes(overwritten: Sequence[Overwritten]) -> tuple[manifest.Clash, ...]:
    return tuple(
        manifest.Clash(path=f"/{row.path}", kept=row.kept, lost=row.lost) for row in overwritten if not row.same
    )


def _tell(
    overwritten: Sequence[Overwritten], layers: Sequence[tuple[Recipe, CachedLayer]], progress: Progress
) -> None:
    for _, layer in layers:
        for note in layer.notes:
            progress.say(f"not done in the base, what a maintainer script does: {note}")
    pairs: dict[tuple[str, str], list[Overwritten]] = {}
    for row in overwritten:
        pairs.setdefault((row.kept, row.lost), []).append(row)
    for (kept, lost), rows in pairs.items():
        other = [row.path for row in rows if not row.same]
        if other:
            progress.say(f"warning: {kept} overwrites {len(other)} files of {lost}, such as /{other[0]}")
        else:
            progress.say(f"{kept} and {lost} both bring {len(rows)} files, with the same contents")


def _write(bundle: Bundle, finished: Sequence[_Finished], request: BuildRequest, store: Store) -> None:
    outputs = request.outputs
    with store.locked(f"output-{Digest.of(str(outputs.layout).encode()).hex}"):
        (write_layout_tar if outputs.as_tar else write_layout)(bundle, outputs.layout)
        if outputs.docker_archive is not None:
            compression = request.spec.image.archive_compression
            write_docker_archive(bundle, outputs.docker_archive, tag=outputs.tag, compression=compression)
        for each in finished:
            path = outputs.manifest_of(each.plan.platform, several=len(finished) > 1)
            with replacing(path, is_manifest) as part:
                part.write_text(each.manifest, encoding="utf-8")


def _built(each: _Finished, request: BuildRequest) -> BuiltPlatform:
    several = len(request.platforms) > 1
    return BuiltPlatform(
        platform=each.plan.platform,
        digest=each.image.digest,
        config_digest=each.image.config_digest,
        layers=each.layers,
        manifest=request.outputs.manifest_of(each.plan.platform, several=several),
        checked=each.checked,
        overwritten=each.overwritten,
        bytecode=each.plan.bytecode,
    )
