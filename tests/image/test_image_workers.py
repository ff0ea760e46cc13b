"""Worker processes: they stop when told, and end with their master."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest
from image_world import World, wheel_bytes

from envlock.errors import MachineLacks
from envlock.fetch.download import DownloadReport, Want
from envlock.fetch.store import Store
from envlock.image.layer_cache import CachedLayer, LayerCache
from envlock.image.layer_job import LayerJob
from envlock.image.layers.entries import File
from envlock.image.recipes import FilesRecipe
from envlock.image.workers import workers

# A layer that takes far longer to write than a test may last.
LONG = FilesRecipe(entries=tuple(File(path=f"{number:07}", body=b"x" * 3000) for number in range(60_000)))

_MASTER = """
import multiprocessing, sys, time
from concurrent.futures import Future
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_image_workers import LONG
from envlock.image.layer_job import LayerJob
from envlock.image.workers import workers

if __name__ == "__main__":
    with workers(1) as pool:
        pool.layer(LayerJob(recipe=LONG, store=Path({store!r}), files=()))
        while not list(Path({store!r}).glob("tmp/*/layer")):
            time.sleep(0.05)
        print(multiprocessing.active_children()[0].pid, flush=True)
        {then}
"""


def master(folder: Path, then: str) -> tuple[subprocess.Popen[str], int]:
    """A process with one worker that is amid a long layer, and the worker's number."""
    program = folder / "master.py"
    program.write_text(_MASTER.format(tests=str(Path(__file__).parent), store=str(folder / "store"), then=then))
    process = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return process, int(line)


def ends(pid: int, within: float = 10.0) -> bool:
    """Whether a process is gone, or a zombie, in time."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_an_interrupted_master_ends_soon_and_leaves_no_layer(tmp_path: Path) -> None:
    process, worker = master(tmp_path, "time.sleep(600)")
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in talk
    assert "in build_layer" not in talk  # a worker has nothing to say about it
    assert ends(worker)
    assert LayerCache(Store(tmp_path / "store")).find(LONG.key) is None
    assert not list((tmp_path / "store" / "tmp").iterdir())


def test_a_master_that_is_interrupted_twice_ends_at_once(tmp_path: Path) -> None:
    for pause in (0.0, 0.02, 0.3):
        process, worker = master(tmp_path, "time.sleep(600)")
        process.send_signal(signal.SIGINT)
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=20)
        assert "KeyboardInterrupt" in talk
        assert ends(worker)
    assert LayerCache(Store(tmp_path / "store")).find(LONG.key) is None


def test_a_killed_masters_worker_does_not_outlive_it(tmp_path: Path) -> None:
    process, worker = master(tmp_path, "time.sleep(600)")
    process.kill()
    process.communicate(timeout=20)
    assert ends(worker)
    assert LayerCache(Store(tmp_path / "store")).find(LONG.key) is None


def test_leaving_by_an_error_cancels_the_jobs(tmp_path: Path) -> None:
    job = LayerJob(recipe=LONG, store=tmp_path, files=())
    futures: list[Future[tuple[CachedLayer, bool]]] = []

    def fail() -> None:
        with workers(1) as pool:
            futures.extend(pool.layer(job) for _ in range(4))
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fail()
    assert all(each.cancelled() or each.exception() is not None for each in futures)


class Broken:
    """A fetcher that fails halfway."""

    def fetch(self, wants: Sequence[Want], *, on_ready: object = None) -> DownloadReport:  # noqa: ARG002 (Fetcher)
        raise MachineLacks("the network is gone", hint="Try again.", code="no-network")


def test_a_failing_download_ends_the_build(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.fetcher = Broken()  # type: ignore[assignment] # another Fetcher
    with pytest.raises(MachineLacks) as fault:
        world.build()
    assert fault.value.code == "no-network"


def test_a_worker_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, wheels={"alpha": wheel_bytes("alpha")})
    # Every worker's first act is to end.
    monkeypatch.setattr("envlock.image.workers._begin", os._exit)
    with pytest.raises(MachineLacks, match="a worker process died") as fault:
        world.build()
    assert fault.value.code == "worker-died"
