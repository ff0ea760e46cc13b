from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from reading import layer_of
from wheels_in_code import SCHEME, WheelKit

from envlock.image.layers.entries import Directory, File, Symlink
from envlock.image.layers.wheel import Scheme, venv_entries, wheel_entries

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
FULL = ".".join(map(str, sys.version_info[:3]))


def test_entries_are_sorted_from_the_root_down() -> None:
    paths = [entry.path for entry in venv_entries(SCHEME, "3.13.5")]
    assert paths == sorted(paths)
    assert paths[:2] == ["opt", "opt/env"]


def test_the_interpreter_is_the_bases() -> None:
    found = {entry.path: entry for entry in venv_entries(SCHEME, "3.13.5")}
    assert found["opt/env/bin/python3.13"] == Symlink(path="opt/env/bin/python3.13", target="/usr/bin/python3.13")
    other = {entry.path: entry for entry in venv_entries(SCHEME, "3.13.5", "/opt/python/bin/python3")}
    assert other["opt/env/bin/python3.13"] == Symlink(path="opt/env/bin/python3.13", target="/opt/python/bin/python3")
    configuration = other["opt/env/pyvenv.cfg"]
    assert isinstance(configuration, File)
    assert isinstance(configuration.body, bytes)
    assert b"home = /opt/python/bin\n" in configuration.body


def test_it_is_what_venv_makes_but_for_the_differences_that_are_stated(tmp_path: Path) -> None:
    made = tmp_path / "env"
    venv.create(made, symlinks=True, with_pip=False)
    base = (made / "bin/python3").resolve()
    scheme = Scheme(str(made)[1:], PYTHON)
    entries = [entry for entry in venv_entries(scheme, FULL, str(base)) if entry.path.startswith(scheme.prefix + "/")]
    ours = {Path("/", entry.path) for entry in entries}
    theirs = set(made.rglob("*"))
    assert {path.relative_to(made).as_posix() for path in ours - theirs} <= {f"include/python{PYTHON}"}
    assert {path.name for path in theirs - ours} <= {"activate.csh", "activate.fish", "Activate.ps1", ".gitignore"}
    for entry in entries:
        path = Path("/", entry.path)
        if isinstance(entry, Directory):
            assert path.is_dir() or path.name == f"python{PYTHON}"
        elif isinstance(entry, Symlink):
            assert path.resolve() == (path.parent / entry.target).resolve()
    keys = {line.split(" = ")[0]: line for line in (made / "pyvenv.cfg").read_text().splitlines()}
    text = next(entry.body for entry in entries if isinstance(entry, File) and entry.path.endswith("pyvenv.cfg"))
    assert isinstance(text, bytes)
    lines = {line.split(" = ")[0]: line for line in text.decode().splitlines()}
    assert lines.keys() == keys.keys()
    assert lines["include-system-site-packages"] == keys["include-system-site-packages"]
    assert lines["version"] == keys["version"]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A real environment with a wheel in it, unpacked from layers where it says it is."""
    prefix = tmp_path / "env"
    scheme = Scheme(str(prefix)[1:], PYTHON)
    kit = WheelKit(
        files={"sample.py": b"def main():\n    import sys\n    print('ran', sys.prefix)\n"},
        entry_points="[console_scripts]\nrun = sample:main\n",
    )
    base = Path(sys.executable).resolve()
    for number, entries in enumerate(
        (venv_entries(scheme, FULL, str(base)), wheel_entries(kit.write(tmp_path), scheme, compiler=None))
    ):
        file = tmp_path / f"{number}.tar.gz"
        file.write_bytes(layer_of(entries).raw)
        # The prefix alone: the layer's directories above it are the image's, and these here are the machine's own.
        subprocess.run(["tar", "-xzf", str(file), "-C", "/", scheme.prefix], check=True)
    return prefix


def test_unpacking_leaves_the_machines_own_directories_alone(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    before = [(folder, folder.stat().st_mode) for folder in tmp_path.parents]
    request.getfixturevalue("environment")
    assert [(folder, folder.stat().st_mode) for folder in tmp_path.parents] == before


def test_it_runs(environment: Path) -> None:
    said = subprocess.check_output((environment / "bin/run",), text=True, cwd="/")
    assert said == f"ran {environment}\n"
    question = "import importlib.metadata as m; print(m.version('sample'))"
    assert subprocess.check_output((environment / "bin/python", "-c", question), text=True) == "1.0\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_activation_can_be_undone(environment: Path, shell: str) -> None:
    script = f"""
    set -eu
    PATH=/usr/bin:/bin; PYTHONHOME=/nowhere; PS1='$ '; export PYTHONHOME
    . {environment}/bin/activate
    . {environment}/bin/activate
    echo "$VIRTUAL_ENV|$PATH|${{PYTHONHOME-none}}|$PS1"
    command -v run
    deactivate
    echo "${{VIRTUAL_ENV-none}}|$PATH|$PYTHONHOME|$PS1"
    command -v deactivate || echo gone
    """
    said = subprocess.check_output((shell, "-c", script), text=True, env={}).splitlines()
    assert said == [
        f"{environment}|{environment}/bin:/usr/bin:/bin|none|(env) $ ",
        f"{environment}/bin/run",
        "none|/usr/bin:/bin|/nowhere|$ ",
        "gone",
    ]
