"""Which wheels fit a target, how well, and why not: computed for the target, whatever the host is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag

from envlock.lock.wheels.target import Target

__all__ = ["Fit", "Misfit", "Nearness", "tags_of"]

_OLDEST_GLIBC = {"x86_64": 5, "i686": 5}  # minor version; 17 elsewhere, where manylinux2014 came first
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_LEGACY_MINOR = {name: minor for minor, name in _LEGACY.items()}
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(.+)")
_LEGACY_MANYLINUX = re.compile(r"(manylinux1|manylinux2010|manylinux2014)_(.+)")
_FREE_THREADED = re.compile(r"(cp\d+|abi3)t")


class Nearness(IntEnum):
    """How near a wheel comes to fitting; the nearest of several is the one to tell of."""

    PLATFORM = 0
    IMPLEMENTATION = 1  # PyPy, or CPython without its lock
    INTERPRETER = 2
    GLIBC = 3


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a wheel does not fit, in words that follow "it"."""

    nearness: Nearness
    words: str


def tags_of(file: str) -> str:
    """The tag part of a wheel's name."""
    return "-".join(file.removesuffix(".whl").rsplit("-", 3)[-3:]).lower()


class Fit:
    """Answers for the tag part of wheels' names ("cp313-cp313-manylinux_2_28_x86_64"), each text worked out once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._order = {tag: rank for rank, tag in enumerate(_supported(target))}
        self._kinds = {(tag.interpreter, tag.abi) for tag in self._order}
        self._ranks: dict[str, int | None] = {}
        self._misfits: dict[str, Misfit] = {}

    def rank(self, tags: str) -> int | None:
        """How well it fits: the lower, the better, in pip's order. None: it does not."""
        if tags not in self._ranks:
            ranks = [self._order[tag] for tag in _parse(tags) if tag in self._order]
            self._ranks[tags] = min(ranks, default=None)
        return self._ranks[tags]

    def misfit(self, tags: str) -> Misfit:
        """Why it does not fit; of several tags the nearest one's reason."""
        if tags not in self._misfits:
            reasons = [self._judge(tag) for tag in sorted(_parse(tags), key=str)]
            unreadable = Misfit(Nearness.PLATFORM, f"has no readable tags ({tags})")
            self._misfits[tags] = max(reasons, key=lambda reason: reason.nearness, default=unreadable)
        return self._misfits[tags]

    def _judge(self, tag: Tag) -> Misfit:
        needed = _glibc_of(tag.platform)
        same_machine = tag.platform in ("any", f"linux_{self.target.machine}") or (
            needed is not None and tag.platform.endswith(f"_{self.target.machine}")
        )
        if not same_machine:
            return Misfit(Nearness.PLATFORM, f"is for {_platform_words(tag.platform)}")
        if (tag.interpreter, tag.abi) not in self._kinds:
            same = tag.interpreter.startswith(("cp", "py")) and not _FREE_THREADED.fullmatch(tag.abi)
            nearness = Nearness.INTERPRETER if same else Nearness.IMPLEMENTATION
            return Misfit(nearness, f"is for {_interpreter_words(tag)}")
        has = self.target.glibc_release
        if needed is None or (has is not None and needed <= has):  # older than any that the target knows
            return Misfit(Nearness.INTERPRETER, f"has the tag {tag}, which {self.target} does not take")
        words = f"needs glibc {needed[0]}.{needed[1]}, and the base has {self.target.glibc or 'none'}"
        return Misfit(Nearness.GLIBC, words)


def _parse(tags: str) -> frozenset[Tag]:
    try:
        return parse_tag(tags)
    except ValueError:  # three parts are a promise of the caller; anything else in a name fits nothing
        return frozenset()


def _supported(target: Target) -> Iterator[Tag]:
    """All tags that the target takes, best first, as packaging orders them for a running interpreter."""
    major, minor = target.release
    interpreter = f"cp{major}{minor}"
    platforms = list(_platforms(target))
    yield from cpython_tags(target.release, abis=[interpreter], platforms=platforms)
    yield from compatible_tags(target.release, interpreter=interpreter, platforms=platforms)


def _platforms(target: Target) -> Iterator[str]:
    if target.glibc_release is None:
        return
    major, newest = target.glibc_release
    # What a user built for himself: pip takes it, and prefers it; indexes refuse it.
    yield f"linux_{target.machine}"
    for minor in range(newest, _OLDEST_GLIBC.get(target.machine, 17) - 1, -1):
        yield f"manylinux_{major}_{minor}_{target.machine}"
        if minor in _LEGACY:
            yield f"{_LEGACY[minor]}_{target.machine}"


def _glibc_of(platform: str) -> tuple[int, int] | None:
    if match := _MANYLINUX.fullmatch(platform):
        return int(match[1]), int(match[2])
    if match := _LEGACY_MANYLINUX.fullmatch(platform):
        return 2, _LEGACY_MINOR[match[1]]
    return None


def _platform_words(platform: str) -> str:
    system, _, rest = platform.partition("_")
    if system == "macosx":
        return "macOS"
    if system.startswith("win"):
        return "Windows"
    if system == "musllinux":
        return f"Linux with musl ({platform})"
    machine = re.sub(r"^(\d+_\d+_)", "", rest)
    return f"Linux {machine}" if system.startswith(("manylinux", "linux")) and machine else platform


def _interpreter_words(tag: Tag) -> str:
    match = re.fullmatch(r"(cp|py|pp)(\d)(\d*)", tag.interpreter)
    if not match:
        return f"the interpreter {tag.interpreter} ({tag.abi})"
    kind = {"cp": "CPython", "py": "Python", "pp": "PyPy"}[match[1]]
    threading = "free-threaded " if _FREE_THREADED.fullmatch(tag.abi) else ""
    return f"{threading}{kind} {match[2]}{'.' + match[3] if match[3] else ''}"
