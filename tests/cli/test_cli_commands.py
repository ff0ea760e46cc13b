"""The program as a user meets it: exit status, what goes to stdout and what to stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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


def test_verbose_says_what_led_to_an_error(folder: Path) -> None:
    (folder / "lockfiles").mkdir()
    (folder / "lockfiles" / "tiny.lock").write_text("version = [")
    assert "caused by" not in run("build", cwd=folder).stderr
    done = run("-v", "build", cwd=folder)
    assert done.returncode == 2
    assert "caused by: TOMLDecodeError" in done.stderr
