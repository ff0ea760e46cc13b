"""The conda side, wired: solver, channels and the file beside the lock. rattler and conda-lock load when needed."""

from __future__ import annotations

from pathlib import Path

from envlock.fetch.conda_config import read_conda_settings
from envlock.lock.conda.sides import CondaSide
from envlock.lock.locking import Upgrade
from envlock.lock.model import Lock
from envlock.spec.model import EnvSpec
from envlock.wiring.lock_files import LockFiles, read_text
from envlock.wiring.services import Services

__all__ = ["conda_texts", "solve_conda"]


def conda_texts(files: LockFiles, conda: CondaSide | None) -> dict[Path, str]:
    """The conda-lock.yml to write beside the lock, if there is a conda side."""
    return {} if conda is None else {files.folder / conda.locked.file: conda.text}


def solve_conda(
    spec: EnvSpec, glibc: str, previous: Lock | None, files: LockFiles, upgrade: Upgrade, *, services: Services
) -> CondaSide:
    """Lock the conda side; raises what `lock_conda` raises."""
    # Two seconds of imports, which only a specification with a conda side is to pay.
    from envlock.lock.conda.locking import CondaKept, CondaWorld, lock_conda  # noqa: PLC0415 (as said above)
    from envlock.lock.conda.outer import CondaLock  # noqa: PLC0415 (as said above)
    from envlock.lock.conda.solve import CondaSolver  # noqa: PLC0415 (as said above)

    world = services.world
    text = None if previous is None or previous.conda is None else read_text(files.folder / previous.conda.file)
    kept = CondaKept(lock=previous, text=text, let_go=None if upgrade.everything else upgrade.packages)
    conda_world = CondaWorld(
        solver=CondaSolver(world.cache / "conda-repodata", offline=services.offline),
        settings=read_conda_settings(world.environ, world.home),
        outer=CondaLock(world.environ).lock,
    )
    return lock_conda(spec, glibc, kept, conda_world)
