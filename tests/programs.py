"""Programs that tests need from Debian: used where they are, installed where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess

from filelock import FileLock

__all__ = ["ProgramMissingError", "require"]


class ProgramMissingError(Exception):
    """A program is not here and cannot be installed; says why."""


def require(program: str, *, package: str | None = None) -> str:
    """The path of a program; as root it is installed first where it is missing (`package` is its Debian package)."""
    found = shutil.which(program)
    if found:
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ProgramMissingError(
            f"{program} is not installed, and only root can install {package or program} by apt-get"
        )
    with FileLock("/tmp/envlock-tests-apt.lock"):  # noqa: S108 (several test workers share apt)
        _install(package or program)
    found = shutil.which(program)
    if not found:
        raise ProgramMissingError(f"apt-get installed {package or program}, and still there is no {program}")
    return found


def _install(package: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", package]):
        command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProgramMissingError(f"apt-get {words[0]} failed: {done.stderr.strip()[-500:]}")
