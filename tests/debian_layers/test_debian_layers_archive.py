from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from debs_in_code import COMPRESSORS, Item, Package, ar_of, deb_of, members_of, tar_of

from envlock.errors import FaultyInput
from envlock.image.layers.debian import deb_entries
from envlock.image.layers.debian_archive import read_control_files, read_files, read_members

HELLO = Item(path="./usr/bin/hello", body=b"hello\n", mode=0o755)
HONEST = Package(items=[Item(path="./usr/"), Item(path="./usr/bin/"), HELLO])


def refusal(folder: Path, package: Package, **kwargs: object) -> FaultyInput:
    deb = deb_of(folder, package, **kwargs)  # type: ignore[arg-type]  # members or data, as deb_of takes them
    with pytest.raises(FaultyInput) as caught:
        list(deb_entries(deb))
    assert caught.value.code == "deb-faulty"
    assert deb.path.name in caught.value.message
    return caught.value


@pytest.mark.parametrize("compression", COMPRESSORS)
def test_reads_every_compression(tmp_path: Path, compression: str) -> None:
    deb = deb_of(tmp_path, Package(items=HONEST.items, compression=compression))
    assert [(member.path, member.body) for member in read_members(deb)] == [
        ("usr", None),
        ("usr/bin", None),
        ("usr/bin/hello", b"hello\n"),
    ]


def test_reads_control_files_with_their_modes(tmp_path: Path) -> None:
    deb = deb_of(tmp_path, Package(scripts={"postinst": "#!/bin/sh\n"}))
    files = {file.name: file for file in read_control_files(deb)}
    assert files["postinst"].mode == 0o755
    assert files["control"].body.startswith(b"Package: example\n")


def test_reads_single_files(tmp_path: Path) -> None:
    deb = deb_of(tmp_path, HONEST)
    assert read_files(deb, {"usr/bin/hello", "usr/bin/none"}) == {"usr/bin/hello": b"hello\n"}


def test_skips_members_that_the_format_lets_one_skip(tmp_path: Path) -> None:
    version, control, data = members_of(HONEST)
    deb = deb_of(tmp_path, HONEST, members=[version, ("_note", b"odd"), control, data, ("_sign", b"x")])
    assert len(read_members(deb)) == 3


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("./usr/../../etc/passwd", "leaves the root"),
        ("../etc/passwd", "leaves the root"),
        ("/etc/passwd", "leaves the root"),
        (".//etc/passwd", "leaves the root"),
        ("./etc/a\nb", "line end"),
    ],
)
def test_refuses_paths_that_are_not_plain(tmp_path: Path, path: str, what: str) -> None:
    assert what in refusal(tmp_path, Package(items=[Item(path=path, body=b"x")], md5sums=False)).message


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE])
def test_refuses_devices_pipes_and_unknown_kinds(tmp_path: Path, kind: bytes) -> None:
    fault = refusal(tmp_path, Package(items=[Item(path="./dev/odd", kind=kind)]))
    assert "deb" in fault.message


def test_refuses_an_entry_that_comes_twice(tmp_path: Path) -> None:
    assert "usr/bin/hello: stands twice" in refusal(tmp_path, Package(items=[HELLO, HELLO])).message


@pytest.mark.parametrize("first", [True, False])
def test_refuses_what_lies_below_a_link(tmp_path: Path, *, first: bool) -> None:
    items = [Item(path="./etc", symlink="/root"), Item(path="./etc/passwd", body=b"x")]
    fault = refusal(tmp_path, Package(items=items if first else items[::-1]))
    assert "etc/passwd: lies below etc" in fault.message


@pytest.mark.parametrize("target", ["./usr/bin/none", "../outside", "./etc"])
def test_refuses_a_hard_link_to_no_earlier_file(tmp_path: Path, target: str) -> None:
    refusal(tmp_path, Package(items=[Item(path="./etc/"), Item(path="./usr/bin/link", hardlink=target)]))


def test_refuses_a_link_to_nothing(tmp_path: Path) -> None:
    refusal(tmp_path, Package(items=[Item(path="./usr/bin/link", symlink="")]))


def test_refuses_two_paths_that_meet_on_a_merged_usr(tmp_path: Path) -> None:
    items = [Item(path="./bin/hello", body=b"one"), HELLO]
    assert "usr/bin/hello comes twice" in refusal(tmp_path, Package(items=items)).message


@pytest.mark.parametrize("lost", [1, 1024, 10240])
def test_refuses_a_tar_that_is_cut_short(tmp_path: Path, lost: int) -> None:
    tar = tar_of([HELLO, Item(path="./usr/bin/big", body=b"x" * 12000)])
    refusal(tmp_path, HONEST, data=tar[:12000][:-lost] if lost > 1024 else tar.rstrip(b"\0")[:-lost])


def test_refuses_what_follows_the_end_of_the_tar(tmp_path: Path) -> None:
    assert "goes on" in refusal(tmp_path, HONEST, data=tar_of([HELLO]) + b"more").message


def test_refuses_a_damaged_header_inside_the_tar(tmp_path: Path) -> None:
    tar = bytearray(tar_of([HELLO, Item(path="./usr/bin/other", body=b"x")]))
    tar[1024 + 20] ^= 0xFF  # in the second header, which tarfile would take for the end
    refusal(tmp_path, HONEST, data=bytes(tar))


def test_refuses_damaged_compression(tmp_path: Path) -> None:
    version, control, (name, data) = members_of(HONEST)
    broken = data[: len(data) // 2]
    assert "inflated" in refusal(tmp_path, HONEST, members=[version, control, (name, broken)]).message


@pytest.mark.parametrize(
    "members",
    [
        [],
        members_of(HONEST)[:2],
        members_of(HONEST)[1:],
        [*members_of(HONEST), ("extra", b"x")],
        [members_of(HONEST)[0], ("surprise", b"x"), *members_of(HONEST)[1:]],
        [("debian-binary", b"3.0\n"), *members_of(HONEST)[1:]],
        [*members_of(HONEST)[:2], ("data.tar.rar", b"x")],
    ],
)
def test_refuses_other_members(tmp_path: Path, members: list[tuple[str, bytes]]) -> None:
    refusal(tmp_path, HONEST, members=members)


def test_refuses_a_size_that_lies(tmp_path: Path) -> None:
    deb = deb_of(tmp_path, HONEST)
    deb.path.write_bytes(ar_of(members_of(HONEST))[:-100])
    with pytest.raises(FaultyInput, match=r"data\.tar"):
        list(deb_entries(deb))


def test_refuses_what_is_no_package(tmp_path: Path) -> None:
    deb = deb_of(tmp_path, HONEST)
    deb.path.write_bytes(b"<html>not found</html>")
    with pytest.raises(FaultyInput, match="not a Debian package"):
        list(deb_entries(deb))


@pytest.mark.parametrize("field", ["Package", "Version", "Architecture"])
def test_refuses_a_package_that_is_not_the_locked_one(tmp_path: Path, field: str) -> None:
    assert f"control: {field} is 'other'" in refusal(tmp_path, Package(control={field: "other"})).message
