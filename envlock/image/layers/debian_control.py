"""The control data of a package: its paragraph, the files dpkg keeps of it, and its stanza in dpkg's status file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import md5

from envlock.image.layers.debian_archive import ControlFile, DebFile, Member, faulty, read_control_files
from envlock.image.layers.debian_paths import is_excluded, is_excluded_file

__all__ = ["Control", "info_files", "read_control", "status_stanza"]

# The order in which dpkg writes the fields it knows; others follow in the package's own order.
_FIELD_ORDER = (
    "Package",
    "Essential",
    "Protected",
    "Status",
    "Priority",
    "Section",
    "Installed-Size",
    "Origin",
    "Maintainer",
    "Bugs",
    "Architecture",
    "Multi-Arch",
    "Source",
    "Version",
    "Replaces",
    "Provides",
    "Depends",
    "Pre-Depends",
    "Recommends",
    "Suggests",
    "Breaks",
    "Conflicts",
    "Enhances",
    "Conffiles",
    "Description",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What a package says of itself.

    `fields` is the control paragraph, in its own order, values with their continuation lines; `files` are the other
    files of the control archive by name.
    """

    deb: DebFile
    fields: dict[str, str]
    files: dict[str, ControlFile]

    @property
    def qualified(self) -> str:
        """The name by which dpkg's database knows it: `libc6:amd64` where several architectures can be installed."""
        if self.fields.get("Multi-Arch") == "same":
            return f"{self.deb.name}:{self.deb.architecture}"
        return self.deb.name

    def text(self, name: str) -> str:
        """A control file as text; "" where the package has none."""
        file = self.files.get(name)
        return "" if file is None else file.body.decode("utf-8", "replace")

    @property
    def conffiles(self) -> tuple[str, ...]:
        """Absolute paths of the configuration files, in the package's order, without those marked for removal."""
        lines = (line.split() for line in self.text("conffiles").splitlines())
        return tuple(words[0] for words in lines if len(words) == 1)

    @property
    def listed(self) -> tuple[str, ...] | None:
        """Paths, as shipped and without the leading slash, of the regular files; None where md5sums is missing."""
        if "md5sums" not in self.files:
            return None
        sums = (line.partition("  ")[2] for line in self.text("md5sums").splitlines())
        return (*(path for path in sums if path), *(path.lstrip("/") for path in self.conffiles))


def read_control(deb: DebFile) -> Control:
    """Read the control archive; refuse a package that is not the one the lock names."""
    files = {file.name: file for file in read_control_files(deb)}
    paragraph = files.pop("control", None)
    if paragraph is None:
        raise faulty(deb, "control.tar", "has no control file")
    fields = dict(_fields(deb, paragraph.body))
    for field, locked in (("Package", deb.name), ("Version", deb.version), ("Architecture", deb.architecture)):
        if fields.get(field) != locked:
            raise faulty(deb, "control", f"{field} is {fields.get(field)!r}, and the lock says {locked!r}")
    return Control(deb=deb, fields=fields, files=files)


def _fields(deb: DebFile, body: bytes) -> Iterator[tuple[str, str]]:
    name, value = "", ""
    for line in body.decode("utf-8", "replace").rstrip("\n").split("\n"):
        if line[:1] in {" ", "\t"} and name:
            value += "\n" + line.rstrip()
            continue
        if name:
            yield name, value
        name, colon, value = line.partition(":")
        value = value.lstrip() if name == "Description" else value.strip()
        if not colon or not name:
            raise faulty(deb, "control", f"line {line!r} is no field")
    yield name, value


def info_files(control: Control, members: tuple[Member, ...]) -> Iterator[tuple[str, bytes, int]]:
    """Name (below var/lib/dpkg/info), body and mode of each file dpkg would keep of the package.

    What the image leaves out stands in neither the file list nor md5sums, so that `dpkg -V` finds nothing missing.
    """
    stem = control.qualified
    names = ["/.", *("/" + member.path for member in members if not is_excluded(member))]
    yield f"{stem}.list", "".join(f"{name}\n" for name in names).encode(), 0o644
    if "md5sums" not in control.files:
        yield f"{stem}.md5sums", _kept_sums(_md5sums(control, members)), 0o644
    for name, file in control.files.items():
        yield f"{stem}.{name}", _kept_sums(file.body) if name == "md5sums" else file.body, file.mode


def _kept_sums(sums: bytes) -> bytes:
    lines = sums.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    kept = (line for line in lines if not is_excluded_file("/" + line.rstrip("\n").partition("  ")[2]))
    return "".join(kept).encode("utf-8", "surrogateescape")


def _md5sums(control: Control, members: tuple[Member, ...]) -> bytes:
    """As dpkg makes it on installing a package that brings none: every regular file but the configuration files."""
    conffiles = set(control.conffiles)
    lines = [
        f"{md5(member.body, usedforsecurity=False).hexdigest()}  {member.path}\n"
        for member in members
        if member.body is not None and "/" + member.path not in conffiles
    ]
    return "".join(lines).encode()


def status_stanza(control: Control, conffile_sums: Mapping[str, str]) -> str:
    """The package's stanza in var/lib/dpkg/status, as installed; `conffile_sums` are md5 sums by absolute path."""
    fields = control.fields | {"Status": "install ok installed"}
    lines = list(_conffile_lines(control, conffile_sums))
    if lines:
        fields["Conffiles"] = "".join(f"\n {line}" for line in lines)
    known = [name for name in _FIELD_ORDER if name in fields]
    others = [name for name in fields if name not in _FIELD_ORDER]
    return "".join(_line(name, fields[name]) for name in (*known, *others))


def _conffile_lines(control: Control, sums: Mapping[str, str]) -> Iterator[str]:
    for line in control.text("conffiles").splitlines():
        words = line.split()
        if len(words) == 1 and words[0] in sums:
            yield f"{words[0]} {sums[words[0]]}"
        elif words[:1] == ["remove-on-upgrade"] and len(words) > 1:
            yield f"{words[1]} newconffile remove-on-upgrade"


def _line(name: str, value: str) -> str:
    return f"{name}:{value}\n" if value.startswith("\n") else f"{name}: {value}\n"
