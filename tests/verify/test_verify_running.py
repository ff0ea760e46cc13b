"""Probes run apart: what they see, how they fail, die and hang."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

import envlock.verify
from envlock.verify.model import Died, Failed, Hung, Seen
from envlock.verify.running import Launcher


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    """A launcher whose probes are written by the test, beside a copy of the real launch.py."""
    source = tmp_path / "source"
    real = Path(envlock.verify.__file__).parent
    for name in ("__init__.py", "probes/__init__.py", "probes/launch.py"):
        copy = source / "envlock/verify" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((real / name).read_bytes())
    (source / "envlock/__init__.py").touch()
    return Launcher(
        python=(sys.executable,), source=source, scratch=tmp_path / "scratch", environ={"PATH": os.environ["PATH"]}
    )


def write(launcher: Launcher, body: str) -> None:
    head = "import os, subprocess, sys, time\ndef probe(request, talk):\n"
    program = head + textwrap.indent(textwrap.dedent(body), "    ")
    (launcher.source / "envlock/verify/probes/sample.py").write_text(program)


def test_a_probe_is_asked_in_json_and_its_answer_is_read(launcher: Launcher) -> None:
    write(launcher, "print('noise of a library'); return {'twice': request['n'] * 2}")
    seen = launcher.run("sample", {"n": 21}, 20)
    assert isinstance(seen, Seen)
    assert seen.value == {"twice": 42}


def test_what_a_probe_raises_is_told_with_its_stage(launcher: Launcher) -> None:
    write(launcher, "talk.stage('import'); raise ImportError('undefined symbol: _ZN3c10')")
    failed = launcher.run("sample", {}, 20)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.text, failed.stage) == ("ImportError", "undefined symbol: _ZN3c10", "import")


def test_a_crash_is_told_by_its_signal(launcher: Launcher) -> None:
    write(launcher, "talk.stage('launch'); os.write(2, b'last words'); os.kill(os.getpid(), 9)")
    died = launcher.run("sample", {}, 20)
    assert isinstance(died, Died)
    assert (died.status, died.stage, died.talk) == (-9, "launch", "last words")


def test_a_hang_is_told_and_no_process_of_it_is_left(launcher: Launcher, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    write(
        launcher,
        f"""
        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
        open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')
        talk.stage('all-reduce')
        time.sleep(600)
        """,
    )
    hung = launcher.run("sample", {}, 3)
    assert isinstance(hung, Hung)
    assert hung.stage == "all-reduce"
    for pid in pids.read_text().split():
        assert _gone(int(pid))


def test_caches_go_to_the_scratch_folder_and_the_users_variables_stay(launcher: Launcher) -> None:
    write(launcher, "return dict(os.environ)")
    seen = launcher.run("sample", {}, 20)
    assert isinstance(seen, Seen)
    assert str(seen.value["TRITON_CACHE_DIR"]).startswith(str(launcher.scratch))
    assert seen.value["PATH"] == os.environ["PATH"]


def _gone(pid: int) -> bool:
    """Whether the process ended; one that waits to be reaped has."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
