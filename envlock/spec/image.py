"""`[image]` and `[[image.copy]]`."""

from __future__ import annotations

import re
import stat
from pathlib import Path, PurePosixPath

from envlock.spec.disk import is_file, is_folder, place_on_disk
from envlock.spec.faults import Wrong
from envlock.spec.model import CopySpec, ImageSpec
from envlock.spec.places import copy_place, prefix_place
from envlock.spec.secrets import refuse_secret
from envlock.spec.table import Node, Parser, Table
from envlock.spec.values import (
    absolute_path,
    boolean,
    choice,
    command,
    list_of,
    mapping_of,
    matching,
    shown,
    text,
    variable_name,
)

__all__ = ["read_image"]

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}|\d{1,9}(:\d{1,9})?", re.ASCII)
_ROOT = frozenset({"root", "0", "0:0"})
# Folders of this machine that hold far more than a project: keys, caches, other people's files.
_WHOLE = frozenset(
    ("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root", "/run", "/sys", "/usr", "/var")
)
_LABEL_NAME = matching(
    r"(?!org\.envlock\.)[A-Za-z0-9][A-Za-z0-9._/-]*",
    "a label's name (org.envlock. is kept for envlock's own)",
    'write one such as "org.example.team"',
)


def read_image(table: Table, folder: Path, home: Path | None) -> ImageSpec:
    """Read `[image]`; paths of copies are relative to `folder`."""
    default = ImageSpec()
    return ImageSpec(
        prefix=table.take("prefix", prefix_place, default.prefix),
        user=table.take("user", _user, None),
        env=table.take("env", mapping_of(variable_name, _variable), {}),
        entrypoint=table.take("entrypoint", command, ()),
        cmd=table.take("cmd", command, ()),
        workdir=table.take("workdir", absolute_path, None),
        labels=table.take("labels", mapping_of(_LABEL_NAME, text), {}),
        archive_compression=table.take("archive-compression", choice("gzip", "none"), default.archive_compression),
        bytecode=table.take("bytecode", boolean, default.bytecode),
        copy=tuple(_read_copy(copy, folder, home) for copy in table.tables("copy")),
    )


def _user(node: Node) -> str | None:
    user = text(node)
    if not _USER.fullmatch(user):
        raise Wrong(f"{shown(user)} is not a user", 'write a name, "1000" or "1000:1000"')
    return None if user in _ROOT else user


def _variable(node: Node) -> str:
    """An environment variable's value; empty is allowed, secrets are not."""
    if node.value == "":
        return ""
    value = text(node)
    if "\n" in value:
        raise Wrong("a variable of several lines", "write it on one line")
    refuse_secret(str(node.key[-1]), value)
    return value


def _read_copy(table: Table, folder: Path, home: Path | None) -> CopySpec:
    source = table.require("source", _source(folder, home), folder, 'source = "src"')
    tracked = table.take("tracked", boolean, default=False)
    faults = table.faults
    if tracked and faults.sound((*table.key, "source"), (*table.key, "tracked")) and not _in_git(source):
        faults.add((*table.key, "tracked"), f"{source} is in no git work tree; write false, or git init there")
    return CopySpec(
        source=source,
        to=table.require("to", _destination(source), PurePosixPath("/workspace"), 'to = "/workspace"'),
        ignore=table.take("ignore", list_of(_pattern), ()),
        tracked=tracked,
    )


def _source(folder: Path, home: Path | None) -> Parser[Path]:
    def parse(node: Node) -> Path:
        written = text(node)
        if "://" in written:
            raise Wrong(f"{shown(written)} is a URL", "write the path of a file or folder")
        path = place_on_disk(written, folder)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise Wrong(f"{path}: {error.strerror}", "write a path relative to the folder of this file") from None
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise Wrong(f"{path} is neither file nor folder", "write the path of one")
        real = path.resolve()
        if stat.S_ISDIR(mode) and (_is_whole(real) or (home and home.resolve().is_relative_to(real))):
            raise Wrong(f"{path} would take a whole home or system with it", "write the project's own folder")
        return path

    return parse


def _is_whole(path: Path) -> bool:
    return str(path) in _WHOLE or path.parent == Path("/home")


def _destination(source: Path) -> Parser[PurePosixPath]:
    """A folder's contents go to `to`; a file is `to`, or stands in it where `to` ends with a slash."""

    def parse(node: Node) -> PurePosixPath:
        into = isinstance(node.value, str) and node.value.endswith("/")
        of_file = is_file(source)
        path = copy_place(of_file=of_file and not into)(node)
        return path / source.name if into and of_file else path

    return parse


def _pattern(node: Node) -> str:
    pattern = text(node)
    if pattern.strip("/!") == "" or "\n" in pattern:
        raise Wrong(f"{shown(pattern)} is not an ignore pattern", 'write one such as "*.log" or "outputs/"')
    return pattern


def _in_git(path: Path) -> bool:
    return any(is_folder(folder / ".git") or is_file(folder / ".git") for folder in (path, *path.parents))
