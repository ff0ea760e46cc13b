"""dpkg's database of all packages: status, triggers, diversions, overrides and architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envlock.image.layers.debian_control import Control, status_stanza
from envlock.image.layers.debian_scripts import overrides, work_of
from envlock.image.layers.entries import Directory, Entry, File

__all__ = ["database_entries"]

_ROOT = "var/lib/dpkg"


def database_entries(controls: Sequence[Control], sums: Mapping[str, Mapping[str, str]]) -> Iterator[Entry]:
    """Everything below var/lib/dpkg that is not one package's; all packages stand as `install ok installed`.

    `sums` are the md5 sums of configuration files, by package (as dpkg names it) and absolute path.
    """
    stanzas = [status_stanza(control, sums.get(control.qualified, {})) for control in controls]
    yield _file("status", "\n".join(stanzas) + "\n" if stanzas else "")
    architectures = sorted({control.deb.architecture for control in controls} - {"all"})
    for architecture in architectures[:1]:
        yield _file("arch", f"{architecture}\n")
        yield _file("arch-native", f"{architecture}\n")
    yield _file("info/format", "1\n")
    yield _file("diversions", "".join(_diversions(controls)))
    yield _file("statoverride", "".join(_overrides(controls)))
    yield from _triggers(controls)
    yield Directory(path=f"{_ROOT}/updates")


def _file(name: str, text: str) -> File:
    return File(path=f"{_ROOT}/{name}", body=text.encode())


def _diversions(controls: Sequence[Control]) -> Iterator[str]:
    for control in controls:
        for path, target in work_of(control).diversions:
            yield f"{path}\n{target}\n{control.deb.name}\n"


def _overrides(controls: Sequence[Control]) -> Iterator[str]:
    for control in controls:
        for override in overrides(control):
            if override.recorded:
                yield f"{override.user} {override.group} {override.mode} {override.path}\n"


def _triggers(controls: Sequence[Control]) -> Iterator[Entry]:
    """Which packages want to be told of what: one file for all paths, one for each name."""
    paths: list[str] = []
    names: dict[str, list[str]] = {}
    for control in controls:
        for line in control.text("triggers").splitlines():
            words = line.partition("#")[0].split()
            if len(words) != 2 or not words[0].startswith("interest"):  # noqa: PLR2004 (directive and trigger)
                continue
            kind, trigger = words
            listener = control.qualified + ("/noawait" if kind == "interest-noawait" else "")
            if trigger.startswith("/"):
                paths.append(f"{trigger} {listener}\n")
            else:
                names.setdefault(trigger, []).append(f"{listener}\n")
    yield _file("triggers/File", "".join(paths))
    yield _file("triggers/Unincorp", "")
    for trigger, listeners in sorted(names.items()):
        yield _file(f"triggers/{trigger}", "".join(listeners))
