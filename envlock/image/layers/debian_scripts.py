"""What maintainer scripts would have done, as data: from a table, and from calls in them that are plain text."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from envlock.image.layers.debian_control import Control

__all__ = [
    "Call",
    "Directory",
    "Override",
    "Text",
    "Work",
    "calls",
    "fixed_ids",
    "fixed_owner",
    "overrides",
    "work_of",
]

_SCRIPTS = ("preinst", "postinst")
_ENDS = re.compile(r"[;&|()<>]+")  # shell operators, as shlex splits them off
_PLAIN = re.compile(r"[^$`*?]*")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a program in a maintainer script; `plain` tells that no word is computed when it runs."""

    program: str
    words: tuple[str, ...]
    plain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory that a script makes."""

    path: str
    mode: int = 0o755
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A small file that a script writes."""

    path: str
    text: str = ""
    mode: int = 0o644
    gid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Owner and mode that a script gives to a file of its package; `recorded` with dpkg-statoverride.

    `path` is absolute, `mode` octal text as dpkg-statoverride takes it.
    """

    path: str
    user: str
    group: str
    mode: str
    recorded: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """All that the table says of one package.

    `links` are (path, target), `copies` (target, source), `diversions` (path, diverted to); `alternatives` are the
    words of `update-alternatives --install`; `reviewed` are programs whose other calls do nothing on a new system.
    """

    directories: tuple[Directory, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    texts: tuple[Text, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    registered: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    diversions: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()
    reviewed: frozenset[str] = frozenset()


def calls(control: Control, program: str) -> Iterator[Call]:
    """The calls of a program in the package's preinst and postinst, in the order of the text.

    The scripts are only read: which branch a call stands in is not looked at.
    """
    for script in _SCRIPTS:
        text = control.text(script).replace("\\\n", " ")
        for line in text.splitlines():
            if program in line and not line.lstrip().startswith("#"):
                yield from _calls_of_line(line, program)


def _calls_of_line(line: str, program: str) -> Iterator[Call]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote: the command goes on in ways that need a shell
        yield Call(program, tuple(line.split()), plain=False)
        return
    for index, token in enumerate(tokens):
        if token != program:
            continue
        words: list[str] = []
        for word in tokens[index + 1 :]:
            if _ENDS.fullmatch(word):
                break
            words.append(word)
        yield Call(program, tuple(words), plain=all(_PLAIN.fullmatch(word) for word in words))


def fixed_ids() -> dict[str, int]:
    """Numbers of system accounts, users and groups alike, that do not depend on what else is in the base."""
    return dict(_table()["ids"])


def fixed_owner(override: Override) -> tuple[int, int] | None:
    """The numbers of an override's user and group; None where one of them is not fixed."""
    table = _table()
    uid = table["static"]["users"].get(override.user, table["ids"].get(override.user))
    gid = table["static"]["groups"].get(override.group, table["ids"].get(override.group))
    return None if uid is None or gid is None else (uid, gid)


def overrides(control: Control) -> tuple[Override, ...]:
    """Owners and modes that a package's scripts give to its files: calls in plain words, then the table's."""
    found = []
    for call in calls(control, "dpkg-statoverride"):
        if call.plain and "--add" in call.words:
            at = call.words.index("--add")
            words = [word for word in call.words[at + 1 :] if not word.startswith("--")]
            if len(words) == 4:  # noqa: PLR2004 (user, group, mode, path)
                user, group, mode, path = words
                found.append(Override(path=path, user=user, group=group, mode=mode))
    return (*found, *work_of(control).overrides)


def work_of(control: Control) -> Work:
    """What the table says of a package, with its version's variable parts filled in."""
    raw, digits = _entry(control.deb.name)
    if raw is None or not _applies(raw, control):
        return Work()

    def filled(text: str) -> str:
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(control.deb.architecture, "")
        return text.replace("{1}", digits).replace("{multiarch}", f"{machine}-linux-gnu")

    return Work(
        directories=tuple(Directory(**{**item, "path": filled(item["path"])}) for item in raw.get("directories", ())),
        links=tuple(raw.get("links", {}).items()),
        texts=tuple(Text(**item) for item in raw.get("texts", ())),
        copies=tuple(raw.get("copies", {}).items()),
        registered=tuple(raw.get("registered", ())),
        overrides=tuple(Override(**item) for item in raw.get("overrides", ())),
        diversions=tuple(
            (filled(path), filled(target))
            for group in raw.get("diversions", ())
            if _applies(group, control)
            for path, target in group["pairs"]
        ),
        alternatives=tuple(tuple(words.split()) for words in raw.get("alternatives", ())),
        reviewed=frozenset(raw.get("reviewed", ())),
    )


def _applies(raw: dict[str, Any], control: Control) -> bool:
    return "when" not in raw or any(raw["when"] in control.text(script) for script in _SCRIPTS)


def _entry(name: str) -> tuple[dict[str, Any] | None, str]:
    packages: dict[str, dict[str, Any]] = _table()["packages"]
    if name in packages:
        return packages[name], ""
    for key, raw in packages.items():
        found = re.fullmatch(re.escape(key).replace(r"\*", r"([\d.]+)"), name) if "*" in key else None
        if found:
            return raw, found[1]
    return None, ""


@cache
def _table() -> dict[str, Any]:
    text = (resources.files("envlock.image.layers") / "debian_scripts.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
