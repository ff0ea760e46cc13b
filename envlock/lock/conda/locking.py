"""`lock_conda`: the conda side of a specification, solved or taken from a conda-lock.yml, as data and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envlock.digest import Digest
from envlock.errors import FaultyInput, Unsatisfiable
from envlock.fetch.conda_config import CondaSettings
from envlock.lock.conda.channels import ChannelPlace, channel_of, channel_places
from envlock.lock.conda.lock_file import read_conda_lock, write_conda_lock
from envlock.lock.conda.sides import CondaSide, project_of
from envlock.lock.conda.solve import CondaRequest, CondaSolver, Found
from envlock.lock.conda.stale import unmet
from envlock.lock.conda.virtual import virtual_packages
from envlock.lock.model import Lock, LockedConda, LockedCondaPackage
from envlock.platforms import Platform
from envlock.spec.conda import names_python, spec_name
from envlock.spec.model import CondaSpec, EnvSpec

__all__ = ["CondaKept", "CondaWorld", "lock_conda"]

OuterSolver = Callable[[EnvSpec, Mapping[Platform, Mapping[str, tuple[str, str]]]], str]
"""conda-lock itself: what it writes for a specification and virtual packages, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaWorld:
    """What locking the conda side works with; `outer` runs conda-lock where the spec asks for that."""

    solver: CondaSolver
    settings: CondaSettings
    outer: OuterSolver


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaKept:
    """The lock and the conda-lock.yml that are there, and the names whose pins are let go (None: all)."""

    lock: Lock | None = None
    text: str | None = None
    let_go: frozenset[str] | None = field(default_factory=frozenset)

    def pins(self, platform: Platform) -> tuple[tuple[str, str, str], ...]:
        """(name, version, build) of what is to be kept."""
        if self.lock is None or self.let_go is None:
            return ()
        kept = (each for each in self.lock.conda_for(platform) if each.name not in self.let_go)
        return tuple((each.name, each.version, each.build) for each in kept)


def lock_conda(spec: EnvSpec, glibc: str, kept: CondaKept, world: CondaWorld) -> CondaSide:
    """Lock the conda side of a specification that has one; `glibc` is the base's.

    Raise what the solver raises; Unsatisfiable "conda-python-unasked", "conda-pythons-differ"; FaultyInput for a
    conda-lock.yml that cannot be taken ("conda-lock-...").
    """
    conda = spec.conda
    if conda is None:
        raise ValueError("the specification has no [conda]")
    virtual = {platform: virtual_packages(spec, platform, glibc) for platform in sorted(spec.platforms)}
    if conda.lock is not None:
        text = conda.lock.read_text(encoding="utf-8")
        found = _taken(text, conda.lock.name, spec, world)
    elif conda.solver == "conda-lock":
        text = world.outer(spec, virtual)
        found = _taken(text, "what conda-lock wrote", spec, world)
    else:
        text, found = _solved(spec, conda, virtual, kept, world)
    if conda.dependencies and not names_python(conda.dependencies):
        _refuse_python(found)
    file = f"{spec.name}.conda-lock.yml"
    requested = frozenset(spec_name(item.text) for item in conda.dependencies)
    locked = LockedConda(file=file, sha256=Digest.of(text.encode()), packages=_merged(found, requested))
    _require_one_python(locked)
    if conda.lock is not None:
        _require_asked(conda, locked, spec.platforms)
    return CondaSide(
        locked=locked,
        text=text,
        projects={
            platform: {project_of(each.name): each.version for each in packages if each.python}
            for platform, packages in found.items()
        },
        wins=frozenset(name for name, side in conda.wins.items() if side == "conda"),
        wheels_win=frozenset(name for name, side in conda.wins.items() if side == "wheel"),
    )


def _solved(
    spec: EnvSpec,
    conda: CondaSpec,
    virtual: Mapping[Platform, Mapping[str, tuple[str, str]]],
    kept: CondaKept,
    world: CondaWorld,
) -> tuple[str, dict[Platform, tuple[Found, ...]]]:
    channels = channel_places(conda.channels, world.settings, conda.mirrors)
    specs = [item.text for item in conda.dependencies]
    if names_python(conda.dependencies):
        specs.append(f"python {spec.python_version}.*")
    found = {
        platform: world.solver.solve(
            CondaRequest(
                platform=platform,
                channels=channels,
                specs=tuple(specs),
                virtual=virtual[platform],
                pins=kept.pins(platform),
                exclude_newer=spec.python.exclude_newer,
            )
        )
        for platform in virtual
    }
    gone = frozenset(name for name, side in conda.wins.items() if side == "wheel")
    left = {
        platform: tuple(each for each in packages if not (each.python and project_of(each.name) in gone))
        for platform, packages in found.items()
    }
    text = write_conda_lock(left, [channel.url for channel in channels], specs, spec.file.name)
    # What is locked is what conda-lock's users will read: so it is read back, and must be the same.
    written = {(each.platform, each.url) for each in read_conda_lock(text, spec.file.name).package}
    meant = {(p.conda, f"{e.channel.url}{e.subdir}/{e.file}") for p, every in left.items() for e in every}
    if written != meant:
        raise ValueError("conda-lock.yml does not hold what was solved")
    return _earlier_text(kept, spec, left) or text, left


