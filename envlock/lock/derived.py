"""Files derived from a lock, for tools that cannot read it: pip's requirements with hashes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envlock.digest import Digest
from envlock.lock.codec import dumps
from envlock.lock.model import BuiltFrom, Lock, LockedWheel
from envlock.platforms import Platform
from envlock.spec.model import OWN_INDEXES

__all__ = ["derived_files", "requirements_txt"]


def derived_files(lock: Lock) -> dict[str, str]:
    """Every derived file's name and text; they stand beside the lock."""
    return {f"{lock.name}.requirements.txt": requirements_txt(lock)}


def requirements_txt(lock: Lock) -> str:
    """What `pip install --require-hashes --no-deps -r` takes, for every platform of the lock.

    A package built from a source distribution has that one's hash beside its wheel's, so pip builds it anew. What
    was built from git has its wheel's hash alone: pip cannot check a repository, so it asks for the wheel.
    """
    lines = list(_header(lock))
    groups: dict[tuple[str, str, str], list[LockedWheel]] = {}
    for wheel in lock.wheels:
        groups.setdefault((wheel.name, wheel.version, _place(wheel)), []).append(wheel)
    for group in groups.values():
        lines += _requirement(group, lock.platforms)
    return "\n".join(lines) + "\n"


def _header(lock: Lock) -> Iterator[str]:
    yield f"# Derived by envlock from {lock.name}.lock ({Digest.of(dumps(lock).encode())}); do not edit."
    yield f"# For CPython {lock.python} on {' and '.join(lock.platforms)}, the wheels alone. Install them with"
    yield f"#   python -m pip install --require-hashes --no-deps -r {lock.name}.requirements.txt"
    own = sorted({wheel.index for wheel in lock.wheels} - OWN_INDEXES)
    if own:
        yield f"# with --extra-index-url or --find-links for what comes from: {', '.join(own)}"
    if any(wheel.path for wheel in lock.wheels):
        yield "# in the folder of envlock.toml, which local wheels are relative to"
    yield ""


def _requirement(wheels: Sequence[LockedWheel], every: Sequence[Platform]) -> Iterator[str]:
    """One requirement: the files of one version, on the platforms that they are for."""
    first = wheels[0]
    platforms = {platform for wheel in wheels for platform in wheel.platforms}
    hashes = sorted({digest.hex for wheel in wheels for digest in _digests(wheel)})
    note = _note(first)
    if note:
        yield f"# {note}"
    place = _place(first)
    named = place if first.path else f"{first.name} @ {place}" if place else f"{first.name}=={first.version}"
    yield " \\\n    ".join([f"{named}{_marker(platforms, every)}", *(f"--hash=sha256:{item}" for item in hashes)])


def _place(wheel: LockedWheel) -> str:
    """Where a requirement says that the file is; empty for what comes by name from an index (or --find-links)."""
    if wheel.path is not None:
        return wheel.path if wheel.path.startswith("../") else f"./{wheel.path}"
    if wheel.built_from is not None:
        return wheel.built_from.url or "" if wheel.built_from.file is not None else ""
    return wheel.direct_url or ""


def _digests(wheel: LockedWheel) -> Iterator[Digest]:
    source = wheel.built_from
    if source is None or not _place(wheel):  # at a place there is one file: there, the source
        yield wheel.sha256
    if source is not None and source.sha256 is not None:
        yield source.sha256


def _note(wheel: LockedWheel) -> str | None:
    source = wheel.built_from
    if source is not None:
        return _built_note(wheel, source)
    if wheel.index in OWN_INDEXES:
        return None
    return f"from the index {wheel.index}"


def _built_note(wheel: LockedWheel, source: BuiltFrom) -> str:
    if source.file is not None:
        return (
            f"envlock builds {wheel.file} of this source distribution; pip builds one too, with build requirements "
            "that this file cannot pin"
        )
    below = f", {source.subdirectory}" if source.subdirectory else ""
    return (
        f"envlock builds {wheel.file} of {source.url} at {source.commit}{below}; pip cannot check a repository's "
        "hash: give it that wheel with --find-links"
    )


def _marker(platforms: set[Platform], every: Sequence[Platform]) -> str:
    if platforms == set(every):
        return ""
    terms = " or ".join(f'platform_machine == "{platform.machine}"' for platform in sorted(platforms))
    return f" ; {terms}"
