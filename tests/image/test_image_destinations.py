"""Where a build may write: never over what envlock did not write, and told before any work."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from image_world import World

from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.image.build import Outputs
from envlock.image.destinations import refuse_bad_tag


def refused(world: World, outputs: Outputs) -> EnvlockError:
    with pytest.raises(EnvlockError) as fault:
        world.build(outputs=outputs)
    assert world.fetcher.fetched == []
    return fault.value


def test_outputs_replace_the_ones_before_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    for as_tar in (False, True):
        outputs = world.outputs(docker_archive=tmp_path / "out" / "image.docker.tar")
        if as_tar:
            outputs = replace(outputs, layout=tmp_path / "out" / "image.tar", as_tar=True)
        assert world.build(outputs=outputs).digest == world.build(outputs=outputs).digest


@pytest.mark.parametrize("content", [b"[env]\n", b"\x00" * 1024, b'{"version": 1}', b"[]", b"[" * 100_000])
def test_a_file_of_the_users_is_never_replaced(content: bytes, tmp_path: Path) -> None:
    world = World(tmp_path)
    users = tmp_path / "users"
    users.write_bytes(content)
    wanted = world.outputs()
    for outputs in (
        replace(wanted, docker_archive=users),
        replace(wanted, manifest=users),
        replace(wanted, layout=users, as_tar=True),
        replace(wanted, layout=users),
    ):
        assert refused(world, outputs).code == "output-in-the-way"
        assert users.read_bytes() == content
    assert not (tmp_path / "out").exists()


def test_a_tar_or_folder_of_the_users_is_never_replaced(tmp_path: Path) -> None:
    world = World(tmp_path)
    users = tmp_path / "backup.tar"
    (tmp_path / "thesis").write_text("text")
    with tarfile.open(users, "w") as tar:
        tar.add(tmp_path / "thesis", "thesis")
    assert refused(world, world.outputs(docker_archive=users)).code == "output-in-the-way"
    assert refused(world, replace(world.outputs(), layout=tmp_path)).code == "outputs-clash"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "thesis").write_text("text")
    assert refused(world, replace(world.outputs(), layout=folder)).code == "output-in-the-way"


@pytest.mark.parametrize("archive", ["out/manifest.json", "out/image", "out/image/x.tar", "link/manifest.json"])
def test_outputs_that_destroy_each_other_are_refused(archive: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "link").symlink_to("out")
    fault = refused(world, world.outputs(docker_archive=tmp_path / archive))
    assert (type(fault), fault.code) == (FaultyInput, "outputs-clash")


def test_a_place_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    (tmp_path / "file").touch()
    below = refused(world, replace(world.outputs(), manifest=tmp_path / "file" / "manifest.json"))
    assert (type(below), below.code) == (FaultyInput, "output-in-the-way")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    lacking = refused(world, world.outputs())
    assert (type(lacking), lacking.code) == (MachineLacks, "output-not-writable")


@pytest.mark.parametrize(
    "tag",
    [
        "a:1",
        "envlock/qlora:latest",
        "registry.example:5000/team/a_b--c.d:v1.2_x",
        "Host.Example/a:A",
        "localhost/x:0",
    ],
)
def test_tags_that_engines_take(tag: str) -> None:
    refuse_bad_tag(tag)


@pytest.mark.parametrize(
    "tag", ["", "a", "a:", ":1", "BAD TAG:::", "a/B:1", "a:1\n", "a@sha256:0", "-a:1", f"a:{'x' * 129}"]
)
def test_tags_that_no_engine_takes(tag: str) -> None:
    with pytest.raises(FaultyInput) as fault:
        refuse_bad_tag(tag)
    assert fault.value.code == "bad-tag"


def test_a_manifest_of_an_image_is_known_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.build()
    path = tmp_path / "out" / "manifest.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"version": 99}))
    world.build()
    assert json.loads(path.read_text()) == values
