"""`envlock init`: a first envlock.toml, with what this machine tells."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from envlock.errors import FaultyInput
from envlock.spec.starter import render_starter
from envlock.wiring.world import World

__all__ = ["write_starter"]


def write_starter(world: World, folder: Path, name: str | None) -> Path:
    """Write a first envlock.toml into `folder`; one that is there already is never overwritten."""
    place = world.path(folder)
    file = place / "envlock.toml"
    requirements = "requirements.txt" if (place / "requirements.txt").is_file() else None
    fallback = re.sub(r"[^a-z0-9]+", "-", place.name.lower()).strip("-") or "env"
    text = render_starter(name=name or fallback, driver=_driver_version(), requirements_file=requirements)
    place.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise FaultyInput(
            f"{file} is there already", hint="edit it, or name another folder", code="file-exists"
        ) from None
    return file


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
