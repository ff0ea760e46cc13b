"""The base's own Python on this machine: its packages unpacked as any user, and run through their own loader."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from envlock.errors import FaultyInput
from envlock.image.layers.debian_archive import DebFile, faulty, read_members
from envlock.image.layers.debian_control import Control, read_control
from envlock.image.layers.debian_entries import placed
from envlock.image.layers.entries import Directory, Entry, File, Hardlink, Symlink
from envlock.platforms import Platform

__all__ = ["interpreter", "interpreter_debs", "unpack_root"]

_MINIMAL = re.compile(r"python(3\.\d+)-minimal")


def interpreter_debs(debs: Sequence[DebFile]) -> tuple[DebFile, ...]:
    """The few packages of a base that its Python needs to start and to import the whole standard library.

    Those are the packages of the interpreter and the libraries that they depend on, sorted by name. Raise
    FaultyInput (code "base-without-python") where there is no interpreter.
    """
    controls = {control.deb.name: control for control in map(read_control, debs)}
    version = next((found[1] for name in sorted(controls) if (found := _MINIMAL.fullmatch(name))), None)
    if version is None:
        raise FaultyInput(
            "the base has no python3.X-minimal package",
            hint="Add python3 to [base] packages and lock again.",
            code="base-without-python",
        )
    chosen: dict[str, DebFile] = {}
    waiting = [f"python{version}-minimal", f"libpython{version}-minimal", f"libpython{version}-stdlib"]
    while waiting:
        name = waiting.pop()
        control = controls.get(name)
        if control is None or name in chosen:
            continue
        is_library = control.fields.get("Multi-Arch") == "same"
        if is_library or name == f"python{version}-minimal":
            chosen[name] = control.deb
            waiting += _needs(control)
    return tuple(chosen[name] for name in sorted(chosen))


def _needs(control: Control) -> Iterator[str]:
    """Every package named in Depends and Pre-Depends, alternatives and all."""
    for field in ("Pre-Depends", "Depends"):
        for choice in re.split(r"[,|]", control.fields.get(field, "")):
            name = re.match(r"\s*([a-z0-9][a-z0-9+.-]*)", choice)
            if name:
                yield name[1]


def unpack_root(debs: Sequence[DebFile], root: Path) -> None:
    """Unpack packages below `root`, which must not exist; it appears whole, or not at all.

    Files are the calling user's, may be written by them and have no setuid bits; links to absolute paths are turned
    to lead inside the root. Nothing is written outside of it whatever the packages hold.
    """
    root.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{root.name}.", dir=root.parent))
    try:
        staging.chmod(0o755)
        for deb in debs:
            read_control(deb)  # refuses a package that is not the locked one
            for entry in placed(read_members(deb)):
                _write(deb, staging, entry)
        staging.rename(root)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _write(deb: DebFile, root: Path, entry: Entry) -> None:
    path = root / entry.path
    parent = path.parent
    parent.mkdir(parents=True, exist_ok=True)
    if not parent.resolve().is_relative_to(root.resolve()):
        raise faulty(deb, entry.path, "lies below a link that leaves the root")
    match entry:
        case Directory():
            path.mkdir(exist_ok=True)
        case File(body=bytes() as body):
            path.unlink(missing_ok=True)
            path.write_bytes(body)
            path.chmod(0o755 if entry.mode & 0o111 else 0o644)
        case Symlink():
            path.unlink(missing_ok=True)
            path.symlink_to(_inside(entry))
        case Hardlink():
            path.unlink(missing_ok=True)
            path.hardlink_to(root / entry.target)


def _inside(link: Symlink) -> str:
    """The link's target, relative where it was absolute, so that it means the same below another root."""
    if not link.target.startswith("/"):
        return link.target
    return os.path.relpath(link.target, PurePosixPath("/", link.path).parent)


def interpreter(root: Path, platform: Platform, python: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Command and environment that run the Python unpacked below `root`; `python` is its X.Y.

    It works on any Linux of the same machine type, whatever its C library: the loader is the root's own and looks
    nowhere else. Options that ignore the environment (-I, -E) must not be used, since PYTHONHOME says where the
    standard library is. Raise FaultyInput (code "base-without-python") where the root has no such interpreter.
    """
    root = root.absolute()
    libraries = root / "usr/lib" / platform.multiarch
    loaders = (libraries / PurePosixPath(platform.loader).name, root / "usr" / platform.loader)
    program = root / f"usr/bin/python{python}"
    loader = next((path for path in loaders if path.exists()), None)
    if loader is None or not program.exists():
        raise FaultyInput(
            f"{root} has no Python {python} for {platform}",
            hint="Add python3 to [base] packages, for a suite that has this version, and lock again.",
            code="base-without-python",
        )
    command = (str(loader), "--inhibit-cache", "--library-path", str(libraries), str(program))
    return command, dict(_environment(root))


def _environment(root: Path) -> Mapping[str, str]:
    return {
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHOME": str(root / "usr"),
        "PYTHONNOUSERSITE": "1",
    }
