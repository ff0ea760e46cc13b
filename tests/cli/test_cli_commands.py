"""The program as a user meets it: exit status, what goes to stdout and what to stderr."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from envlock.errors import FaultyInput
from envlock.image.plan import EPOCH
from envlock.wiring.building import image_time
from envlock.wiring.world import World

SPEC = '[env]\nname = "tiny"\npython = "3.13"\n\n[python]\nrequirements = ["click"]\n'


def run(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HOME": str(cwd / "home"), "XDG_CACHE_HOME": str(cwd / "cache")} | variables
    command = [sys.executable, "-m", "envlock", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "envlock.toml").write_text(SPEC)
    return tmp_path


def test_help_and_version_are_data(tmp_path: Path) -> None:
    for arguments in (("--help",), ("lock", "--help"), ("build", "-h"), ("--version",)):
        done = run(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "envlock" in done.stdout


@pytest.mark.parametrize("arguments", [("nonsense",), ("lock", "--nonsense"), ("build", "--workers", "0"), ()])
def test_usage_that_is_wrong_exits_with_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Usage:" in done.stdout + done.stderr


def test_a_missing_lock_is_a_difference(folder: Path) -> None:
    for arguments in (("lock", "--check"), ("build",)):
        done = run(*arguments, cwd=folder)
        assert done.returncode == 1
        assert done.stdout == ""
        assert "there is no lock at" in done.stderr
        assert "hint: " in done.stderr


def test_every_fault_of_a_specification_is_told_at_once_with_its_line(folder: Path) -> None:
    (folder / "envlock.toml").write_text(
        SPEC.replace("tiny", "Not A Name") + 'unknown-key = 1\nresolver = "poetry"\n'
    )
    done = run("lock", cwd=folder)
    assert done.returncode == 2
    for line in ("envlock.toml:2: env.name", "envlock.toml:7: python.unknown-key", "envlock.toml:8: python.resolver"):
        assert line in done.stderr


def test_with_json_an_error_is_data_too(folder: Path) -> None:
    done = run("--json", "build", cwd=folder)
    assert json.loads(done.stdout)["error"]["code"] == "no-lock"
    after = run("build", "--json", cwd=folder)
    assert after.stdout == done.stdout


def test_c_works_from_another_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = run("-C", str(folder), "lock", "--check", cwd=elsewhere)
    assert str(folder / "lockfiles" / "tiny.lock") in done.stderr
    assert run("-C", "missing", "lock", cwd=elsewhere).returncode == 2


def test_check_goes_with_nothing_that_changes(folder: Path) -> None:
    done = run("lock", "--check", "--upgrade", cwd=folder)
    assert done.returncode == 2
    assert "--check changes nothing" in done.stderr


def test_offline_without_a_cache_is_the_machines_lack(folder: Path) -> None:
    done = run("lock", "--offline", cwd=folder)
    assert done.returncode == 4
    assert not (folder / "lockfiles").exists()


def test_init_writes_what_lock_reads(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("click\n")
    done = run("init", ".", "--name", "fresh", cwd=tmp_path)
    assert done.returncode == 0
    values = tomllib.loads((tmp_path / "envlock.toml").read_text())
    assert values["env"]["name"] == "fresh"
    assert values["python"]["requirements"] == ["-r requirements.txt"]
    checked = run("lock", "--check", cwd=tmp_path)
    assert checked.returncode == 1  # no lock yet, and no fault in the file
    again = run("init", ".", cwd=tmp_path)
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.parametrize("name", ["Not A Name", "", "../x"])
def test_init_refuses_a_name_that_lock_would_refuse(name: str, tmp_path: Path) -> None:
    done = run("init", "new", "--name", name, cwd=tmp_path)
    assert done.returncode == 2
    assert "--name: " in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/below", "x" * 300])
def test_init_tells_a_place_that_cannot_be_written(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("init", place, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("error: ")
    assert Path(place).name in done.stderr
    assert "hint: " in done.stderr


def test_init_names_an_environment_after_any_folder(tmp_path: Path) -> None:
    for name in ("My Project's", "y" * 99 + "-" + "z" * 99, "日本", "-"):
        done = run("init", name, cwd=tmp_path)
        assert done.returncode == 0
        checked = run("lock", "--check", name, cwd=tmp_path)
        assert "there is no lock" in checked.stderr
        assert checked.stderr.endswith(f"hint: envlock lock {shlex.quote(name)}\n")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii"])
def test_what_the_terminal_cannot_show_is_written_another_way(encoding: str, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\xe9") + "é日"
    told = run("init", name, cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert (told.returncode, told.stderr) == (0, "")
    (tmp_path / name / "envlock.toml").unlink()
    done = run("init", name, "--json", cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert json.loads(done.stdout) == {"file": str(tmp_path / name / "envlock.toml")}


def test_an_output_that_is_full_is_the_machines_lack(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "envlock", "--help"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=buffered, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 4
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_verbose_says_what_led_to_an_error(folder: Path) -> None:
    (folder / "lockfiles").mkdir()
    (folder / "lockfiles" / "tiny.lock").write_text("version = [")
    assert "caused by" not in run("build", cwd=folder).stderr
    done = run("-v", "build", cwd=folder)
    assert done.returncode == 2
    assert "caused by: TOMLDecodeError" in done.stderr


def test_a_tilde_that_a_shell_left_in_is_the_home(tmp_path: Path) -> None:
    assert run("init", "~/new", cwd=tmp_path).returncode == 0
    assert (tmp_path / "home" / "new" / "envlock.toml").is_file()
    assert run("init", "~nobody", cwd=tmp_path).returncode == 0
    assert (tmp_path / "~nobody" / "envlock.toml").is_file()


def test_a_lock_is_looked_for_upward_only_within_a_repository(tmp_path: Path) -> None:
    project = tmp_path / "stray" / "project"
    project.mkdir(parents=True)
    (project / "envlock.toml").write_text(SPEC)
    (tmp_path / "stray" / "lockfiles").mkdir()
    assert f"{project / 'lockfiles' / 'tiny.lock'}" in run("lock", "--check", cwd=project).stderr
    (tmp_path / "stray" / ".git").mkdir()
    assert f"{tmp_path / 'stray' / 'lockfiles' / 'tiny.lock'}" in run("lock", "--check", cwd=project).stderr


@pytest.mark.parametrize("wanted", [signal.SIGTERM, signal.SIGINT])
def test_a_cancelled_job_ends_soon_and_says_so(wanted: signal.Signals, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [
            sys.executable,
            "-m",
            "envlock",
            "lock",
            "--index-url",
            f"{url}/simple",
            "--debian-mirror",
            f"{url}/debian",
        ]
        environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
        running = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        connection, _ = silent.accept()
        with connection:
            running.send_signal(wanted)
            _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert told.strip() == "interrupted; run it again to go on where it was"


@pytest.mark.parametrize("epoch", ["soon", "-1", "253402300800", "9" * 5000])
def test_a_time_that_no_image_can_hold_is_refused(epoch: str, tmp_path: Path) -> None:
    world = World(environ={"SOURCE_DATE_EPOCH": epoch}, cwd=tmp_path, home=tmp_path, now=datetime.now(UTC))
    with pytest.raises(FaultyInput) as fault:
        image_time(world)
    assert fault.value.code == "bad-epoch"


def test_the_time_in_an_image_is_the_one_that_was_given(tmp_path: Path) -> None:
    for text, time in (("", EPOCH), ("0", 0), ("253402300799", 253402300799)):
        world = World(environ={"SOURCE_DATE_EPOCH": text}, cwd=tmp_path, home=tmp_path, now=datetime.now(UTC))
        assert image_time(world) == time
