"""Layouts and archives on disk: read by other programs, replaced whole, and the same every time."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from image_world import World, spec_of

from envlock.digest import Digest
from envlock.errors import FaultyInput, MachineLacks
from envlock.image.built import BuiltImage
from envlock.image.config import FinishedLayer
from envlock.image.layout import Bundle, Image, write_layout, write_layout_tar
from envlock.image.output import lay, replacing
from envlock.platforms import Platform
from envlock.spec.model import ImageSpec

Programs = Callable[..., str]


def files_of(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: opened.read() for member in tar if (opened := tar.extractfile(member))}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def built(world: World) -> BuiltImage:
    return world.build(outputs=world.outputs(docker_archive=world.folder / "image.tar"))


def bundle(folder: Path, *platforms: Platform) -> Bundle:
    """A bundle whose one layer is a tar with nothing in it."""
    tar = bytes(1024)
    data = gzip.compress(tar, mtime=0)
    (folder / "blob").write_bytes(data)
    layer = FinishedLayer(
        recipe=Digest.of(b"recipe"),
        title="nothing",
        digest=Digest.of(data),
        size=len(data),
        diff_id=Digest.of(tar),
        unpacked=len(tar),
    )
    images = tuple(
        Image(platform=platform, config=f'{{"os":"{platform}"}}'.encode(), layers=(layer,))
        for platform in platforms or (Platform.AMD64,)
    )
    return Bundle(images=images, name="small", blob=lambda _: folder / "blob")


def inspect(program: str, place: str) -> dict[str, Any]:
    told = subprocess.run([program, "inspect", place], capture_output=True, text=True, check=True)
    values = json.loads(told.stdout)
    assert isinstance(values, dict)
    return values


def test_every_blob_is_what_its_name_says(built: BuiltImage) -> None:
    blobs = list((built.layout / "blobs" / "sha256").iterdir())
    assert {hashlib.sha256(path.read_bytes()).hexdigest() for path in blobs} == {path.name for path in blobs}
    assert json.loads((built.layout / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    (top,) = json.loads((built.layout / "index.json").read_bytes())["manifests"]
    assert (top["digest"], top["annotations"]) == (str(built.digest), {"org.opencontainers.image.ref.name": "small"})


def test_skopeo_reads_the_layout_and_agrees_on_the_digest(built: BuiltImage, program: Programs) -> None:
    for place in (f"oci:{built.layout}", f"oci:{built.layout}:small"):
        assert inspect(program("skopeo"), place)["Digest"] == str(built.digest)


def test_skopeo_copies_it_with_every_hash_checked(built: BuiltImage, program: Programs, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    command = [program("skopeo"), "copy", "-q", f"oci:{built.layout}", f"dir:{to}"]
    subprocess.run(command, check=True, capture_output=True)
    assert Digest.of_file(to / "manifest.json") == built.digest


def test_umoci_unpacks_the_layout(built: BuiltImage, program: Programs, tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    command = [program("umoci"), "unpack", "--rootless", "--image", f"{built.layout}:small", str(root)]
    subprocess.run(command, check=True, capture_output=True)
    assert (root / "rootfs/etc/envlock/manifest.json").read_text() == built.platforms[0].manifest.read_text()
    assert (root / "rootfs/usr/share/base-files/text").read_text() == "base-files"


def test_the_docker_archive_holds_the_layers_of_the_layout(built: BuiltImage, program: Programs) -> None:
    assert built.docker_archive is not None
    told = inspect(program("skopeo"), f"docker-archive:{built.docker_archive}")
    assert told["Env"] == inspect(program("skopeo"), f"oci:{built.layout}")["Env"]
    held = files_of(built.docker_archive)
    (image,) = json.loads(held["manifest.json"])
    assert image["RepoTags"] == ["envlock/small:latest"]
    assert Digest.of(held[image["Config"]]) == built.platforms[0].config_digest
    assert [Digest.of(held[name]) for name in image["Layers"]] == [
        layer.digest for layer in built.platforms[0].layers
    ]


def test_a_docker_archive_without_compression_holds_the_tars(tmp_path: Path) -> None:
    world = World(tmp_path)
    image = ImageSpec(archive_compression="none")
    outputs = world.outputs(docker_archive=tmp_path / "image.tar")
    layout = world.build(spec_of(tmp_path, image=image), outputs=outputs).layout
    held = files_of(tmp_path / "image.tar")
    (listed,) = json.loads(held["manifest.json"])
    config = json.loads(held[listed["Config"]])
    assert [str(Digest.of(held[name])) for name in listed["Layers"]] == config["rootfs"]["diff_ids"]
    assert (layout / "blobs" / "sha256" / Path(listed["Config"]).stem).is_file()


def test_a_layout_as_tar_is_read_and_is_the_same_twice(tmp_path: Path, program: Programs) -> None:
    world = World(tmp_path)
    first = world.build(outputs=world.outputs(layout=tmp_path / "one.tar", as_tar=True))
    second = world.build(outputs=world.outputs(layout=tmp_path / "two.tar", as_tar=True))
    assert first.layout.read_bytes() == second.layout.read_bytes()
    assert inspect(program("skopeo"), f"oci-archive:{first.layout}")["Digest"] == str(first.digest)


def test_several_platforms_are_one_index(tmp_path: Path) -> None:
    made = bundle(tmp_path, Platform.AMD64, Platform.ARM64)
    write_layout(made, tmp_path / "out")
    index = json.loads((tmp_path / "out" / "blobs" / "sha256" / made.digest.hex).read_bytes())
    assert [entry["platform"] for entry in index["manifests"]] == [
        {"architecture": "amd64", "os": "linux"},
        {"architecture": "arm64", "os": "linux", "variant": "v8"},
    ]


def test_a_docker_archive_of_several_platforms_is_refused_before_anything_is_built(world: World) -> None:
    outputs = world.outputs(docker_archive=world.folder / "several.tar")
    with pytest.raises(FaultyInput) as fault:
        outputs.judge([Platform.AMD64, Platform.ARM64])
    assert fault.value.code == "archive-one-platform"
    outputs.judge([Platform.AMD64])


def test_an_earlier_layout_is_replaced_and_nothing_else_is_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_layout(bundle(tmp_path), out)
    (out / "blobs" / "sha256" / "stale").write_text("x")
    write_layout(bundle(tmp_path), out)
    assert not (out / "blobs" / "sha256" / "stale").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blob", "out"]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_no_layout_is_never_replaced(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
        (out / "thesis.tex").write_text("x")
    elif kind == "file":
        out.write_text("x")
    else:
        out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FaultyInput, match="nothing that envlock wrote") as fault:
        write_layout(bundle(tmp_path), out)
    assert fault.value.code == "output-in-the-way"
    (tmp_path / "dir").mkdir()
    with pytest.raises(FaultyInput):
        write_layout_tar(bundle(tmp_path), tmp_path / "dir")


def test_an_empty_folder_may_become_a_layout(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_layout(bundle(tmp_path), tmp_path / "out")
    assert (tmp_path / "out" / "index.json").is_file()


def test_a_failed_write_leaves_the_earlier_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_layout(bundle(tmp_path), out)
    before = (out / "index.json").read_bytes()
    lost = bundle(tmp_path, Platform.ARM64)
    (tmp_path / "blob").unlink()
    with pytest.raises(MachineLacks):
        write_layout(lost, out)
    assert (out / "index.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".out.envlock-part" / "blobs").mkdir(parents=True)
    (tmp_path / ".out.envlock-old").mkdir()
    write_layout(bundle(tmp_path), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blob", "out"]


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "disk-full"), (errno.EROFS, "output-not-writable")])
def test_a_disk_that_refuses_is_told(tmp_path: Path, number: int, code: str) -> None:
    with pytest.raises(MachineLacks) as fault, replacing(tmp_path / "out", Path.is_file):
        raise OSError(number, os.strerror(number))
    assert fault.value.code == code


def test_bytes_are_shared_or_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"bytes")
    lay(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"bytes"
    with pytest.raises(FileExistsError):
        lay(tmp_path / "a", tmp_path / "b")
