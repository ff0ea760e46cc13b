"""Which files of a project can be locked: one per version, and for all others the reason why not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envlock.fetch.model import IndexFile, IndexUrl
from envlock.lock.wheels.tags import Fit, Nearness, tags_of

__all__ = ["Excluded", "Offer", "Offers", "Reason", "Rules", "is_sdist", "sort_out"]

_SDIST = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.(?:tar\.gz|tgz|tar\.bz2|tar\.xz|zip)")
_FITS = max(Nearness) + 1  # nearer than any that does not fit
_BUILD = re.compile(r"(\d+)(.*)")


class Reason(StrEnum):
    """Why a file is not offered."""

    MISFIT = "misfit"  # tags
    PYTHON = "python"  # Requires-Python
    NEWER = "newer"  # than exclude-newer
    UNDATED = "undated"  # exclude-newer is set, and the index gives no time
    YANKED = "yanked"
    PRERELEASE = "prerelease"
    SOURCE = "source"  # a version of which there is no wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the spec lets into a lock. `pinned` are versions named exactly, `prereleases` and `sources` names."""

    exclude_newer: datetime | None = None
    prereleases: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    all_sources: bool = False
    pinned: Mapping[str, frozenset[Version]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The one file that is locked when its version is chosen. With `source` it is an sdist that is to be built."""

    version: Version
    file: IndexFile
    index: IndexUrl
    source: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A file that is not offered, and why; `words` follow "it". The nearest of a version's is the one to tell of."""

    version: Version
    file: str
    reason: Reason
    words: str
    nearness: int = _FITS


@dataclass(frozen=True, slots=True)
class Offers:
    """What a project's index has. `offers` by version; `excluded` in the index's order."""

    offers: Mapping[Version, Offer]
    excluded: tuple[Excluded, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    """A file whose name was understood. `tags` is None for an sdist."""

    file: IndexFile
    version: Version
    tags: str | None
    build: tuple[int, str] = (0, "")


def is_sdist(file: str) -> bool:
    """Whether a file name is that of a source distribution."""
    return _SDIST.fullmatch(file) is not None


def sort_out(project: str, files: Iterable[IndexFile], index: IndexUrl, fit: Fit, rules: Rules) -> Offers:
    """Choose among a project's files on one index; files of no known kind are passed over."""
    named = [found for file in files if (found := _name(file, project)) is not None]
    only_prereleases = all(each.version.is_prerelease for each in named)
    judge = _Judge(project, fit, rules, prereleases=only_prereleases or project in rules.prereleases)
    best: dict[Version, tuple[tuple[object, ...], Offer]] = {}
    sources: dict[Version, IndexFile] = {}
    machine_code: set[Version] = set()  # versions with wheels for some platform: those are not source-only
    excluded: list[Excluded] = []
    for each in named:
        if each.tags is not None and not each.tags.endswith("-none-any"):
            machine_code.add(each.version)
        if (refused := judge.refusal(each)) is not None:
            excluded.append(refused)
            continue
        if each.tags is None:
            sources[each.version] = _better_sdist(sources.get(each.version), each.file)
            continue
        # As pip ranks them: tags, then the higher build number; the name makes it one order whatever the index's.
        key = (-(fit.rank(each.tags) or 0), each.build, each.file.file)
        if each.version not in best or key > best[each.version][0]:
            best[each.version] = key, Offer(version=each.version, file=each.file, index=index)
    offers = {version: offer for version, (_, offer) in best.items()}
    for version, sdist in sources.items():
        if version in offers or version in machine_code:
            continue
        if rules.all_sources or project in rules.sources:
            offers[version] = Offer(version=version, file=sdist, index=index, source=True)
        else:
            excluded.append(
                Excluded(version=version, file=sdist.file, reason=Reason.SOURCE, words="is published as source only")
            )
    return Offers(offers, tuple(excluded))


class _Judge:
    """Says of one file after the other why it is out, remembering what texts meant."""

    def __init__(self, project: str, fit: Fit, rules: Rules, *, prereleases: bool) -> None:
        self._fit = fit
        self._rules = rules
        self._pinned = rules.pinned.get(project, frozenset())
        self._prereleases = prereleases
        self._python = fit.target.version
        self._pythons: dict[str, bool] = {}

    def refusal(self, each: _Named) -> Excluded | None:
        """Why it is out; None if it is in."""
        file = each.file
        if file.requires_python and not self._python_fits(file.requires_python):
            words = f"wants Python {file.requires_python}"
            return self._out(each, Reason.PYTHON, words, Nearness.INTERPRETER)
        if each.tags is not None and self._fit.rank(each.tags) is None:
            misfit = self._fit.misfit(each.tags)
            return self._out(each, Reason.MISFIT, misfit.words, misfit.nearness)
        if self._rules.exclude_newer is not None and (late := self._late(file, self._rules.exclude_newer)):
            return self._out(each, *late)
        if file.yanked is not None and each.version not in self._pinned:
            why = f" ({file.yanked})" if file.yanked else ""
            return self._out(each, Reason.YANKED, f"was yanked{why}")
        if each.version.is_prerelease and not self._prereleases:
            return self._out(each, Reason.PRERELEASE, "is a pre-release")
        return None

    def _out(self, each: _Named, reason: Reason, words: str, nearness: int = _FITS) -> Excluded:
        return Excluded(version=each.version, file=each.file.file, reason=reason, words=words, nearness=nearness)

    def _python_fits(self, text: str) -> bool:
        if text not in self._pythons:
            try:
                self._pythons[text] = SpecifierSet(text).contains(self._python, prereleases=True)
            except InvalidSpecifier:  # as pip has it: what cannot be read excludes nothing
                self._pythons[text] = True
        return self._pythons[text]

    def _late(self, file: IndexFile, limit: datetime) -> tuple[Reason, str] | None:
        if file.upload_time is None:
            # A file on this machine was put there by the user, whose own choice it is.
            return None if file.url.startswith("file:") else (Reason.UNDATED, "has no upload time on its index")
        try:
            if datetime.fromisoformat(file.upload_time) < limit:
                return None
        except (ValueError, TypeError):  # TypeError: a time without its zone says nothing certain
            return Reason.UNDATED, f"has the upload time {file.upload_time!r}, which is none"
        return Reason.NEWER, f"was uploaded at {file.upload_time}, not before exclude-newer"


def _name(file: IndexFile, project: str) -> _Named | None:
    """Take a file's name apart; None for a kind that is never locked (eggs, installers) or a name that is none."""
    if file.file.endswith(".whl"):
        parts = file.file.removesuffix(".whl").split("-")
        if len(parts) not in (5, 6):
            return None
        build = _BUILD.fullmatch(parts[2]) if len(parts) == 6 else None  # noqa: PLR2004 (PEP 427: with a build tag)
        version = _version(parts[1].replace("_", "-"))
        number = (int(build[1]), build[2]) if build else (0, "")
        return _Named(file, version, tags_of(file.file), number) if version else None
    match = _SDIST.fullmatch(file.file)
    if match is None or canonicalize_name(match["name"]) != project:
        return None
    version = _version(match["version"])
    return _Named(file, version, None) if version else None


@lru_cache(maxsize=1 << 14)  # a version has many files
def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _better_sdist(one: IndexFile | None, other: IndexFile) -> IndexFile:
    """A .tar.gz before other kinds, as the standard has it since PEP 625."""
    if one is None:
        return other
    return min(one, other, key=lambda file: (not file.file.endswith(".tar.gz"), file.file))
