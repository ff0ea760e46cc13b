"""`envlock lock`: read, resolve, write; or check, or tell what it would cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from envlock import __version__
from envlock.errors import Difference, FaultyInput
from envlock.fetch.store import Store
from envlock.lock.codec import dumps
from envlock.lock.conda.sides import CondaSide
from envlock.lock.debian.suite import open_suite
from envlock.lock.derived import derived_files
from envlock.lock.dry_run import DryRun, dry_run
from envlock.lock.locking import Upgrade, lock_environment
from envlock.lock.model import Lock
from envlock.lock.stale import differences
from envlock.progress import Progress
from envlock.spec.model import EnvSpec
from envlock.spec.reader import read_spec
from envlock.wiring.conda import conda_texts, solve_conda
from envlock.wiring.lock_files import LockFiles, lock_files, read_text, write_whole
from envlock.wiring.services import Sources, open_services
from envlock.wiring.world import World, told_path

__all__ = ["LockRequest", "Locked", "check_lock", "lock", "try_lock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """What the command line asks for. `folder` holds envlock.toml, or is the file itself."""

    folder: Path
    lock_folder: Path | None = None
    sources: Sources = field(default_factory=Sources)
    upgrade: bool = False
    upgrade_packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A lock that was written, or found to be written already; `changes` says what differs from the one before."""

    lock: Lock
    file: Path
    written: tuple[Path, ...]
    changes: tuple[str, ...]


def lock(world: World, request: LockRequest, progress: Progress) -> Locked:
    """Lock, keeping the pins that are there, and write the lock and what is derived from it.

    Files that hold the right text already are not touched.
    """
    spec, files = _read(world, request)
    previous = _previous(files, request)
    fresh, conda = _resolve(world, spec, files, request, progress)
    texts = (
        {files.lock: dumps(fresh)}
        | conda_texts(files, conda)
        | {files.folder / name: text for name, text in derived_files(fresh).items()}
    )
    # The lock goes last: as long as it is the old one, a run that was cut off shows as stale.
    changed = [path for path in reversed(texts) if _current(path) != texts[path]]
    for path in changed:
        write_whole(path, texts[path])
    return Locked(lock=fresh, file=files.lock, written=tuple(changed), changes=_changes(previous, fresh))


def try_lock(world: World, request: LockRequest, progress: Progress) -> tuple[DryRun, tuple[str, ...]]:
    """What building would cost after locking now, and what would change; nothing is written but the cache."""
    spec, files = _read(world, request)
    previous = _previous(files, request)
    fresh, _ = _resolve(world, spec, files, request, progress)
    store = Store(world.cache)
    run = dry_run(fresh, spec.target, present=lambda digest: store.find(digest) is not None)
    return run, _changes(previous, fresh)


def check_lock(world: World, request: LockRequest) -> Path:
    """The lock's file, when it is what the specification asks for.

    Raise Difference "stale-lock" with everything that differs, or "no-lock".
    """
    spec, files = _read(world, request)
    found, text = files.require(request.folder)
    names = [*derived_files(found), *([found.conda.file] if found.conda is not None else [])]
    derived = {name: read_text(files.folder / name) for name in names}
    differing = differences(spec, found, text=text, derived=derived)
    if differing:
        listed = "".join(f"\n  - {line}" for line in differing)
        raise Difference(
            f"{files.lock} is stale:{listed}",
            hint=f"Run envlock lock {told_path(request.folder)}: it brings it up to date and keeps the other pins.",
            code="stale-lock",
        )
    return files.lock


def _read(world: World, request: LockRequest) -> tuple[EnvSpec, LockFiles]:
    spec = read_spec(world.path(request.folder), home=world.home)
    return spec, lock_files(spec, world.path(request.lock_folder) if request.lock_folder else None)


def _previous(files: LockFiles, request: LockRequest) -> Lock | None:
    """The lock whose pins count; a faulty one does not stand in the way of making everything anew."""
    try:
        found = files.read()
    except FaultyInput:
        if request.upgrade:
            return None
        raise
    return found[0] if found else None


def _resolve(
    world: World, spec: EnvSpec, files: LockFiles, request: LockRequest, progress: Progress
) -> tuple[Lock, CondaSide | None]:
    previous = _previous(files, request)
    names = frozenset(canonicalize_name(name) for name in request.upgrade_packages)
    with open_services(world, spec, request.sources, progress) as services:
        suite = open_suite(
            spec.base.debian,
            spec.platforms,
            archives=services.apt,
            http=services.http,
            store=services.store,
            progress=progress,
            now=world.now,
        )
        upgrade = Upgrade(everything=request.upgrade, packages=names)
        conda = None
        if spec.conda is not None:
            progress.say("solving the conda side")
            conda = solve_conda(spec, suite.facts().glibc, previous, files, upgrade, services=services)
        fresh = lock_environment(
            spec,
            previous,
            wheels=services.resolver(spec).resolve,
            suite=suite,
            upgrade=upgrade,
            made_by=__version__,
            progress=progress,
            conda=conda,
        )
        return fresh, conda


def _current(path: Path) -> str | None:
    """A file's text, where it is readable text; whatever else is there gets replaced."""
    try:
        return read_text(path)
    except FaultyInput:
        return None


def _changes(previous: Lock | None, fresh: Lock) -> tuple[str, ...]:
    """What became of each package's version, in words."""
    if previous is None:
        return ()
    before, after = _versions(previous), _versions(fresh)
    lines = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was != now:
            lines.append(f"{name[1]} {was or 'absent'} -> {now or 'gone'}")
    return tuple(lines)


def _versions(one: Lock) -> dict[tuple[str, str], str]:
    """Versions by kind and name; several of one name (on several platforms) are told together."""
    found: dict[tuple[str, str], set[str]] = {}
    for wheel in one.wheels:
        found.setdefault(("wheel", wheel.name), set()).add(wheel.version)
    for package in one.conda.packages if one.conda is not None else ():
        found.setdefault(("conda", package.name), set()).add(package.version)
    for deb in one.base.debs:
        found.setdefault(("deb", deb.name), set()).add(deb.version)
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()}