def _earlier_text(kept: CondaKept, spec: EnvSpec, found: Mapping[Platform, Sequence[Found]]) -> str | None:
    """The text that is there, where the same packages are locked for the same specification.

    Channels amend what they say of a package's dependencies; a lock does not change with that.
    """
    lock, text = kept.lock, kept.text
    if lock is None or lock.conda is None or text is None or lock.spec != spec.digest:
        return None
    before = {(platform, each.sha256.hex) for platform in lock.platforms for each in lock.conda_for(platform)}
    now = {(platform, each.sha256) for platform, packages in found.items() for each in packages}
    return text if before == now and Digest.of(text.encode()) == lock.conda.sha256 else None


def _taken(text: str, origin: str, spec: EnvSpec, world: CondaWorld) -> dict[Platform, tuple[Found, ...]]:
    """The packages of a conda-lock.yml, with the sizes that the channels give."""
    lock = read_conda_lock(text, origin)
    pip = sorted({each.name for each in lock.package if each.manager == "pip"})
    if pip:
        raise FaultyInput(
            f"{origin}: {', '.join(pip)} are pip's packages, which are not taken from here",
            hint="Write them into requirements under [python], and make the file without them.",
            code="conda-lock-pip",
        )
    missing = [platform.conda for platform in spec.platforms if platform.conda not in lock.metadata.platforms]
    if missing:
        raise FaultyInput(
            f"{origin} is for {', '.join(lock.metadata.platforms)}, not for {', '.join(missing)}",
            hint="Make it for every platform under [env], or leave those out there.",
            code="conda-lock-platforms",
        )
    channels = channel_places([each.url for each in lock.metadata.channels], world.settings, {})
    found: dict[Platform, tuple[Found, ...]] = {}
    for platform in sorted(spec.platforms):
        wanted = [each for each in lock.package if each.platform == platform.conda]
        for each in wanted:
            channel_of(each.url, channels)
        known = {
            (f"{each.channel.url}{each.subdir}/{each.file}", each.md5): each
            for each in _known(platform, channels, [(each.name, each.version, each.build) for each in wanted], world)
        }
        strays = [each.url for each in wanted if _key(each.url, each.hash.md5, each.hash.sha256, known) is None]
        if strays:
            raise FaultyInput(
                f"{origin}: no channel has these, with these hashes:\n" + "\n".join(strays),
                hint="The file was edited, or the channel changed: make it anew.",
                code="conda-lock-faulty",
            )
        found[platform] = tuple(known[each.url, each.hash.md5 or ""] for each in sorted(wanted, key=lambda e: e.name))
    return found


def _key(url: str, md5: str | None, sha256: str | None, known: Mapping[tuple[str, str], Found]) -> Found | None:
    found = known.get((url, md5 or ""))
    return found if found is not None and sha256 in {None, found.sha256} else None


def _known(
    platform: Platform,
    channels: tuple[ChannelPlace, ...],
    wanted: Sequence[tuple[str, str, str | None]],
    world: CondaWorld,
) -> tuple[Found, ...]:
    request = CondaRequest(platform=platform, channels=channels, specs=(), virtual={})
    return world.solver.look_up(request, [f"{name}=={version}" for name, version, _ in wanted])


def _merged(found: Mapping[Platform, Sequence[Found]], requested: frozenset[str]) -> tuple[LockedCondaPackage, ...]:
    """The same file for several platforms as one package, sorted by (name, file)."""
    merged: dict[tuple[str, str, str], LockedCondaPackage] = {}
    for platform, packages in found.items():
        for each in packages:
            key = (each.channel.name, each.subdir, each.file)
            if key in merged:
                merged[key] = replace(merged[key], platforms=(*merged[key].platforms, platform))
                continue
            merged[key] = LockedCondaPackage(
                name=each.name,
                version=each.version,
                build=each.build,
                channel=each.channel.name,
                subdir=each.subdir,
                file=each.file,
                size=each.size,
                sha256=Digest(each.sha256),
                platforms=(platform,),
                requested=each.name in requested,
            )
    return tuple(sorted(merged.values(), key=lambda each: (each.name, each.file)))


def _require_asked(conda: CondaSpec, locked: LockedConda, platforms: Sequence[Platform]) -> None:
    lines = [
        line
        for platform in platforms
        for dependency in conda.dependencies
        for line in unmet(dependency, [each for each in locked.packages if platform in each.platforms], platform)
    ]
    if lines:
        raise FaultyInput(
            "\n".join(lines),
            hint="Make the conda-lock.yml anew for these dependencies, or correct them.",
            code="conda-lock-unmet",
        )


def _refuse_python(found: Mapping[Platform, Sequence[Found]]) -> None:
    for platform, packages in found.items():
        python = next((each for each in packages if each.name == "python"), None)
        if python is not None:
            wanting = [each.name for each in packages if each.python]
            raise Unsatisfiable(
                f"conda would bring python {python.version} for {platform}, since {', '.join(wanting)} need it, "
                "and the interpreter is the base's",
                hint=f'Add "python {".".join(python.version.split(".")[:2])}.*" to dependencies under [conda], so '
                "that the interpreter is conda's; or leave those packages out.",
                code="conda-python-unasked",
            )


def _require_one_python(locked: LockedConda) -> None:
    versions = sorted({package.version for package in locked.packages if package.name == "python"})
    if len(versions) > 1:
        raise Unsatisfiable(
            f"conda has python {' on one platform and '.join(versions)} on another",
            hint=f'Name one that all platforms have, such as "python {versions[0]}", under [conda].',
            code="conda-pythons-differ",
        )
