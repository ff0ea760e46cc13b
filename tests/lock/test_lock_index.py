"""Locking against the real index and the real mirror, as the user's configuration has them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from platform import machine

import pytest

from envlock.lock.model import Lock
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS
from envlock.wiring.locking import LockRequest, check_lock, lock
from envlock.wiring.world import World

pytestmark = pytest.mark.index

X86 = Platform.AMD64


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """This machine's, with a cache of its own."""
    cache = tmp_path_factory.mktemp("cache")
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return World(environ=environ, cwd=cache, home=Path.home(), now=datetime.now(UTC))


def write_spec(folder: Path, text: str) -> LockRequest:
    (folder / "lockfiles").mkdir(exist_ok=True)
    (folder / "envlock.toml").write_text(text)
    return LockRequest(folder=folder)


def locked(world: World, request: LockRequest) -> Lock:
    """Lock, see that nothing is stale then, and that locking again writes nothing."""
    made = lock(world, request, NO_PROGRESS)
    check_lock(world, request)
    again = lock(world, request, NO_PROGRESS)
    assert again.written == ()
    return made.lock


TORCH = """
[env]
name = "torch"
python = "3.13"
[python]
requirements = ["torch"]
[target]
driver = ">={driver}"
"""


@pytest.mark.parametrize(("driver", "major"), [("580", "13"), ("535", "12")])
def test_the_driver_decides_on_cuda(world: World, tmp_path: Path, driver: str, major: str) -> None:
    made = locked(world, write_spec(tmp_path, TORCH.format(driver=driver)))
    contract = made.contract_for(X86)
    assert (contract.cuda or "").split(".")[0] == major
    assert bool(made.concessions) == (driver == "535")
    assert "gcc" in {deb.name for deb in made.base.debs}


def test_a_gpu_that_the_newest_torch_has_left_behind_is_served(world: World, tmp_path: Path) -> None:
    made = locked(world, write_spec(tmp_path, TORCH.format(driver="580") + 'gpus = ["V100"]\n'))
    assert "7.0" in made.contract_for(X86).cubin


def test_a_changed_driver_moves_cuda_and_back(world: World, tmp_path: Path) -> None:
    """What was conceded to one target is not kept for another."""
    request = write_spec(tmp_path, TORCH.format(driver="535"))
    older = locked(world, request)
    newer = locked(world, write_spec(tmp_path, TORCH.format(driver="580")))
    assert newer.contract_for(X86).driver != older.contract_for(X86).driver
    assert locked(world, write_spec(tmp_path, TORCH.format(driver="535"))) == older


def test_pip_installs_the_derived_requirements(world: World, tmp_path: Path) -> None:
    text = f"""
[env]
name = "small"
platforms = ["linux/{"amd64" if machine() == "x86_64" else "arm64"}"]
[python]
requirements = ["six", "idna", "requests"]
"""
    request = write_spec(tmp_path, text)
    made = locked(world, request)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version", made.python]
    command += ["--target", str(tmp_path / "out"), "-r", str(tmp_path / "lockfiles" / "small.requirements.txt")]
    environment = {**world.environ, "PIP_CONSTRAINT": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "six.py").is_file()
