"""What the spec asks for, read for one target: markers decided, names normalised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Pep508
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envlock.errors import FaultyInput
from envlock.lock.wheels.target import Target
from envlock.spec.model import Requirement

__all__ = ["Ask", "prerelease_names", "read_asks", "versions_pinned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One requirement or constraint that holds for the target. `name` is normalised; `url` stands after `@`."""

    name: str
    extras: frozenset[str]
    specifier: SpecifierSet
    url: str | None
    origin: str

    def line(self, version: str | None = None) -> str:
        """As a resolver reads it, without marker; `version` replaces a URL or specifier."""
        extras = f"[{','.join(sorted(self.extras))}]" if self.extras else ""
        return f"{self.name}{extras}{f'=={version}' if version else self.specifier}"

    def bound(self, version: str | None = None) -> str:
        """As a constraint: pip takes none with extras."""
        return f"{self.name}{f'=={version}' if version else self.specifier}"


def read_asks(requirements: Iterable[Requirement], target: Target) -> tuple[Ask, ...]:
    """Those that hold for the target, in order; raises FaultyInput "requirement-faulty"."""
    environment = target.environment()
    asks: list[Ask] = []
    for requirement in requirements:
        try:
            parsed = Pep508(requirement.text)
            holds = parsed.marker is None or parsed.marker.evaluate(environment)
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName) as exc:
            raise FaultyInput(
                f"{requirement.origin}: {requirement.text!r} is not a requirement: {exc}",
                hint='Write it as PEP 508 has it, such as "name>=1.0" or "name @ https://...".',
                code="requirement-faulty",
            ) from exc
        if holds:
            asks.append(
                Ask(
                    name=canonicalize_name(parsed.name),
                    extras=frozenset(canonicalize_name(extra) for extra in parsed.extras),
                    specifier=parsed.specifier,
                    url=parsed.url,
                    origin=requirement.origin,
                )
            )
    return tuple(asks)


def prerelease_names(asks: Iterable[Ask]) -> frozenset[str]:
    """The projects whose pre-releases are asked for, by a specifier that names one."""
    return frozenset(ask.name for ask in asks if ask.specifier.prereleases)


def versions_pinned(asks: Sequence[Ask], pins: Iterable[tuple[str, str]]) -> dict[str, frozenset[Version]]:
    """Exact versions that are named by `==` or in earlier pins, per project: even a yanked one is taken then."""
    found: dict[str, set[Version]] = {}
    exact = [(ask.name, part.version) for ask in asks for part in ask.specifier if part.operator in ("==", "===")]
    for name, text in (*exact, *pins):
        try:
            found.setdefault(name, set()).add(Version(text))
        except InvalidVersion:  # "==1.*" names no version
            continue
    return {name: frozenset(versions) for name, versions in found.items()}
