"""Alternatives: which of several programs a common name leads to, as update-alternatives would have set it up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from envlock.image.layers.debian_control import Control
from envlock.image.layers.debian_paths import is_excluded_file, merged
from envlock.image.layers.debian_scripts import calls, work_of
from envlock.image.layers.entries import Entry, File, Symlink

__all__ = ["Choice", "alternative_entries", "choices", "unread_alternatives"]

_PROGRAM = "update-alternatives"
_ADMIN = "var/lib/dpkg/alternatives"
_LINKS = "etc/alternatives"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`update-alternatives --install link name path priority`, paths absolute; `slaves` are (link, name, path)."""

    link: str
    name: str
    path: str
    priority: int
    slaves: tuple[tuple[str, str, str], ...] = ()


@dataclass(slots=True)
class _Group:
    link: str
    choices: dict[str, Choice] = field(default_factory=dict)


def choices(control: Control) -> Iterator[Choice]:
    """The alternatives that a package's scripts install, in their order."""
    for call in calls(control, _PROGRAM):
        choice = _choice(call.words) if call.plain else None
        if choice is not None:
            yield choice
    for words in work_of(control).alternatives:
        link, name, path, priority = words
        yield Choice(link=link, name=name, path=path, priority=int(priority))


def unread_alternatives(control: Control) -> bool:
    """Whether a script installs alternatives whose names are computed when it runs."""
    return any(not call.plain and "--install" in call.words for call in calls(control, _PROGRAM))


def _choice(words: Sequence[str]) -> Choice | None:
    if "--install" not in words:
        return None
    at = words.index("--install")
    link, name, path, priority, *rest = (*words[at + 1 :], "", "", "", "")
    if not priority.lstrip("-").isdigit():
        return None
    slaves: list[tuple[str, str, str]] = []
    while rest[:1] == ["--slave"]:
        slaves.append((rest[1], rest[2], rest[3]))
        rest = rest[4:]
    return Choice(link=link, name=name, path=path, priority=int(priority), slaves=tuple(slaves))


def alternative_entries(installed: Iterable[Choice]) -> Iterator[Entry]:
    """The links and dpkg's record of them. Where priorities are equal the path that sorts first is taken."""
    groups: dict[str, _Group] = {}
    for choice in installed:
        if is_excluded_file(choice.path):
            continue  # update-alternatives refuses a path that is not there
        group = groups.setdefault(choice.name, _Group(choice.link))
        group.choices[choice.path] = choice
    for name, group in sorted(groups.items()):
        best = max((group.choices[path] for path in sorted(group.choices)), key=lambda choice: choice.priority)
        yield File(path=f"{_ADMIN}/{name}", body=_record(group).encode())
        yield from _links(group.link, name, best.path)
        for link, slave, path in best.slaves:
            if not is_excluded_file(path):
                yield from _links(link, slave, path)


def _links(link: str, name: str, path: str) -> Iterator[Entry]:
    yield Symlink(path=f"{_LINKS}/{name}", target=path)
    yield Symlink(path=merged(link), target=f"/{_LINKS}/{name}")


def _record(group: _Group) -> str:
    """The file update-alternatives keeps: mode, link, slaves, then each choice with its slaves' paths."""
    slaves = sorted({(name, link) for choice in group.choices.values() for link, name, _ in choice.slaves})
    lines = ["auto", group.link]
    for name, link in slaves:
        lines += [name, link]
    lines.append("")
    for path in sorted(group.choices):
        choice = group.choices[path]
        paths = {name: slave for _, name, slave in choice.slaves}
        lines += [path, str(choice.priority), *(paths.get(name, "") for name, _ in slaves)]
    lines.append("")
    return "\n".join(lines) + "\n"
