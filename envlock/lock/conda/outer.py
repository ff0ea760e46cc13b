"""conda-lock itself, run with the conda, mamba or micromamba of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from envlock.errors import MachineLacks, Unsatisfiable
from envlock.fetch.conda_config import mask_secrets
from envlock.platforms import Platform
from envlock.spec.model import EnvSpec

__all__ = ["CondaLock"]

_PROGRAMS = ("mamba", "micromamba", "conda")
_PATIENCE = 3600  # seconds


class CondaLock:
    """Runs conda-lock in an environment of variables."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def lock(self, spec: EnvSpec, virtual: Mapping[Platform, Mapping[str, tuple[str, str]]]) -> str:
        """The text of the conda-lock.yml for a specification.

        Raise MachineLacks "no-conda" without one of the programs, Unsatisfiable "conda-no-solution" in its words.
        """
        program = next(filter(None, (shutil.which(name, path=self._environ.get("PATH")) for name in _PROGRAMS)), None)
        if program is None:
            raise MachineLacks(
                f"none of {', '.join(_PROGRAMS)} is installed, and conda-lock runs one of them",
                hint='Install one, or write solver = "py-rattler" in [conda], which needs none.',
                code="no-conda",
            )
        with tempfile.TemporaryDirectory(prefix="envlock-conda-") as scratch:
            return self._run(program, spec, virtual, Path(scratch))

    def _run(
        self, program: str, spec: EnvSpec, virtual: Mapping[Platform, Mapping[str, tuple[str, str]]], folder: Path
    ) -> str:
        conda = spec.conda
        assert conda is not None  # noqa: S101 (who calls saw to it)
        asked, packages, out = folder / "environment.yml", folder / "virtual.yml", folder / "conda-lock.yml"
        asked.write_text(
            yaml.safe_dump(
                {"channels": list(conda.channels), "dependencies": [item.text for item in conda.dependencies]}
            )
        )
        subdirs = {
            platform.conda: {"packages": {name: f"{version} {build}" for name, (version, build) in held.items()}}
            for platform, held in virtual.items()
        }
        packages.write_text(yaml.safe_dump({"subdirs": subdirs}))
        command = [sys.executable, "-m", "conda_lock", "lock", "--conda", program, "--file", str(asked)]
        command += ["--lockfile", str(out), "--virtual-package-spec", str(packages)]
        command += ["--micromamba" if Path(program).name == "micromamba" else "--no-micromamba"]
        for platform in virtual:
            command += ["--platform", platform.conda]
        try:
            done = subprocess.run(
                command,
                env=dict(self._environ),
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
                errors="replace",
            )
        except subprocess.TimeoutExpired as exc:
            raise _failed(f"it did not end within {_PATIENCE} seconds") from exc
        if done.returncode != 0 or not out.is_file():
            raise _failed(mask_secrets((done.stderr or done.stdout).strip()))
        return out.read_text(encoding="utf-8")


def _failed(words: str) -> Unsatisfiable:
    return Unsatisfiable(
        f"conda-lock found no solution:\n{words}",
        hint='Loosen the dependencies under [conda], or try solver = "py-rattler".',
        code="conda-no-solution",
    )
