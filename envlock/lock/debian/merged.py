"""One platform's packages out of several archives, newest version first, and the same with pins laid over it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envlock.lock.debian.packages import Package, PackageIndex, newest
from envlock.lock.debian.relations import Relation
from envlock.lock.debian.version import Version
from envlock.lock.model import LockedDeb

__all__ = ["MergedIndex", "PinnedIndex", "python_minor"]

_PYTHON = re.compile(r"python(3\.[0-9]+)(-.*)?")


class MergedIndex:
    """The candidates of a suite: of each package the highest version that its archives have.

    `indexes` are in order of preference: where two archives have the same version, the first is taken.
    """

    def __init__(self, indexes: Sequence[PackageIndex], *, title: str) -> None:
        self._indexes = tuple(indexes)
        self._title = title
        self._candidates: dict[str, Package | None] = {}

    @property
    def essential(self) -> tuple[str, ...]:
        """The names of all packages marked Essential, sorted."""
        return tuple(sorted({name for index in self._indexes for name in index.essential}))

    def versions(self, name: str) -> tuple[Package, ...]:
        """Every version in every archive."""
        return tuple(package for index in self._indexes for package in index.find(name))

    def candidate(self, name: str) -> Package | None:
        """The highest version."""
        if name not in self._candidates:
            self._candidates[name] = newest(self.versions(name))
        return self._candidates[name]

    def provider_names(self, virtual: str) -> tuple[str, ...]:
        """The names of packages that may provide this one, in any of their versions."""
        return tuple(dict.fromkeys(name for index in self._indexes for name in index.provider_names(virtual)))

    def providers(self, virtual: str) -> tuple[Package, ...]:
        """The candidates that provide this name."""
        found = (self.candidate(name) for name in self.provider_names(virtual))
        return tuple(package for package in found if package and _provides(package, virtual))

    def explain(self, name: str) -> str:
        """What to write instead of a name that the suite lacks."""
        python = self.candidate("python3")
        other = _PYTHON.fullmatch(name)
        if python and other:
            has = python_minor(python.version)
            rest = other[2] or ""
            return (
                f"{self._title} has Python {has} alone (python{has}{rest}): set python to {has}, "
                f"or base.debian to the suite that has {other[1]}."
            )
        names = {known for index in self._indexes for known in index.names}
        near = difflib.get_close_matches(name, _plausible(name, names), n=4, cutoff=0.7)
        return f"Near it: {', '.join(near)}." if near else ""


class PinnedIndex:
    """A suite with the versions of an earlier lock kept, but for the names that were released.

    A pinned version that has left the index keeps its name, version and hash, and borrows the relations of the
    version that took its place.
    """

    def __init__(self, index: MergedIndex, pins: Mapping[str, LockedDeb], released: frozenset[str]) -> None:
        self._index = index
        self._pins = {name: deb for name, deb in pins.items() if name not in released}
        self._candidates: dict[str, Package | None] = {}

    def candidate(self, name: str) -> Package | None:
        """The pinned version if the name is pinned, else the highest."""
        if name not in self._candidates:
            pin = self._pins.get(name)
            self._candidates[name] = self._pinned(pin) if pin else self._index.candidate(name)
        return self._candidates[name]

    def providers(self, virtual: str) -> tuple[Package, ...]:
        """The candidates that provide this name."""
        found = (self.candidate(name) for name in self._index.provider_names(virtual))
        return tuple(package for package in found if package and _provides(package, virtual))

    def explain(self, name: str) -> str:
        """What to write instead of a name that the suite lacks."""
        return self._index.explain(name)

    def _pinned(self, pin: LockedDeb) -> Package:
        for known in self._index.versions(pin.name):
            if known.version == pin.version and known.sha256 == pin.sha256:
                return replace(known, pinned=True, archive=pin.archive, pool=pin.pool)
        lender = self._index.candidate(pin.name)
        identity = Package(
            name=pin.name,
            version=pin.version,
            architecture=pin.architecture,
            archive=pin.archive,
            pool=pin.pool,
            size=pin.size,
            sha256=pin.sha256,
            pinned=True,
            borrowed=True,
        )
        if lender is None:
            return identity
        return replace(
            identity,
            depends=lender.depends,
            conflicts=lender.conflicts,
            provides=tuple(_own_provide(provide, lender.version, pin.version) for provide in lender.provides),
            multi_arch=lender.multi_arch,
            priority=lender.priority,
        )


def _own_provide(provide: Relation, theirs: str, ours: str) -> Relation:
    """A borrowed Provides: where it gives the lender's own version, that is the pinned version here."""
    return replace(provide, version=ours) if provide.version == theirs else provide


def python_minor(version: str) -> str:
    """The X.Y of a Debian version of Python."""
    return ".".join(Version.parse(version).upstream.split(".")[:2])


def _provides(package: Package, virtual: str) -> bool:
    return any(provide.name == virtual for provide in package.provides)


def _plausible(name: str, names: Iterable[str]) -> list[str]:
    """The names that can be near at all: comparing all 69 000 in full takes seconds."""
    signs = set(name)
    return sorted(
        known
        for known in names
        if abs(len(known) - len(name)) <= max(3, len(name) // 2) and len(signs & set(known)) * 2 >= len(signs)
    )
