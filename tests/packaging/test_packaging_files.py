"""What is needed at run time is found from a wheel, from an sdist and from an editable install alike."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def tracked(*below: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *below], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


@pytest.mark.index
def test_a_wheel_made_from_the_sdist_has_every_file_and_runs(tmp_path: Path) -> None:
    source = tmp_path / "source"
    subprocess.run(["git", "checkout-index", "-a", f"--prefix={source}/"], cwd=ROOT, check=True)
    # Without a choice, build makes the sdist first and the wheel out of that.
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    files = set(archive.namelist())
    wanted = {name for name in tracked("envlock") if name != "envlock/_templates"}
    wanted |= {f"envlock/_{name}" for name in tracked("templates")}
    assert wanted <= files
    command = [sys.executable, "-m", "envlock", "init", "fresh"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(site)}, check=True)
    assert 'name = "fresh"' in (tmp_path / "fresh" / "envlock.toml").read_text()


def test_the_editable_install_finds_the_templates() -> None:
    assert (ROOT / "envlock" / "_templates").resolve() == ROOT / "templates"
