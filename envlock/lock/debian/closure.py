"""The closure of Debian packages: everything that a set of packages needs, chosen the same way every time.

The way of choosing:

- Depends and Pre-Depends are followed, Recommends and Suggests are not.
- Each name has one candidate: an earlier lock's version where one is to be kept, else the suite's newest.
- What can be met in one way only is taken first. Only then the alternatives (`a | b`, or a virtual package) that are
  still open are decided, in the order in which they came up. So `default-mta | mail-transport-agent` is no question
  when something else brings an MTA, whatever the order of the packages.
- Of several ways, the first: one that an earlier lock took, then one of _PREFERRED, then the first in the field, and
  among providers of a virtual package the one of the highest Priority, then the first by name.
- Conflicts and Breaks hold among all chosen packages. Alternatives that clash are passed over, and a decision that
  leads to a clash later is taken back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from envlock.errors import Unsatisfiable
from envlock.lock.debian.packages import Package
from envlock.lock.debian.relations import Relation

__all__ = ["Candidates", "Unmet", "close_over"]

_PREFERRED = ("usr-is-merged", "systemd-standalone-sysusers", "systemd-standalone-tmpfiles")
"""Taken before other alternatives: no maintainer script is ever run, so the script that merges /usr (usrmerge, and
the perl modules it wants) or a whole systemd has nothing to do here."""

_PRIORITIES = ("required", "important", "standard", "optional")
_MOST_DECISIONS = 2000  # tried in one closure, before the first fault is told


class Candidates(Protocol):
    """Where a closure's packages come from: at most one version for each name."""

    def candidate(self, name: str) -> Package | None:
        """The version of a real package to choose, or None where there is none."""

    def providers(self, virtual: str) -> Iterable[Package]:
        """The candidates that provide this name, in any order."""

    def explain(self, name: str) -> str:
        """A sentence on why there is no such package, with what to write instead; or ""."""


