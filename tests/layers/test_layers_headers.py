from __future__ import annotations

import io
import tarfile

import pytest

from envlock.image.layers.entries import Directory, Entry, File, Hardlink, Symlink
from envlock.image.layers.tar_headers import END, MTIME, header


def read(entry: Entry, size: int = 0) -> tarfile.TarInfo:
    with tarfile.open(fileobj=io.BytesIO(header(entry, size) + END), errorlevel=2) as tar:
        found = tar.next()
    assert found is not None
    return found


def test_a_file_has_owner_mode_and_time_and_no_names() -> None:
    found = read(File(path="opt/a", body=b"", mode=0o4755, uid=3, gid=4))
    assert (found.name, found.mode, found.uid, found.gid) == ("opt/a", 0o4755, 3, 4)
    assert (found.mtime, found.uname, found.gname, found.isreg()) == (MTIME, "", "", True)


def test_the_header_of_a_plain_file_has_the_fields_of_the_specification() -> None:
    block = header(File(path="opt/env/a.py", body=b"", mode=0o755, uid=7, gid=8), 1234)
    assert block[:12] == b"opt/env/a.py"
    assert block[100:148] == b"0000755\x000000007\x000000010\x0000000002322\x0007033241600\0"
    assert block[148:157] == b"%06o\0 0" % (sum(block[:148]) + 8 * 32 + sum(block[156:]))
    assert block[257:265] == b"ustar\x0000"
    assert block[329:345] == b"0000000\x000000000\0"
    assert len(block) == 512
    assert not (block[12:100] + block[157:257] + block[265:329] + block[345:]).strip(b"\0")


def test_directories_and_links_keep_their_kind_and_target() -> None:
    assert read(Directory(path="opt/d")).isdir()
    link = read(Symlink(path="opt/l", target="../x"))
    assert (link.issym(), link.linkname) == (True, "../x")
    name = read(Hardlink(path="opt/h", target="opt/a"))
    assert (name.islnk(), name.linkname) == (True, "opt/a")


@pytest.mark.parametrize("length", [99, 100, 101, 102, 200, 254, 255, 256, 257, 300, 5000])
@pytest.mark.parametrize("part", [9, 50, 99, 100, 101, 200])
def test_a_path_of_any_length_is_read_back(length: int, part: int) -> None:
    path = "/".join("x" * part for _ in range(length // (part + 1) + 1))[:length].rstrip("/")
    for entry in (File(path=path, body=b""), Directory(path=path), Symlink(path=path, target=path)):
        assert read(entry).name == path


def test_a_path_that_ustar_can_hold_takes_one_block() -> None:
    assert len(header(File(path="x" * 100, body=b""))) == 512
    assert len(header(File(path="p" * 155 + "/" + "x" * 100, body=b""))) == 512
    assert len(header(File(path="x" * 101, body=b""))) == 3 * 512
    assert len(header(File(path="p" * 156 + "/" + "x" * 99, body=b""))) == 3 * 512


@pytest.mark.parametrize("name", ["é", "名前/ファイル.py", "emoji-🐍", "é" * 300])
def test_names_outside_ascii_are_read_back(name: str) -> None:
    assert read(File(path=f"opt/{name}", body=b"")).name == f"opt/{name}"
    assert read(Symlink(path="opt/l", target=name)).linkname == name


@pytest.mark.parametrize("size", [8 * 1024**3 - 1, 8 * 1024**3, 10**13])
def test_sizes_around_eight_gibibytes_are_read_back(size: int) -> None:
    assert read(File(path="big", body=b""), size).size == size


@pytest.mark.parametrize("number", [0o7777777, 0o10000000, 2**31])
def test_large_owners_are_read_back(number: int) -> None:
    found = read(File(path="a", body=b"", uid=number, gid=number))
    assert (found.uid, found.gid) == (number, number)


@pytest.mark.parametrize("length", [100, 101, 1000])
def test_long_targets_are_read_back(length: int) -> None:
    assert read(Symlink(path="l", target="t" * length)).linkname == "t" * length


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "./a", "a/.", "..", "a/../b", "a/..", "a\0b"])
def test_a_path_that_is_not_clean_and_relative_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="clean relative path"):
        header(File(path=path, body=b""))


@pytest.mark.parametrize("path", ["...", ".a", "..a", "a/.b/..c", "a.", "a/b..", "with space", "a\\b"])
def test_a_path_that_only_looks_odd_is_taken(path: str) -> None:
    assert read(File(path=path, body=b"")).name == path
