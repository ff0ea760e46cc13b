"""Closures that keep an earlier lock's versions.

Debian's stable suites replace a package in place: the version that a lock pinned leaves the index when an update
comes out. Its bytes may still be had (from the store, an offline archive, a snapshot mirror), so the pin is kept.
What its index entry said is lost, though, and the lock does not repeat it. These rules stand in for it:

- The vanished version borrows the relations of the version that took its place; their version numbers do not count
  against packages that were locked together with it.
- A locked package that no borrowed relation leads to may be one that the vanished version needs and its successor
  does not. It stays, unless it is explained: reachable from what was asked for then or is asked for now.
- A pin is given up, and the suite's newest version taken, only where keeping it leaves no closure: something new
  wants a newer version or excludes the pinned one. Then its exact siblings (`= version`) follow.

Pins that nothing needs any more fall away.
"""

from __future__ import annotations

from collections.abc import Mapping

from envlock.lock.debian.closure import Unmet, close_over
from envlock.lock.debian.merged import MergedIndex, PinnedIndex
from envlock.lock.debian.packages import Package
from envlock.lock.model import LockedDeb

__all__ = ["close_keeping"]


def close_keeping(
    index: MergedIndex, roots: Mapping[str, str], pins: Mapping[str, LockedDeb], *, where: str
) -> tuple[Package, ...]:
    """The closure of the roots with as many pinned versions as can stay; as `close_over` otherwise."""
    released: frozenset[str] = frozenset()
    while True:
        view = PinnedIndex(index, pins, released)
        try:
            chosen = close_over(view, roots, where=where)
            kept = _unexplained(view, roots, pins, released, chosen)
            return close_over(view, {**kept, **roots}, where=where) if kept else chosen
        except Unmet as unmet:
            more = _to_release(index, pins, released, unmet)
            if not more:
                raise
            released |= more


def _to_release(
    index: MergedIndex, pins: Mapping[str, LockedDeb], released: frozenset[str], unmet: Unmet
) -> frozenset[str]:
    """The pins that stand in the way: those of the packages asked for, else that of the one that asks."""

    def can_move(name: str) -> bool:
        if name not in pins or name in released:
            return False
        candidate = index.candidate(name)
        return candidate is None or candidate.version != pins[name].version

    targets = frozenset(name for name in unmet.targets if can_move(name))
    if targets or unmet.dependant is None:
        return targets
    return frozenset({unmet.dependant}) if can_move(unmet.dependant) else frozenset()


def _unexplained(
    view: PinnedIndex,
    roots: Mapping[str, str],
    pins: Mapping[str, LockedDeb],
    released: frozenset[str],
    chosen: tuple[Package, ...],
) -> dict[str, str]:
    """The pins that only the lost relations of a vanished version can have brought in, each with its reason."""
    if not any(package.borrowed for package in chosen):
        return {}
    unused = pins.keys() - released - {package.name for package in chosen}
    if not unused:
        return {}
    asked_for = {name for name, deb in pins.items() if deb.requested is not None} | roots.keys()
    return dict.fromkeys(unused - _reachable(view, pins, asked_for), "kept for a version that has left the index")


def _reachable(view: PinnedIndex, pins: Mapping[str, LockedDeb], names: set[str]) -> set[str]:
    """The pins that any alternative of their known relations leads to from these names, over pins alone."""
    seen: set[str] = set()
    todo = sorted(names)
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo += [package.name for package in view.providers(name) if package.name in pins]
        package = view.candidate(name) if name in pins else None
        if package is not None:
            todo += [relation.name for group in package.depends for relation in group]
    return seen
