"""/etc/pam.d/common-*, as pam-auth-update makes them from the profiles that packages bring."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envlock.image.layers.entries import Directory, Entry, File

__all__ = ["pam_entries"]

_PROFILES = "usr/share/pam-configs/"
_TEMPLATES = "usr/share/pam/common-"
_PRIMARY = '# here are the per-package modules (the "Primary" block)'
_FALLBACK = "# here's the fallback if no module succeeds"
_ADDITIONAL = '# and here are more per-package modules (the "Additional" block)'
_END = "# end of pam-auth-update config"
_STOCK = "[default=1]\t\t\tpam_permit.so"

# type of a common-* file and the name of its fields in a profile
_TYPES = {
    "account": "Account",
    "auth": "Auth",
    "password": "Password",
    "session": "Session",
    "session-noninteractive": "Session",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Profile:
    name: str
    fields: dict[str, str]

    def priority(self) -> int:
        return int(self.fields.get("Priority", "0") or 0)

    def applies(self, kind: str, block: str) -> bool:
        interactive_only = self.fields.get("Session-Interactive-Only") == "yes"
        if kind == "session-noninteractive" and interactive_only:
            return False
        return self.fields.get(f"{_TYPES[kind]}-Type") == block

    def lines(self, kind: str, *, first: bool) -> list[str]:
        field = _TYPES[kind]
        initial = self.fields.get(f"{field}-Initial", "") if first else ""
        return [line for line in (initial or self.fields.get(field, "")).split("\n") if line]


def pam_entries(files: Mapping[str, bytes]) -> Iterator[Entry]:
    """The five common-* files and pam-auth-update's record of them, from templates and profiles by path.

    Yields nothing where the templates are missing (no libpam-runtime in the base).
    """
    profiles = [
        _profile(path.removeprefix(_PROFILES), body.decode())
        for path, body in sorted(files.items())
        if path.startswith(_PROFILES)
    ]
    enabled = [profile for profile in profiles if profile.fields.get("Default") == "yes"]
    enabled.sort(key=lambda profile: (-profile.priority(), profile.name))
    templates = {kind: files[_TEMPLATES + kind].decode() for kind in _TYPES if _TEMPLATES + kind in files}
    if not templates:
        return
    for kind, template in templates.items():
        yield File(path=f"etc/pam.d/common-{kind}", body=_filled(template, kind, enabled).encode())
        yield File(path=f"var/lib/pam/{kind}", body=_record(kind, enabled).encode())
    yield Directory(path="var/lib/pam")
    seen = sorted(profiles, key=lambda profile: (-profile.priority(), profile.name))
    yield File(path="var/lib/pam/seen", body="".join(f"{profile.name}\n" for profile in seen).encode())


def _profile(name: str, text: str) -> _Profile:
    fields: dict[str, str] = {}
    field = ""
    for line in text.splitlines():
        found = re.match(r"(\S+):\s*(.*?)\s*$", line)
        if found and not line[:1].isspace():
            field = found[1].removesuffix("-Final")
            fields[field] = found[2]
        elif field and line.strip():
            fields[field] = f"{fields[field]}\n{line.strip()}".lstrip("\n")
    return _Profile(name=name, fields=fields)


def _filled(template: str, kind: str, enabled: list[_Profile]) -> str:
    """The template with what stands between its markers replaced."""
    lines: list[str] = []
    copying = True
    for line in template.splitlines():
        if line.startswith((_FALLBACK, _END)):
            copying = True
        if copying:
            lines.append(line)
        if line.startswith(_PRIMARY):
            lines += _block(kind, "Primary", enabled) or [f"{_word(kind)}\t{_STOCK}"]
            copying = False
        elif line.startswith(_ADDITIONAL):
            lines += _block(kind, "Additional", enabled)
            copying = False
    return "".join(f"{line}\n" for line in lines)


def _block(kind: str, block: str, enabled: list[_Profile]) -> list[str]:
    lines = [line for _, chosen in _chosen(kind, block, enabled) for line in chosen]
    # "end" in a line's control jumps over the lines that follow it in the block
    jump = len(lines) - (block == "Additional")
    return [f"{_word(kind)}\t{_resolved(line, jump - place)}" for place, line in enumerate(lines)]


def _resolved(line: str, jump: int) -> str:
    found = re.match(r"((?:\[[^]]+\]|\w+)\s+\S+)\s*(.*)", line)
    if not found:
        return line
    return f"{found[1].replace('end', str(jump))} {' '.join(found[2].split())}"


def _chosen(kind: str, block: str, enabled: list[_Profile]) -> Iterator[tuple[str, list[str]]]:
    profiles = [profile for profile in enabled if profile.applies(kind, block)]
    for place, profile in enumerate(profiles):
        yield profile.name, profile.lines(kind, first=place == 0)


def _record(kind: str, enabled: list[_Profile]) -> str:
    primary = list(_chosen(kind, "Primary", enabled)) or [("null", [_STOCK])]
    chosen = [*primary, *_chosen(kind, "Additional", enabled)]
    return "".join(f"Module: {name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in chosen)


def _word(kind: str) -> str:
    return kind.removesuffix("-noninteractive")
