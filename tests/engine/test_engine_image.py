"""A small real environment, from envlock.toml to a container: locked, built, loaded and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from testcontainers.core.container import DockerContainer

pytestmark = [pytest.mark.engine, pytest.mark.index]

_SPEC = """
[env]
name = "small"
python = "3.13"

[python]
requirements = ["numpy", "click"]

[base]
debian = "trixie"
packages = ["git"]

[target]
cuda = "cpu"

[image]
user = "trainer"
workdir = "/workspace"
env = { OMP_NUM_THREADS = "1" }
labels = { "org.example.team" = "vision" }

[[image.copy]]
source = "code"
to = "/workspace"
ignore = ["*.log"]

[[data]]
path = "/data/models"
kind = "data-disk"
purpose = "base models"
on-stop = "kept"
on-release = "lost"
env = { HF_HOME = "/data/models/hf" }
"""


@dataclass(frozen=True)
class Built:
    """What `envlock build --json` told, and where it stands."""

    values: dict[str, Any]
    folder: Path
    archive: Path


def envlock(*arguments: str, cwd: Path, cache: Path) -> dict[str, Any]:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-m", "envlock", *arguments, "--json"]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert isinstance(values, dict)
    return values


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("small")
    code = folder / "code"
    code.mkdir()
    (folder / "envlock.toml").write_text(_SPEC)
    (code / "train.py").write_text("print('training')\n")
    (code / "old.log").write_text("not wanted\n")
    cache = folder / "cache"
    envlock("lock", ".", cwd=folder, cache=cache)
    archive = folder / "small.tar"
    values = envlock("build", ".", "--output", "out", "--docker-archive", str(archive), cwd=folder, cache=cache)
    return Built(values, folder, archive)


@pytest.fixture(scope="module")
def loaded(built: Built, docker_url: str) -> Iterator[tuple[docker.DockerClient, str]]:
    client = docker.DockerClient(base_url=docker_url, timeout=300)
    with built.archive.open("rb") as file:
        image = client.images.load(file)[0]
    assert image.id is not None
    yield client, image.id
    client.images.remove(image.id, force=True)
    client.close()


def run(loaded: tuple[docker.DockerClient, str], *command: str, user: str | None = None) -> str:
    client, image = loaded
    output: bytes = client.containers.run(image, list(command), network_mode="none", remove=True, user=user)
    return output.decode()


def test_the_engine_agrees_on_the_image(built: Built, loaded: tuple[docker.DockerClient, str]) -> None:
    client, image = loaded
    assert image == built.values["config_digest"]
    config = client.images.get(image).attrs["Config"]
    assert config["Labels"]["org.example.team"] == "vision"
    assert config["WorkingDir"] == "/workspace"
    assert "OMP_NUM_THREADS=1" in config["Env"]
    assert "HF_HOME=/data/models/hf" in config["Env"]


def test_packages_import_from_the_prefix_with_bytecode(loaded: tuple[docker.DockerClient, str]) -> None:
    program = (
        "import json, sys, os, numpy, click;"
        "print(json.dumps([sys.prefix, numpy.__file__, numpy.__cached__, os.path.exists(numpy.__cached__),"
        " float((numpy.eye(3) @ [1, 2, 3]).sum())]))"
    )
    site = "/opt/env/lib/python3.13/site-packages/numpy"
    assert json.loads(run(loaded, "python", "-c", program)) == [
        "/opt/env",
        f"{site}/__init__.py",
        f"{site}/__pycache__/__init__.cpython-313.pyc",
        True,
        6.0,
    ]


def test_debian_finds_its_own_records_right(loaded: tuple[docker.DockerClient, str]) -> None:
    assert run(loaded, "dpkg", "--audit", user="0") == ""
    assert run(loaded, "dpkg", "--verify", user="0") == ""
    assert "git" in run(loaded, "dpkg-query", "-W", "-f", "${Package}\n").split()
    assert run(loaded, "git", "--version").startswith("git version")


def test_data_directories_are_empty_mount_points(loaded: tuple[docker.DockerClient, str]) -> None:
    assert run(loaded, "find", "/data/models").split() == ["/data/models"]
    assert run(loaded, "find", "/workspace", "-type", "f").split() == ["/workspace/train.py"]


def test_the_image_runs_as_the_user_that_was_asked_for(loaded: tuple[docker.DockerClient, str]) -> None:
    assert run(loaded, "id", "-un").strip() == "trainer"


def test_the_manifest_in_the_image_is_the_one_beside_it(
    built: Built, loaded: tuple[docker.DockerClient, str]
) -> None:
    inside = run(loaded, "cat", "/etc/envlock/manifest.json")
    assert inside == (built.folder / built.values["manifest"]).read_text()
    assert [entry["path"] for entry in json.loads(inside)["data"]] == ["/data/models"]


def test_testcontainers_starts_it_like_any_image(
    loaded: tuple[docker.DockerClient, str], docker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
    monkeypatch.setenv("DOCKER_HOST", docker_url)
    container = DockerContainer(loaded[1])
    with container.with_command("sleep 60").with_kwargs(network_mode="none") as running:
        status, output = running.exec(["python", "train.py"])
    assert (status, output) == (0, b"training\n")


def test_skopeo_and_umoci_read_the_layout(built: Built, program: Callable[..., str]) -> None:
    layout = built.folder / "out" / "image"
    told = subprocess.run([program("skopeo"), "inspect", f"oci:{layout}"], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["Digest"] == built.values["digest"]
    subprocess.run([program("umoci"), "stat", "--image", f"{layout}:small"], capture_output=True, check=True)


def test_the_same_lock_gives_the_same_digest_from_an_empty_store(built: Built, tmp_path: Path) -> None:
    again = envlock("build", ".", "--output", str(tmp_path / "out"), cwd=built.folder, cache=tmp_path / "cache")
    assert again["digest"] == built.values["digest"]
    assert {layer["digest"] for layer in again["layers"]} == {layer["digest"] for layer in built.values["layers"]}
    assert not any(layer["reused"] for layer in again["layers"])
    once_more = envlock("build", ".", "--output", str(tmp_path / "out"), cwd=built.folder, cache=tmp_path / "cache")
    assert once_more["digest"] == built.values["digest"]
    assert all(layer["reused"] for layer in once_more["layers"])
    assert once_more["bytes_downloaded"] == 0
