from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from wheels_kit import backend_source, make_wheel, request, resolver_for

from envlock.digest import Digest


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, version: str) -> str:
    for name, text in backend_source("tool", version, requires=("lib",)).items():
        (folder / "py" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "py" / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", version)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def test_a_git_requirement_is_pinned_to_its_commit_until_it_is_upgraded(repository: Path, tmp_path: Path) -> None:
    packages = make_wheel(tmp_path / "packages", "lib", "1.0").parent
    first = commit(repository, "1.0")
    url = f"git+file://{repository}@main#subdirectory=py"
    wanted = f"tool[x] @ {url}"
    locked = resolver_for(tmp_path / "1", str(packages)).resolve(request(wanted))
    lib, tool = locked.wheels
    assert (lib.name, tool.name, tool.version, tool.index) == ("lib", "tool", "1.0", "built")
    assert (tool.direct_url, tool.requires, tool.requested) == (url, ("lib",), True)
    assert tool.built_from is not None
    assert (tool.built_from.url, tool.built_from.commit) == (f"file://{repository}", first)
    assert tool.built_from.subdirectory == "py"

    second = commit(repository, "2.0")
    pins = {wheel.name: wheel.version for wheel in locked.wheels}
    kept = request(wanted, pins=pins, previous=locked.wheels)
    assert resolver_for(tmp_path / "2", str(packages)).resolve(kept) == locked

    elsewhere = request(wanted.replace("@main", f"@{second}"), pins=pins, previous=locked.wheels)
    assert resolver_for(tmp_path / "3", str(packages)).resolve(elsewhere).wheels[1].version == "2.0"

    upgraded = request(wanted, pins={"lib": "1.0"}, previous=locked.wheels)
    built = resolver_for(tmp_path / "4", str(packages)).resolve(upgraded).wheels[1].built_from
    assert built is not None
    assert built.commit == second


def test_a_wheel_from_git_is_rebuilt_on_another_machine(repository: Path, tmp_path: Path) -> None:
    packages = make_wheel(tmp_path / "packages", "lib", "1.0").parent
    commit(repository, "1.0")
    url = f"git+file://{repository}#subdirectory=py"
    tool = resolver_for(tmp_path / "1", str(packages)).resolve(request(f"tool @ {url}")).wheels[1]
    commit(repository, "2.0")
    assert Digest.of_file(resolver_for(tmp_path / "2", str(packages)).rebuild(tool)) == tool.sha256
