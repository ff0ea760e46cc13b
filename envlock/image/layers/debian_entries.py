"""One .deb as the entries of a layer: its files where dpkg would have put them, and dpkg's record of the package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from envlock.image.layers.debian_archive import DebFile, Member, faulty, read_members
from envlock.image.layers.debian_control import info_files, read_control
from envlock.image.layers.debian_order import ordered
from envlock.image.layers.debian_paths import BASE_PATHS, is_excluded, merged
from envlock.image.layers.debian_scripts import Override, fixed_owner, overrides
from envlock.image.layers.entries import Directory, Entry, File, Hardlink, Symlink

__all__ = ["deb_entries", "placed"]

_INFO = "var/lib/dpkg/info"


def deb_entries(deb: DebFile) -> Iterator[Entry]:
    """What dpkg would have unpacked from this package, and its files below var/lib/dpkg/info.

    Paths are those of a merged /usr; modes, owners and links are the package's, or what its scripts make of them.
    Documentation other than copyright files, manual pages and translations are left out, by the filter that
    `base_entries` also gives to dpkg. Entries come sorted by path. A pure function of the .deb: it can run in another
    process. Raise FaultyInput (code "deb-faulty") with the name of the .deb and of the entry.
    """
    control = read_control(deb)
    members = read_members(deb)
    changes = {merged(override.path): override for override in overrides(control)}
    entries = [
        *(_overridden(entry, changes.get(entry.path)) for entry in placed(_kept(members))),
        *(File(path=f"{_INFO}/{name}", body=body, mode=mode) for name, body, mode in info_files(control, members)),
    ]
    try:
        in_order = ordered(entries)
    except ValueError as exc:
        raise faulty(deb, "data.tar on a merged /usr", str(exc)) from exc
    yield from in_order


def placed(members: Iterable[Member]) -> Iterator[Entry]:
    """Members as entries, where they are on a merged /usr; without the paths that are `base_entries`' own."""
    for member in members:
        if member.path in BASE_PATHS and not member.path.startswith("var/") and member.is_directory:
            yield Directory(path=merged(member.path), mode=member.mode, uid=member.uid, gid=member.gid)
        elif member.path not in BASE_PATHS:
            yield _entry(member)


def _entry(member: Member) -> Entry:
    path = merged(member.path)
    if member.body is not None:
        return File(path=path, body=member.body, mode=member.mode, uid=member.uid, gid=member.gid)
    if member.symlink is not None:
        return Symlink(path=path, target=member.symlink, uid=member.uid, gid=member.gid)
    if member.hardlink is not None:
        return Hardlink(path=path, target=merged(member.hardlink))
    return Directory(path=path, mode=member.mode, uid=member.uid, gid=member.gid)


def _kept(members: tuple[Member, ...]) -> Iterator[Member]:
    """Leave out what the filter names; the first name that stays of a file with several gets the body."""
    files: dict[str, Member] = {}  # every name of a file -> the member with its body
    stand_in: dict[str, str] = {}  # path of a body that is left out -> the name that took it over
    for member in members:
        if member.body is not None:
            files[member.path] = member
        elif member.hardlink is not None:
            files[member.path] = files[member.hardlink]
        if is_excluded(member):
            continue
        if member.hardlink is None:
            yield member
            continue
        original = files[member.path]
        if not is_excluded(original):
            yield replace(member, hardlink=original.path)
        elif original.path in stand_in:
            yield replace(member, hardlink=stand_in[original.path])
        else:
            stand_in[original.path] = member.path
            yield replace(original, path=member.path)


def _overridden(entry: Entry, override: Override | None) -> Entry:
    owner = fixed_owner(override) if override is not None else None
    if override is None or owner is None or isinstance(entry, Symlink):
        return entry
    uid, gid = owner
    return replace(entry, mode=int(override.mode, 8), uid=uid, gid=gid)