class Unmet(Unsatisfiable):
    """A closure that cannot be had. `targets` are the packages in the way, `dependant` the one that asked."""

    def __init__(
        self, message: str, *, hint: str, code: str, targets: tuple[str, ...] = (), dependant: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.targets = targets
        self.dependant = dependant


@dataclass(slots=True)
class _State:
    """What is chosen so far. Values are never changed in place, so a copy of the tables is a copy of the state."""

    chosen: dict[str, Package] = field(default_factory=dict)
    via: dict[str, str | None] = field(default_factory=dict)
    provided: dict[str, tuple[tuple[Relation, Package], ...]] = field(default_factory=dict)
    barred: dict[str, tuple[tuple[Relation, Package], ...]] = field(default_factory=dict)
    agenda: deque[Package] = field(default_factory=deque)
    open: list[tuple[Package, tuple[Relation, ...]]] = field(default_factory=list)

    def copy(self) -> _State:
        return _State(
            dict(self.chosen),
            dict(self.via),
            dict(self.provided),
            dict(self.barred),
            deque(self.agenda),
            list(self.open),
        )

    def add(self, package: Package, via: str | None) -> None:
        self.chosen[package.name] = package
        self.via[package.name] = via
        self.agenda.append(package)
        for provide in package.provides:
            self.provided[provide.name] = (*self.provided.get(provide.name, ()), (provide, package))
        for conflict in package.conflicts:
            self.barred[conflict.name] = (*self.barred.get(conflict.name, ()), (conflict, package))

    def clash(self, package: Package) -> tuple[Package, Relation, Package] | None:
        """The first (who, relation, whom) among the chosen and this package that says they exclude each other."""
        for conflict in package.conflicts:
            other = self.chosen.get(conflict.name)
            if other and _names(conflict, other) and _may_exclude(package, other):
                return package, conflict, other
            for provide, provider in self.provided.get(conflict.name, ()):
                if _names_provided(conflict, provide, provider) and _may_exclude(package, provider):
                    return package, conflict, provider
        for conflict, other in self.barred.get(package.name, ()):
            if _names(conflict, package) and _may_exclude(other, package):
                return other, conflict, package
        for provide in package.provides:
            for conflict, other in self.barred.get(provide.name, ()):
                if _names_provided(conflict, provide, package) and _may_exclude(other, package):
                    return other, conflict, package
        return None

    def meets(self, dependant: Package, group: tuple[Relation, ...]) -> bool:
        """Whether a chosen package meets one of the group's alternatives."""
        for relation in group:
            package = self.chosen.get(relation.name)
            if package and _fits(dependant, relation, package):
                return True
            for provide, provider in self.provided.get(relation.name, ()):
                if _fits_provided(dependant, relation, provide, provider):
                    return True
        return False

    def chain(self, name: str | None) -> list[str]:
        """From a package that was asked for down to this one."""
        names: list[str] = []
        while name is not None:
            names.append(name)
            name = self.via[name]
        return names[::-1]


def close_over(candidates: Candidates, roots: Mapping[str, str], *, where: str) -> tuple[Package, ...]:
    """The packages that the roots need, themselves included, sorted by name.

    `roots` maps names to why they are wanted, for messages; a virtual package that one package alone provides may
    be a root too. `where` ("Debian trixie for amd64") begins every message. Raises Unmet "unknown-package",
    "unmet-dependency" or "package-conflict".
    """
    return _Closure(candidates, where).run(roots)


class _Closure:
    def __init__(self, candidates: Candidates, where: str) -> None:
        self._candidates = candidates
        self._where = where
        self._decisions = 0

    def run(self, roots: Mapping[str, str]) -> tuple[Package, ...]:
        state = _State()
        for name in sorted(roots):
            package = self._root(name, roots[name])
            if package.name not in state.chosen:
                self._take(state, package, None)
        chosen = self._decide(state).chosen
        return tuple(chosen[name] for name in sorted(chosen))

    def _decide(self, state: _State) -> _State:
        """Settle everything, trying the ways of the first open group one after the other."""
        self._settle(state)
        if not state.open:
            return state
        dependant, group = state.open[0]
        first: Unmet | None = None
        for package in self._ways(state, dependant, group):
            self._decisions += 1
            attempt = state.copy()
            try:
                self._take(attempt, package, dependant.name)
                return self._decide(attempt)
            except Unmet as unmet:
                first = first or unmet
                if self._decisions >= _MOST_DECISIONS:
                    break
        raise first or self._unmet(state, dependant, group)

    def _settle(self, state: _State) -> None:
        """Take all that there is one way to meet, until only open groups with several ways are left."""
        while True:
            while state.agenda:
                package = state.agenda.popleft()
                for group in package.depends:
                    self._settle_group(state, package, group)
            # What was taken since may meet a group that was left open, or leave it only one way.
            groups, state.open = state.open, []
            for dependant, group in groups:
                self._settle_group(state, dependant, group)
            if not state.agenda:
                return

    def _settle_group(self, state: _State, dependant: Package, group: tuple[Relation, ...]) -> None:
        if state.meets(dependant, group):
            return
        ways = self._ways(state, dependant, group)
        if not ways:
            raise self._unmet(state, dependant, group)
        if len(ways) == 1:
            self._take(state, ways[0], dependant.name)
        else:
            state.open.append((dependant, group))

    def _take(self, state: _State, package: Package, via: str | None) -> None:
        if clash := state.clash(package):
            raise self._clash(state, package, via, clash)
        state.add(package, via)

    def _ways(self, state: _State, dependant: Package, group: tuple[Relation, ...]) -> list[Package]:
        """The packages that would meet a group, best first; none of them clashes with what is chosen."""
        ways: dict[str, Package] = {}
        for relation in group:
            real = self._candidates.candidate(relation.name)
            if real is not None and _fits(dependant, relation, real):
                ways.setdefault(real.name, real)
            for package in sorted(self._candidates.providers(relation.name), key=_provider_order):
                if any(_fits_provided(dependant, relation, provide, package) for provide in package.provides):
                    ways.setdefault(package.name, package)
        fitting = [way for way in ways.values() if way.name not in state.chosen and not state.clash(way)]
        return sorted(fitting, key=lambda way: (not way.pinned, way.name not in _PREFERRED))

    def _root(self, name: str, reason: str) -> Package:
        package = self._candidates.candidate(name)
        if package:
            return package
        providers = sorted(self._candidates.providers(name), key=_provider_order)
        if len(providers) == 1:
            return providers[0]
        if providers:
            listed = ", ".join(provider.name for provider in providers[:8])
            raise Unmet(
                f"{self._where}: {name} ({reason}) is a virtual package that several packages provide",
                hint=f"Name one of them: {listed}.",
                code="unknown-package",
            )
        raise Unmet(
            f"{self._where}: there is no package {name} ({reason})",
            hint=self._candidates.explain(name) or "See how it is spelt in this suite, or choose another suite.",
            code="unknown-package",
        )

    def _unmet(self, state: _State, dependant: Package, group: tuple[Relation, ...]) -> Unmet:
        named = " | ".join(str(relation) for relation in group)
        chain = " -> ".join([*state.chain(dependant.name), named])
        reasons = "; ".join(self._why_not(state, relation) for relation in group)
        return Unmet(
            f"{self._where}: {chain} cannot be met: {reasons}",
            hint=f"Do without {state.chain(dependant.name)[0]}, or choose a suite or mirror that is complete.",
            code="unmet-dependency",
            targets=self._in_the_way(state, group),
            dependant=dependant.name,
        )

    def _in_the_way(self, state: _State, group: tuple[Relation, ...]) -> tuple[str, ...]:
        """The packages of which another version might meet the group, or let another package meet it."""
        names: list[str] = []
        for relation in group:
            real = self._candidates.candidate(relation.name)
            for package in ([real] if real else []) + list(self._candidates.providers(relation.name)):
                names.append(package.name)
                if clash := state.clash(package):
                    names += [clash[0].name, clash[2].name]
        return tuple(dict.fromkeys(names))

    def _why_not(self, state: _State, relation: Relation) -> str:
        real = state.chosen.get(relation.name) or self._candidates.candidate(relation.name)
        if real is None:
            providers = list(self._candidates.providers(relation.name))
            if not providers:
                return f"there is no package {relation.name}"
            names = ", ".join(sorted(provider.name for provider in providers)[:4])
            return f"none of the packages that provide {relation.name} fits ({names})"
        if clash := state.clash(real):
            return _clash_words(clash)
        return f"{real.name} is {real.version}"

    def _clash(
        self, state: _State, package: Package, via: str | None, clash: tuple[Package, Relation, Package]
    ) -> Unmet:
        one, _, other = clash
        chains = {
            member.name: " -> ".join([*state.chain(via), member.name])
            if member.name == package.name
            else " -> ".join(state.chain(member.name))
            for member in (one, other)
        }
        wanted_by = " and ".join(chains.values())
        return Unmet(
            f"{self._where}: {_clash_words(clash)} (wanted: {wanted_by})",
            hint="Leave one of the two out of the base's packages.",
            code="package-conflict",
            targets=(one.name, other.name),
        )


def _clash_words(clash: tuple[Package, Relation, Package]) -> str:
    one, relation, other = clash
    provided = "" if relation.name == other.name else f", which provides {relation.name},"
    return f"{one.name} {one.version} excludes {relation}: {other.name} {other.version}{provided} cannot be beside it"


def _provider_order(package: Package) -> tuple[bool, int, str]:
    rank = _PRIORITIES.index(package.priority) if package.priority in _PRIORITIES else len(_PRIORITIES)
    return not package.pinned, rank, package.name


def _fits(dependant: Package, relation: Relation, package: Package) -> bool:
    """Whether a package meets a dependency by its own name.

    Borrowed relations name the right packages, but the versions in them belong to the dependant's newer version.
    Against a package that was locked together with the dependant they say nothing, so that holds; against another
    one an exact version cannot have been what the dependant wants.
    """
    if relation.name != package.name or not _right_architecture(relation, package):
        return False
    if dependant.borrowed:
        return package.pinned or (relation.operator != "=" and relation.admits(package.version))
    return relation.admits(package.version)


def _fits_provided(dependant: Package, relation: Relation, provide: Relation, provider: Package) -> bool:
    """Whether a package meets a dependency by what it provides; borrowed relations as in `_fits`."""
    if dependant.borrowed and provider.pinned:
        return relation.name == provide.name and _right_architecture(relation, provider)
    return _names_provided(relation, provide, provider)


def _may_exclude(holder: Package, other: Package) -> bool:
    """A package never excludes itself; and two that were locked together do not, whatever a newer version says."""
    return holder.name != other.name and not (holder.borrowed and other.pinned)


def _names(relation: Relation, package: Package) -> bool:
    return (
        relation.name == package.name and _right_architecture(relation, package) and relation.admits(package.version)
    )


def _names_provided(relation: Relation, provide: Relation, provider: Package) -> bool:
    """Whether a relation is about what a package provides; one with a version only sees versioned provisions."""
    if relation.name != provide.name or not _right_architecture(relation, provider):
        return False
    return not relation.operator or (bool(provide.version) and relation.admits(provide.version))


def _right_architecture(relation: Relation, package: Package) -> bool:
    """Only one architecture is installed: what names another never matches. `:any` wants the package's consent."""
    match relation.qualifier:
        case "" | "native":
            return True
        case "any":
            return package.multi_arch == "allowed"
        case qualifier:
            return qualifier == package.architecture
