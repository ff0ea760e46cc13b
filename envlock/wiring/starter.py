"""`envlock init`: a first envlock.toml, with what this machine tells."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from envlock.errors import FaultyInput, MachineLacks
from envlock.spec.faults import Wrong
from envlock.spec.reader import FILE_NAME
from envlock.spec.sections import usable_name
from envlock.spec.starter import render_starter
from envlock.wiring.world import World

__all__ = ["write_starter"]

_NAME_LENGTH = 100  # as much as the specification allows


def write_starter(world: World, folder: Path, name: str | None) -> Path:
    """Write a first envlock.toml into `folder`; one that is there already is never overwritten.

    Raise FaultyInput ("bad-name", "file-exists") or MachineLacks ("cannot-write").
    """
    place = world.path(folder)
    file = place / FILE_NAME
    requirements = "requirements.txt" if (place / "requirements.txt").is_file() else None
    chosen = _fallback_name(place) if name is None else _checked(name)
    text = render_starter(name=chosen, driver=_driver_version(), requirements_file=requirements)
    _write_new(file, text)
    return file


def _checked(name: str) -> str:
    try:
        return usable_name(name)
    except Wrong as wrong:
        raise FaultyInput(f"--name: {wrong}", hint="Give another --name.", code="bad-name") from wrong


def _fallback_name(place: Path) -> str:
    return re.sub(r"[^a-z0-9]+", "-", place.name.lower())[:_NAME_LENGTH].strip("-") or "env"


def _write_new(file: Path, text: str) -> None:
    """Write a file that must not be there yet, whole or not at all."""
    taken = FaultyInput(f"{file} is there already", hint="Edit it, or name another folder.", code="file-exists")
    if os.path.lexists(file):
        raise taken
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            try:
                opened.write(text)
                opened.flush()
            except BaseException:
                file.unlink()
                raise
    except OSError as exc:
        if file.parent.is_dir() and isinstance(exc, FileExistsError):  # another was quicker
            raise taken from None
        raise MachineLacks(
            f"{file} cannot be written: {exc.strerror}",
            hint="Make room or give rights there, or name another folder.",
            code="cannot-write",
        ) from exc


def _driver_version() -> str | None:
    """The NVIDIA driver of this machine, from the kernel module or nvidia-smi; None where there is none."""
    module = Path("/proc/driver/nvidia/version")
    if module.is_file():
        found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", module.read_text(errors="replace"))
        if found:
            return found[1]
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = told.split()
    return lines[0] if lines and re.fullmatch(r"\d+(\.\d+)+", lines[0]) else None
