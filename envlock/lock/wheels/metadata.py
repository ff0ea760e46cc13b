"""What a wheel says of itself: its METADATA, read for one target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envlock.errors import FaultyInput
from envlock.lock.wheels.target import Target

__all__ = ["Need", "WheelMetadata", "read_wheel_metadata"]

_LEGACY = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A dependency. `marker` is undecided; `url` is set where it names a place and not versions."""

    name: str
    extras: frozenset[str]
    specifier: SpecifierSet | None  # None where it is not one of the standard, as old packages have it
    marker: Marker | None
    url: str | None

    def holds(self, target: Target, extras: Iterable[str]) -> bool:
        """Whether the target needs it when the package is wanted with these extras."""
        if self.marker is None:
            return True
        try:
            return any(self.marker.evaluate(target.environment(extra)) for extra in ("", *extras))
        except (UndefinedComparison, UndefinedEnvironmentName):
            return True  # what cannot be decided is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelMetadata:
    """Name (normalised), version and dependencies of one wheel."""

    name: str
    version: Version
    requires_python: str | None
    needs: tuple[Need, ...]

    def needed(self, target: Target, extras: Iterable[str]) -> Iterator[Need]:
        """The dependencies that hold for the target with these extras."""
        wanted = tuple(extras)
        return (need for need in self.needs if need.holds(target, wanted))


def read_wheel_metadata(data: bytes, origin: str) -> WheelMetadata:
    """Parse METADATA; `origin` is the wheel it is of. Raises FaultyInput "wheel-faulty"."""
    raw, _ = parse_email(data)
    name, version = raw.get("name"), raw.get("version")
    try:
        if not name or not version:
            raise _faulty(origin, "its METADATA gives no name or version")
        return WheelMetadata(
            name=canonicalize_name(name),
            version=Version(version),
            requires_python=raw.get("requires_python"),
            needs=tuple(_need(text, origin) for text in raw.get("requires_dist", [])),
        )
    except InvalidVersion as exc:
        raise _faulty(origin, f"its version {version!r} is not one") from exc


def _need(text: str, origin: str) -> Need:
    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        return _legacy_need(text, origin)
    return Need(
        name=canonicalize_name(parsed.name),
        extras=frozenset(canonicalize_name(extra) for extra in parsed.extras),
        specifier=parsed.specifier,
        marker=parsed.marker,
        url=parsed.url,
    )


def _legacy_need(text: str, origin: str) -> Need:
    """Read what older tools wrote, such as `name (>=1.0.*)`: resolvers take it, so its name has to be known."""
    match = _LEGACY.fullmatch(text)
    if match is None:
        raise _faulty(origin, f"it requires {text!r}, which cannot be read")
    try:
        marker = Marker(match[3]) if match[3] else None
    except InvalidMarker as exc:
        raise _faulty(origin, f"it requires {text!r}, whose marker cannot be read") from exc
    extras = frozenset(canonicalize_name(extra) for extra in (match[2] or "").split(",") if extra.strip())
    return Need(name=canonicalize_name(match[1]), extras=extras, specifier=None, marker=marker, url=None)


def _faulty(origin: str, why: str) -> FaultyInput:
    return FaultyInput(
        f"{origin} is not a sound wheel: {why}",
        hint="Leave this version out (name!=version), or take it from another index.",
        code="wheel-faulty",
    )
