from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from wheels_kit import make_sdist

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.lock.wheels.sdist import EPOCH, SdistSource, unpack_archive


def tar(path: Path, *members: tuple[str, bytes | str, int] | tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content, mode = member
            info = tarfile.TarInfo(name)
            info.mode, info.mtime = mode, 1234567890
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def test_modes_and_times_are_fixed_whatever_the_archive_and_umask_say(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar.gz",
        ("a-1/tool", b"#!/bin/sh\n", 0o6751),
        ("a-1/deep/data", b"x", 0o600),
        ("a-1/link", "deep/data", 0o777),
    )
    before = os.umask(0o077)
    try:
        unpack_archive(archive, "a.tar.gz", tmp_path / "out")
    finally:
        os.umask(before)
    root = tmp_path / "out" / "a-1"
    assert stat.S_IMODE((root / "tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "deep" / "data").stat().st_mode) == 0o644
    assert (root / "link").read_bytes() == b"x"
    assert {path.lstat().st_mtime for path in (root, *root.rglob("*"))} == {EPOCH}


def test_a_zip_file_is_unpacked_alike(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("a-1/tool", (1990, 1, 1, 0, 0, 0))
        info.external_attr = 0o100755 << 16
        archive.writestr(info, b"x")
        archive.writestr("a-1/sub/", b"")
    unpack_archive(tmp_path / "a.zip", "a.zip", tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out" / "a-1" / "tool").stat().st_mode) == 0o755
    assert (tmp_path / "out" / "a-1" / "sub").is_dir()


def hard_link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.LNKTYPE, target
    return info


def test_a_hard_link_becomes_a_copy(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar.gz", ("a-1/one", b"x", 0o755), hard_link("a-1/two", "a-1/one"))
    unpack_archive(archive, "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out" / "a-1" / "two").read_bytes() == b"x"
    assert stat.S_IMODE((tmp_path / "out" / "a-1" / "two").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "member",
    [
        ("../evil", b"x", 0o644),
        ("/evil", b"x", 0o644),
        ("a-1/../../evil", b"x", 0o644),
        ("a-1/link", "../../evil", 0o777),
        ("a-1/link", "/etc/passwd", 0o777),
        hard_link("a-1/two", "../evil"),
    ],
)
def test_what_leads_out_of_the_archive_is_refused(
    member: tuple[str, bytes | str, int] | tarfile.TarInfo, tmp_path: Path
) -> None:
    archive = tar(tmp_path / "a.tar.gz", ("a-1/one", b"x", 0o644), member)
    with pytest.raises(FaultyInput) as caught:
        unpack_archive(archive, "a.tar.gz", tmp_path / "out" / "in")
    assert caught.value.code == "sdist-faulty"
    assert not (tmp_path / "out" / "evil").exists()


def test_a_link_is_judged_by_where_it_really_stands(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar.gz",
        ("a-1/one", b"x", 0o644),
        ("a-1/p/q/up", "../..", 0o777),
        ("a-1/p/q/up/out", "../../..", 0o777),
        hard_link("a-1/p/q/up/out/evil", "a-1/one"),
    )
    with pytest.raises(FaultyInput, match="leads out of it"):
        unpack_archive(archive, "a.tar.gz", tmp_path / "deep" / "down" / "out")
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    "members",
    [
        [("a-1/sub", ".", 0o777), ("a-1/sub/file", b"x", 0o644)],
        [("a-1/sub", b"x", 0o644), ("a-1/sub/file", b"x", 0o644)],
        [("a-1/sub/file", b"x", 0o644), ("a-1/sub", b"x", 0o644)],
        [("a-1/one", b"x", 0o644), hard_link("a-1/two", "a-1/three")],
    ],
    ids=["through-a-link", "below-a-file", "in-place-of-a-folder", "of-nothing"],
)
def test_what_cannot_be_there_is_refused(
    members: list[tuple[str, bytes | str, int] | tarfile.TarInfo], tmp_path: Path
) -> None:
    archive = tar(tmp_path / "a.tar.gz", *members)
    with pytest.raises(FaultyInput) as caught:
        unpack_archive(archive, "a.tar.gz", tmp_path / "out")
    assert caught.value.code == "sdist-faulty"


def test_a_damaged_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a-1/tool", b"x" * 100)
    data = (tmp_path / "a.zip").read_bytes()
    start = data.index(b"a-1/tool") + len("a-1/tool")
    (tmp_path / "a.zip").write_bytes(data[:start] + b"\xff" + data[start + 1 :])
    with pytest.raises(FaultyInput):
        unpack_archive(tmp_path / "a.zip", "a.zip", tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"no archive", b"\x1f\x8b\x08\x00broken"])
def test_what_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(data)
    with pytest.raises(FaultyInput):
        unpack_archive(tmp_path / "a.tar.gz", "a.tar.gz", tmp_path / "out")


def source(path: Path) -> SdistSource:
    return SdistSource(
        name="tool", path=path, file=path.name, size=path.stat().st_size, sha256=Digest.of_file(path), index="default"
    )


def test_a_source_knows_its_root_and_what_a_lock_says_of_it(tmp_path: Path) -> None:
    sdist = source(make_sdist(tmp_path, "tool", "1.0", {"setup.py": ""}))
    assert sdist.unpack(tmp_path / "out") == tmp_path / "out" / "tool-1.0"
    built = sdist.built_from("3.11", ())
    assert (built.file, built.sha256, built.python, built.index) == (
        "tool-1.0.tar.gz",
        sdist.sha256,
        "3.11",
        "default",
    )


def test_a_source_without_one_root_is_refused(tmp_path: Path) -> None:
    archive = tar(tmp_path / "tool-1.0.tar.gz", ("a/setup.py", b"", 0o644), ("b/setup.py", b"", 0o644))
    with pytest.raises(FaultyInput, match="one folder"):
        source(archive).unpack(tmp_path / "out")
