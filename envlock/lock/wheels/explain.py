"""Why a resolution failed: the resolver's words, and the files that it was never shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envlock.errors import Unsatisfiable
from envlock.lock.wheels.catalogue import Project
from envlock.lock.wheels.offers import Excluded, Offers, Reason
from envlock.lock.wheels.target import Target

__all__ = ["Failure", "no_resolution", "passed_over"]

_LINES = 24
_LOOPBACK = re.compile(r"http://127\.0\.0\.1:\d+/[^\s'\")]*")
_TOGETHER = {
    Reason.SOURCE: "published as source only",
    Reason.NEWER: "uploaded after exclude-newer",
    Reason.UNDATED: "without an upload time, which exclude-newer needs",
    Reason.YANKED: "yanked",
    Reason.PRERELEASE: "pre-releases",
    Reason.PYTHON: "made for other versions of Python",
    Reason.MISFIT: "made for other platforms, interpreters or C libraries",
}
_OF_TARGET = (Reason.MISFIT, Reason.PYTHON, Reason.SOURCE)
_OTHER_TARGET = "Ask for another version, or choose a suite in [base] (and python in [env]) that it is made for."
_ADVICE = {
    Reason.NEWER: "Move exclude-newer in [python] to a later time.",
    Reason.UNDATED: "Take exclude-newer out of [python], or use an index that gives upload times.",
    Reason.YANKED: "Name a yanked version exactly (name==version) to have it all the same.",
    Reason.PRERELEASE: "Name a pre-release in the requirement (such as name>=2.0rc1) to have it.",
    Reason.PYTHON: _OTHER_TARGET,
    Reason.MISFIT: _OTHER_TARGET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A resolution that failed: who said what, what the catalogue was asked for, and what `allow-sdist` holds."""

    resolver: str
    words: str
    projects: Sequence[Project]
    target: Target
    allowed: frozenset[str]
    bounds: Mapping[str, SpecifierSet]  # what the spec itself asks for, by name
    indexes: Sequence[str]  # masked, for "not found"


def no_resolution(failure: Failure) -> Unsatisfiable:
    """The fault to raise: code "no-resolution"."""
    blamed = [project for project in failure.projects if _blamed(project, failure)]
    notes = [note for project in blamed for note in _notes(project, failure)]
    unknown = [project.name for project in blamed if project.found is None and project.direct is None]
    source_only = [project.name for project in blamed if _source_only(project)]
    advice = []
    if source_only:
        line = ", ".join(f'"{name}"' for name in sorted({*failure.allowed, *source_only}))
        advice.append(f"Add to [python]: allow-sdist = [{line}]")
    if unknown:
        advice.append(f"Correct the name, or name an index that has it ({', '.join(failure.indexes)} was asked).")
    reasons = {out.reason for project in blamed for out in _relevant(project, failure)} - {Reason.SOURCE}
    advice += [_ADVICE[reason] for reason in Reason if reason in reasons]
    words = _trim(_LOOPBACK.sub("the index", failure.words))
    message = "\n".join([f"{failure.resolver} finds no resolution for {failure.target}:", _indent(words), *notes])
    return Unsatisfiable(
        message,
        hint="\n".join(dict.fromkeys(advice)) or "Loosen or change the requirements that it names.",
        code="no-resolution",
    )


def passed_over(project: Project, chosen: Version, bound: SpecifierSet) -> str | None:
    """A line of talk where a newer version than the chosen one would do, but for the target; else None."""
    if project.found is None or any(version > chosen and bound.contains(version) for version in project.offers):
        return None
    newer = [
        out
        for out in _decisive(project.found)
        if out.version > chosen
        and out.reason in _OF_TARGET
        and bound.contains(out.version, prereleases=chosen.is_prerelease)
    ]
    return f"{project.name} {chosen} is locked, as the newer {_nearest(newer)}" if newer else None


