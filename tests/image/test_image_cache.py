"""Layers in the store: found whole or not at all, built once, and read back before they count."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from image_world import flip

from envlock.digest import Digest
from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.store import Store
from envlock.image.layer_cache import LayerCache
from envlock.image.layer_job import LayerJob, build_layer
from envlock.image.layers.entries import Directory, File, Symlink
from envlock.image.members import Member, pack_members, read_back, unpack_members
from envlock.image.recipes import FilesRecipe

RECIPE = FilesRecipe(
    entries=(Directory(path="a"), File(path="a/b", body=b"text", mode=0o755), Symlink(path="c", target="/a/b"))
)


def never() -> bool:
    return False


def job(store: Store) -> LayerJob:
    return LayerJob(recipe=RECIPE, store=store.root, files=())


def tar_file(folder: Path, *members: tarfile.TarInfo) -> tuple[Path, Digest]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    path = folder / "layer"
    path.write_bytes(gzip.compress(out.getvalue()))
    return path, Digest.of(out.getvalue())


def info(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


def test_a_layer_is_built_once_and_found_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cache = LayerCache(store)
    assert cache.find(RECIPE.key) is None
    layer, there = build_layer(job(store), never)
    assert (there, cache.find(RECIPE.key)) == (False, layer)
    assert build_layer(job(store), never) == (layer, True)
    assert cache.members(layer) == (
        Member("a", "directory", 0o755, 0, 0, 0, 0, ""),
        Member("a/b", "file", 0o755, 0, 0, 4, zlib.crc32(b"text"), "", "envlock"),
        Member("c", "symlink", 0o777, 0, 0, 0, 0, "/a/b", "envlock"),
    )


def test_two_that_want_the_same_layer_build_it_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: build_layer(job(Store(tmp_path)), never), range(4)))
    assert sorted(there for _, there in results) == [False, True, True, True]
    assert len({layer.blob.digest for layer, _ in results}) == 1


@pytest.mark.parametrize("part", ["blob", "members", "record"])
def test_what_is_not_whole_is_not_found_and_built_again(tmp_path: Path, part: str) -> None:
    store = Store(tmp_path)
    layer, _ = build_layer(job(store), never)
    paths = {
        "blob": store.path(layer.blob.digest),
        "members": store.path(layer.members),
        "record": tmp_path / "layers" / f"{RECIPE.key.hex}.json",
    }
    paths[part].chmod(0o644)
    paths[part].write_bytes(b"" if part != "record" else b'{"key": 1}')
    assert LayerCache(store).find(RECIPE.key) is None
    again, there = build_layer(job(store), never)
    assert (again, there) == (layer, False)


@pytest.mark.parametrize("part", ["blob", "members"])
def test_a_layer_that_the_disk_changed_is_found_out_and_removed(tmp_path: Path, part: str) -> None:
    store = Store(tmp_path)
    layer, _ = build_layer(job(store), never)
    path = store.path(layer.blob.digest if part == "blob" else layer.members)
    flip(path)
    assert LayerCache(store).find(RECIPE.key, verify=True) is None
    assert not path.exists()
    assert build_layer(job(store), never) == (layer, False)
    assert LayerCache(store).find(RECIPE.key, verify=True) == layer


def test_a_cancelled_build_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(MachineLacks) as stopped:
        build_layer(job(store), lambda: True)
    assert stopped.value.code == "cancelled"
    assert LayerCache(store).find(RECIPE.key) is None
    assert not list((tmp_path / "tmp").iterdir())


def test_the_key_is_of_contents_modes_and_links() -> None:
    others = [
        FilesRecipe(entries=(*RECIPE.entries[:2], Symlink(path="c", target="/a"))),
        FilesRecipe(entries=(RECIPE.entries[0], File(path="a/b", body=b"text"), RECIPE.entries[2])),
        FilesRecipe(entries=(RECIPE.entries[0], File(path="a/b", body=b"else", mode=0o755), RECIPE.entries[2])),
        FilesRecipe(entries=(Directory(path="a", uid=1), *RECIPE.entries[1:])),
    ]
    assert len({RECIPE.key, *(other.key for other in others)}) == 5


def test_members_are_packed_and_unpacked() -> None:
    members = (Member("é", "file", 0o644, 1, 2, 3, 4, "", "torch 2.0"), Member("l", "hardlink", 0, 0, 0, 0, 0, "é"))
    assert unpack_members(pack_members(members)) == members


def test_reading_back_finds_another_tar(tmp_path: Path) -> None:
    path, diff_id = tar_file(tmp_path, info("a"))
    assert [member.path for member in read_back(path, diff_id)] == ["a"]
    with pytest.raises(FaultyInput, match="another tar"):
        read_back(path, Digest.of(b"other"))


@pytest.mark.parametrize(
    "member",
    [
        info("dev/null", tarfile.CHRTYPE),
        info("/absolute"),
        info("a/../b"),
        info("hard", tarfile.LNKTYPE, "../out"),
        info("hard", tarfile.LNKTYPE, "/etc/passwd"),
    ],
)
def test_reading_back_refuses_what_no_layer_may_hold(tmp_path: Path, member: tarfile.TarInfo) -> None:
    path, diff_id = tar_file(tmp_path, member)
    with pytest.raises(FaultyInput) as fault:
        read_back(path, diff_id)
    assert fault.value.code == "layer-faulty"


@pytest.mark.parametrize("cut", [20, 60])
def test_reading_back_refuses_what_is_cut_off(tmp_path: Path, cut: int) -> None:
    path, diff_id = tar_file(tmp_path, info("a"))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FaultyInput, match="cannot be read back"):
        read_back(path, diff_id)
