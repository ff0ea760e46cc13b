"""What maintainer scripts do that is not done as data: told, so that nothing is lost in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envlock.image.layers.debian_accounts import account_calls
from envlock.image.layers.debian_alternatives import unread_alternatives
from envlock.image.layers.debian_archive import DebFile
from envlock.image.layers.debian_control import Control, read_control
from envlock.image.layers.debian_scripts import calls, fixed_owner, overrides, work_of

__all__ = ["undone"]


def undone(debs: Sequence[DebFile]) -> tuple[str, ...]:
    """`package: program` for each maintainer script that makes accounts, alternatives, diversions or overrides.

    Only those are named whose calls neither stand in plain words nor in `debian_scripts.toml`. Sorted; empty for the
    packages that a base usually has.
    """
    found: set[str] = set()
    for deb in debs:
        control = read_control(deb)
        reviewed = work_of(control).reviewed
        found |= {f"{deb.name}: {program}" for program in _programs(control) if program not in reviewed}
    return tuple(sorted(found))


def _programs(control: Control) -> Iterator[str]:
    yield from (item for item in account_calls(control) if isinstance(item, str))
    if unread_alternatives(control):
        yield "update-alternatives"
    if any("--add" in call.words for call in calls(control, "dpkg-divert")):
        yield "dpkg-divert"
    if any("--add" in call.words and not call.plain for call in calls(control, "dpkg-statoverride")):
        yield "dpkg-statoverride"
    if any(fixed_owner(override) is None for override in overrides(control)):
        yield "dpkg-statoverride"