def _blamed(project: Project, failure: Failure) -> bool:
    """Whether what is missing of a project may be the reason: it has nothing to choose, or it is spoken of."""
    if project.direct is not None:
        return False
    if not project.versions:
        # An extra's or an old version's dependency may be missing without harm, unless it is spoken of.
        return project.name in failure.bounds or _spoken_of(project.name, failure.words) or _source_only(project)
    return bool(_relevant(project, failure)) and _spoken_of(project.name, failure.words)


def _spoken_of(name: str, words: str) -> bool:
    pattern = re.escape(name).replace(r"\-", "[-_.]")
    return re.search(rf"(?<![\w.-]){pattern}(?![\w-])", words, re.IGNORECASE) is not None


def _source_only(project: Project) -> bool:
    """Whether source distributions, not allowed ones, are all there is."""
    excluded = project.found.excluded if project.found else ()
    newest = max((out.version for out in excluded if out.reason is Reason.SOURCE), default=None)
    others = (out.version for out in excluded if out.reason is Reason.MISFIT)
    return not project.versions and newest is not None and newest >= max(others, default=newest)


def _relevant(project: Project, failure: Failure) -> tuple[Excluded, ...]:
    """What was kept from the resolver and might have helped it.

    Of a project of which nothing fits the spec's own bounds: what fits them. Else the versions that the resolver
    speaks of, or those that are newer than all it was shown.
    """
    if project.found is None:
        return ()
    hidden = [out for out in _decisive(project.found) if out.version not in project.offers]
    bound = failure.bounds.get(project.name, SpecifierSet())
    offered = [version for version in project.offers if bound.contains(version, prereleases=True)]
    if not offered:
        return tuple(out for out in hidden if bound.contains(out.version, prereleases=True))
    named = {out.version for out in hidden if _spoken_of(f"{project.name}=={out.version}", failure.words)}
    return tuple(out for out in hidden if (out.version in named if named else out.version > max(offered)))


def _notes(project: Project, failure: Failure) -> Iterable[str]:
    name = project.name
    if project.found is None:
        yield f"{name} is on no index."
        return
    relevant = _relevant(project, failure)
    if _source_only(project):
        yield f"{name} publishes no wheel."
        return
    if relevant:
        absent = "has nothing that can be locked" if not project.versions else "has versions that cannot be locked"
        yield f"{name} {absent}: {_nearest(relevant)}."
    counts = {reason: len({out.version for out in relevant if out.reason is reason}) for reason in Reason}
    kinds = [f"{count} {_TOGETHER[reason]}" for reason, count in counts.items() if count]
    if len(kinds) > 1:
        yield f"Versions of {name} that were left out: {'; '.join(kinds)}."


def _decisive(found: Offers) -> tuple[Excluded, ...]:
    """Of each version the files that came nearest to being offered: the others would not have helped."""
    nearest: dict[Version, int] = {}
    for out in found.excluded:
        nearest[out.version] = max(out.nearness, nearest.get(out.version, 0))
    return tuple(out for out in found.excluded if out.nearness == nearest[out.version])


def _nearest(decisive: Sequence[Excluded]) -> str:
    """The newest version's files and why they were not offered."""
    newest = max(out.version for out in decisive)
    near = [out for out in decisive if out.version == newest]
    words = sorted({out.words for out in near}, key=lambda text: [int(n) for n in re.findall(r"\d+", text)])
    same = all(text.startswith("is for ") for text in words)
    told = "is for " + ", ".join(text.removeprefix("is for ") for text in words) if same else ", ".join(words)
    return f"{near[0].file} {told}" if len(near) == 1 else f"{newest} {told}"


def _trim(words: str) -> str:
    lines = [line.rstrip() for line in words.strip().splitlines() if line.strip()]
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 4], f"... ({len(lines) - _LINES + 1} more lines)", *lines[-3:]]
    return "\n".join(lines) or "(it said nothing)"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
