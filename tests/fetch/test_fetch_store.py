from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envlock.digest import Digest
from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.store import Store

DATA = b"some bytes"
DIGEST = Digest.of(DATA)


class FullDisk(Store):
    """A store on a disk that turns out to be full when the bytes are synced."""

    def _sync(self, descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), descriptor)


def leftovers(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and "locks" not in path.parts]


def test_put_then_find(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "store")
    assert store.find(DIGEST) is None
    assert store.put(DATA) == DIGEST
    found = store.find(DIGEST)
    assert found == store.path(DIGEST) == store.root / "blobs" / "sha256" / DIGEST.hex[:2] / DIGEST.hex
    assert found.read_bytes() == DATA
    assert stat.S_IMODE(found.stat().st_mode) == 0o444


def test_an_empty_store_makes_no_folder_until_it_must(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert store.find(DIGEST) is None
    assert store.free() > 0
    assert not store.root.exists()


def test_adopt_moves_a_file_in(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    file = tmp_path / "file"
    file.write_bytes(DATA)
    assert store.adopt(file, DIGEST).read_bytes() == DATA
    assert not file.exists()


def test_adopt_can_leave_the_users_file_where_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    file = tmp_path / "file"
    file.write_bytes(DATA)
    path = store.adopt(file, DIGEST, keep=True)
    file.write_bytes(b"changed afterwards")
    assert path.read_bytes() == DATA


def test_adopt_copies_from_another_disk(tmp_path: Path) -> None:
    shm = Path("/dev/shm")  # noqa: S108 (the one other file system that every Linux has)
    store = Store(tmp_path / "store")
    file = shm / f"envlock-test-{os.getpid()}"
    file.write_bytes(DATA)
    try:
        assert store.adopt(file, DIGEST).read_bytes() == DATA
    finally:
        file.unlink(missing_ok=True)


def test_adopt_refuses_another_file_and_leaves_it_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    file = tmp_path / "wheel.whl"
    file.write_bytes(b"wrong")
    with pytest.raises(
        FaultyInput, match=r"wheel\.whl is not the file .* expected sha256:.* found sha256:"
    ) as caught:
        store.adopt(file, DIGEST)
    assert caught.value.code == "hash-mismatch"
    assert file.exists()
    assert store.find(DIGEST) is None


def test_a_blob_of_another_size_is_as_good_as_absent_and_can_be_put_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(DATA)
    path = store.path(DIGEST)
    path.chmod(0o644)
    path.write_bytes(DATA[:3])
    assert store.find(DIGEST, len(DATA)) is None
    store.put(DATA)
    assert store.find(DIGEST, len(DATA)) == path


def test_a_blob_that_was_changed_is_found_out_by_reading_it_and_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(DATA)
    assert store.verify(DIGEST, len(DATA)) == store.path(DIGEST)
    store.path(DIGEST).chmod(0o644)
    store.path(DIGEST).write_bytes(DATA[::-1])
    assert store.find(DIGEST, len(DATA)) is not None
    assert store.verify(DIGEST, len(DATA)) is None
    assert not store.path(DIGEST).exists()


def test_a_blob_that_nothing_touched_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.put(DATA)
    read: list[Path] = []
    of_file = Digest.of_file

    def counted(path: Path) -> Digest:
        read.append(path)
        return of_file(path)

    monkeypatch.setattr(Digest, "of_file", counted)
    for _ in range(2):
        assert store.verify(DIGEST) == store.path(DIGEST)
    (tmp_path / "link").hardlink_to(store.path(DIGEST))  # as outputs are made
    assert store.verify(DIGEST) == store.path(DIGEST)
    assert read == [store.path(DIGEST)]


def test_an_empty_blob_is_found_only_if_it_should_be_empty(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path(DIGEST)
    path.parent.mkdir(parents=True)
    path.touch()
    assert store.find(DIGEST) is None
    assert store.find(store.put(b"")) is not None


def test_a_half_written_file_is_never_found(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from envlock.fetch.store import Store
class Killed(Store):
    def _sync(self, descriptor):
        os.kill(os.getpid(), signal.SIGKILL)
Killed(Path({str(tmp_path)!r})).put({DATA!r})
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert Store(tmp_path).find(DIGEST) is None


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    store = FullDisk(tmp_path)
    with pytest.raises(MachineLacks, match="10 more bytes were needed") as caught:
        store.put(DATA)
    assert caught.value.code == "disk-full"
    assert leftovers(tmp_path) == []


def test_a_full_disk_leaves_the_adopted_file_to_its_owner(tmp_path: Path) -> None:
    store = FullDisk(tmp_path / "store")
    file = tmp_path / "file"
    file.write_bytes(DATA)
    with pytest.raises(MachineLacks, match="is full"):
        store.adopt(file, DIGEST)
    assert file.read_bytes() == DATA
    assert leftovers(store.root) == []


def test_a_store_of_someone_else_can_be_read_but_not_written(tmp_path: Path) -> None:
    root = tmp_path / "store"
    Store(root).put(DATA)
    program = f"""
import os, tempfile
from pathlib import Path
from envlock.digest import Digest
from envlock.errors import MachineLacks
from envlock.fetch.store import Store
with tempfile.TemporaryDirectory() as own, Store(Path(own)).locked("x"), Store(Path(own)).temporary():
    pass  # modules are loaded: nobody may not read root's Python
if os.getuid() == 0:
    os.setuid(65534)
store = Store(Path({str(root)!r}))
assert store.find(Digest({DIGEST.hex!r}), {len(DATA)}).read_bytes() == {DATA!r}
assert store.put({DATA!r}).hex == {DIGEST.hex!r}
for act in (
    lambda: store.put(b"other"),
    lambda: store.locked("x").__enter__(),
    lambda: store.temporary().__enter__(),
):
    try:
        act()
    except MachineLacks as exc:
        assert exc.code == "store-not-writable", exc.code
    else:
        raise SystemExit("wrote to a store of someone else")
"""
    folders = [path for path in [root, *root.rglob("*")] if path.is_dir()]
    for parent in [tmp_path, *tmp_path.parents]:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)  # pytest's folders are for their owner alone
    for folder in folders:
        folder.chmod(0o555)
    try:
        subprocess.run([sys.executable, "-c", program], check=True)
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_root_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineLacks) as caught:
        Store(tmp_path / "file" / "store").put(DATA)
    assert caught.value.code == "store-not-writable"


def test_areas_are_folders_below_the_root(tmp_path: Path) -> None:
    assert Store(tmp_path).area("layers").is_dir()
    assert Store(tmp_path).area("layers").parent == tmp_path


def test_write_replaces_a_small_file_in_one_step(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.area("index") / "a" / "page.json"
    store.write(path, b"1")
    store.write(path, b"2")
    assert path.read_bytes() == b"2"


def test_a_scratch_folder_is_removed_whatever_is_in_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.temporary() as folder:
        assert folder.stat().st_dev == tmp_path.stat().st_dev
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "file").write_bytes(DATA)
        (folder / "a").chmod(0o000)
        outside = tmp_path / "outside"
        outside.mkdir(mode=0o500)
        (folder / "link").symlink_to(outside)
    assert not folder.exists()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500
    assert leftovers(tmp_path) == []


def test_scratch_folders_of_killed_processes_are_swept_and_live_ones_kept(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from envlock.fetch.store import Store
with Store(Path({str(tmp_path)!r})).temporary() as folder:
    (folder / "big").write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    assert len([path for path in (tmp_path / "tmp").iterdir() if path.is_dir()]) == 1
    store = Store(tmp_path)
    with store.temporary() as mine, store.temporary() as other:
        assert sorted(path for path in (tmp_path / "tmp").iterdir() if path.is_dir()) == sorted([mine, other])


def test_a_lock_is_held_by_one_thread_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with store.locked("layer/x y"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6


def hold(root: Path, ready: object, release: object) -> None:
    with Store(root).locked("x"):
        ready.set()  # type: ignore[attr-defined]  # an Event of multiprocessing, whose class cannot be named
        release.wait()  # type: ignore[attr-defined]  # as above


def test_a_lock_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    ready, release = spawn.Event(), spawn.Event()
    process = spawn.Process(target=hold, args=(tmp_path, ready, release))
    process.start()
    ready.wait()
    store = Store(tmp_path)
    with store.try_locked("x") as got:
        assert not got
    with pytest.raises(MachineLacks) as caught, store.locked("x", cancelled=lambda: True):
        pass
    assert caught.value.code == "cancelled"
    release.set()
    with store.locked("x"):
        pass
    with store.try_locked("x") as got:
        assert got
    process.join()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    ready, release = spawn.Event(), spawn.Event()
    process = spawn.Process(target=hold, args=(tmp_path, ready, release))
    process.start()
    ready.wait()
    process.kill()
    process.join()
    with Store(tmp_path).locked("x"):
        pass


def test_free_is_that_of_the_disk(tmp_path: Path) -> None:
    assert Store(tmp_path / "not" / "there").free() == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)
