"""Wheels that are broken or made to deceive. Each is refused by name, or comes out as zipfile reads it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from reading import layer_of
from wheels_in_code import SCHEME, SITE, Member, WheelKit, changed, deflated, record_row, zip_bytes

from envlock.errors import FaultyInput
from envlock.image.layers.wheel import WheelInstall, wheel_entries, wheel_paths

TEXT = b"text = 'that packs well'\n" * 1000
FILE = "sample/__init__.py"
FULL = 0xFFFFFFFF


def refused(install: WheelInstall, what: str) -> FaultyInput:
    with pytest.raises(FaultyInput, match=what) as caught:
        layer_of(wheel_entries(install, SCHEME, compiler=None))
    assert caught.value.code == "wheel-faulty"
    assert caught.value.message.startswith(install.file)
    assert caught.value.hint
    return caught.value


def kit(**changes: object) -> WheelKit:
    return replace(WheelKit(files={FILE: TEXT, "sample/b.py": b"b = 1\n"}), **changes)  # type: ignore[arg-type]  # any field


# ---- the zip file


LIES: dict[str, tuple[dict[str, object], str]] = {
    "local name": ({"local": {"name": b"sample/__imit__.py"}}, "another name in its local header"),
    "local name, longer": ({"local": {"name": b"sample/__init__.pyc"}}, "another name in its local header"),
    "local crc": ({"local": {"crc32": 1}}, "disagree"),
    "local size": ({"local": {"size": 1}}, "disagree"),
    "local compressed size": ({"local": {"compressed": 1}}, "disagree"),
    "local method": ({"local": {"method": 0}}, "disagree"),
    "version": ({"version": 64}, "encrypted or of an unknown kind"),
    "local version": ({"local": {"version": 64}}, "of an unknown kind"),
    "local flags": ({"local": {"flags": 2}}, "disagree"),
    "no local header": ({"local": {"signature": b"PK\3\5"}}, "no local header"),
    "zeros without a descriptor": ({"local": {"crc32": 0, "compressed": 0, "size": 0}}, "disagree"),
    "both sizes larger": ({"local": {"size": 30000}, "central": {"size": 30000}}, "fewer bytes"),
    "both sizes smaller": ({"local": {"size": 10}, "central": {"size": 10}}, "more bytes"),
    "both crcs": ({"local": {"crc32": 1}, "central": {"crc32": 1}}, "CRC-32"),
    "compressed size too small": ({"local": {"compressed": 9}, "central": {"compressed": 9}}, "belong to no entry"),
    "compressed size too large": ({"local": {"compressed": 999}, "central": {"compressed": 999}}, "overlaps"),
    "encrypted": ({"flags": 1}, "encrypted"),
    "strong encryption": ({"flags": 1 << 6}, "encrypted"),
    "masked headers": ({"flags": 1 << 13}, "encrypted"),
    "patch data": ({"flags": 1 << 5}, "encrypted"),
    "bzip2": ({"local": {"method": 12}, "central": {"method": 12}}, "unknown kind"),
    "deflate64": ({"local": {"method": 9}, "central": {"method": 9}}, "unknown kind"),
    "lzma": ({"local": {"method": 14}, "central": {"method": 14}}, "unknown kind"),
    "stored with two sizes": ({"local": {"method": 0}, "central": {"method": 0}}, "two sizes"),
    "another disk": ({"central": {"disk": 1}}, "broken"),
    "zip64 without a field": ({"central": {"size": FULL}}, "zip64 field is missing"),
    "zip64 cut short": ({"central": {"size": FULL, "extra": struct.pack("<2HI", 1, 4, 9)}}, "zip64 field is missing"),
    "zip64 local lie": ({"local": {"size": FULL, "extra": struct.pack("<2HQ", 1, 8, 9)}}, "disagree"),
    "zip64 huge": ({"central": {"size": FULL, "extra": struct.pack("<2HQ", 1, 8, 1 << 60)}}, "bomb"),
    "two zip64 fields": ({"central": {"extra": struct.pack("<2H", 1, 0) * 2}}, "broken extra field"),
    "extra field cut short": ({"central": {"extra": b"\1\0\x20\0abc"}}, "broken extra field"),
    "stray bytes of an extra field": ({"local": {"extra": b"\1"}}, "broken extra field"),
    "second name": ({"central": {"extra": struct.pack("<2HBI", 0x7075, 9, 1, 0) + b"evil"}}, "second name"),
    "symlink": ({"mode": 0o120777}, "link or a device"),
    "device": ({"mode": 0o020666}, "link or a device"),
    "directory that is a file": ({"mode": 0o040755}, "link or a device"),
    "gap before": ({"before": b"hidden"}, "first byte"),
    "bytes after deflate's end": ({"deflated": deflated(TEXT) + b"more"}, "after the end of its deflate stream"),
    "two deflate streams": ({"deflated": deflated(TEXT) * 2}, "after the end of its deflate stream"),
    "deflate cut short": ({"deflated": deflated(TEXT)[:-3]}, "cut short"),
    "no deflate at all": ({"deflated": b""}, "cut short"),
    "not deflate": ({"deflated": b"\7" + b"x" * 50}, "not a deflate stream"),
    "zlib frame": ({"deflated": zlib.compress(TEXT)}, "deflate stream"),
    "local offset": ({"central": {"offset": 1}}, "first byte"),
    "wrong descriptor": ({"flags": 8, "descriptor": struct.pack("<III", 1, 2, 3)}, "wrong data descriptor"),
    "missing descriptor": ({"flags": 8}, "wrong data descriptor"),
    "descriptor without its flag": ({"descriptor": struct.pack("<III", 1, 2, 3)}, "belong to no entry"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_entry_that_lies_is_refused(tmp_path: Path, lie: str) -> None:
    changes, what = LIES[lie]
    error = refused(kit().write(tmp_path, changed(kit().members(), FILE, **changes)), what)
    assert FILE in error.message or "first byte" in what or "bomb" in what


FRAMES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "bytes before the first entry": (lambda raw: b"#!/bin/sh\n" + raw, "where the central directory is"),
    "bytes after the end": (lambda raw: raw + b"more", "end record"),
    "a comment": (lambda raw: raw[:-2] + b"\4\0more", "end record"),
    "cut in the directory": (lambda raw: raw[:-30], "end record"),
    "cut in half": (lambda raw: raw[: len(raw) // 2], "end record"),
    "empty": (lambda _: b"", "end record"),
    "not a zip": (lambda _: b"hello" * 100, "end record"),
    "a web page": (lambda _: b"<html>404</html>", "end record"),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_file_with_anything_around_its_entries_is_refused(tmp_path: Path, frame: str) -> None:
    change, what = FRAMES[frame]
    refused(kit().install(tmp_path, change(zip_bytes(kit().members()))), what)


@pytest.mark.parametrize(
    ("end", "what"),
    [
        ({"count": 4}, "bytes after its last entry"),
        ({"count": 6}, "fewer entries"),
        ({"count": 0, "size": 0}, "where the central directory is"),
        ({"disk": 1}, "one part"),
        ({"size": 5}, "where the central directory is"),
        ({"start": 5}, "where the central directory is"),
    ],
)
def test_an_end_record_that_lies_is_refused(tmp_path: Path, end: dict[str, int | bytes], what: str) -> None:
    assert len(kit().members()) == 5
    refused(kit().install(tmp_path, zip_bytes(kit().members(), end=end)), what)


@pytest.mark.parametrize(
    "end64", [{"at": 7}, {"here": 4}, {"count": 6}, {"start": 5}, {"size": 5}, {"count": 1 << 60, "here": 1 << 60}]
)
def test_a_zip64_end_record_that_lies_is_refused(tmp_path: Path, end64: dict[str, int]) -> None:
    refused(
        kit().install(tmp_path, zip_bytes(kit().members(), zip64=True, end64=end64)), "end record|entries|one part"
    )


def test_two_end_records_that_disagree_are_refused(tmp_path: Path) -> None:
    refused(kit().install(tmp_path, zip_bytes(kit().members(), zip64=True, end={"count": 4})), "end records disagree")


def test_bytes_between_the_last_entry_and_the_directory_are_refused(tmp_path: Path) -> None:
    refused(kit().install(tmp_path, zip_bytes(kit().members(), after=b"hidden")), "belong to no entry")


def test_entries_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    members = kit().members()
    twin = replace(members[0], name="sample/twin.py", central={"offset": 0})
    refused(kit().write(tmp_path, [members[0], twin, *members[1:]]), "overlaps|another name")


NAMES = [
    "../evil.py", "sample/../../evil.py", "/etc/passwd", "C:/evil.py", "c:evil.py", "sample\\evil.py", "..", ".",
    "sample/./a.py", "sample//a.py", "./a.py", "a\0b.py", "a\nb.py", "sample/..", "\x7f", "x" * 300 + ".py",
    "a/" * 1500 + "b",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_path_that_could_leave_or_mislead_is_refused(tmp_path: Path, name: str) -> None:
    refused(kit(files={FILE: TEXT, name: b"x"}).write(tmp_path), "unsafe path|too long")


@pytest.mark.parametrize("scheme", ["data", "scripts", "headers", "purelib"])
def test_a_data_scheme_is_no_way_out(tmp_path: Path, scheme: str) -> None:
    refused(kit(files={FILE: TEXT, f"sample-1.0.data/{scheme}/../../x": b"x"}).write(tmp_path), "unsafe path")


@pytest.mark.parametrize(
    "name",
    [
        "sample-1.0.data/other/x",
        "sample-1.0.data/x",
        "another-1.0.data/data/x",
        "sample-1.0.data/data/pyvenv.cfg",
        "sample-1.0.data/scripts/python",
        "sample-1.0.data/scripts/python3.13",
        "sample-1.0.data/data/bin/activate",
        "sample-1.0.data/data/lib64",
    ],
)
def test_a_file_for_no_place_of_the_wheels_own_is_refused(tmp_path: Path, name: str) -> None:
    refused(kit(files={FILE: TEXT, name: b"x"}).write(tmp_path), "place that the wheel standard does not know")


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    members = [Member(name=b"sample/\xff.py", flags=1 << 11), *kit().members()]
    refused(kit().write(tmp_path, members), "not UTF-8")


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    members = kit().members()
    refused(kit().write(tmp_path, [members[0], *members]), "twice")
    folder = Member(name="sample/", mode=0o040755, method=0)
    refused(kit().write(tmp_path, [folder, folder, *members]), "twice")


def test_a_directory_that_holds_bytes_is_refused(tmp_path: Path) -> None:
    refused(kit().write(tmp_path, [Member(name="sample/", data=b"x", mode=0), *kit().members()]), "holds bytes")


def test_a_bomb_is_refused_before_anything_is_inflated(tmp_path: Path) -> None:
    zeros = Member(name="sample/zeros", data=b"", deflated=deflated(bytes(1 << 20)))
    huge = {"size": 1 << 31}
    members = [replace(zeros, local=huge, central=huge), *kit().members()]
    install = kit().write(tmp_path, members)
    refused(install, "bomb")
    with pytest.raises(FaultyInput, match="bomb"):
        wheel_paths(install.path, SCHEME)


def test_a_stream_that_goes_on_past_its_size_is_not_followed(tmp_path: Path) -> None:
    endless = deflated(bytes(1 << 26))
    members = changed(kit().members(), FILE, deflated=endless)
    refused(kit().write(tmp_path, members), "more bytes")


# ---- what a wheel says about itself


def test_record_must_be_there(tmp_path: Path) -> None:
    refused(
        kit().write(tmp_path, [member for member in kit().members() if "RECORD" not in str(member.name)]), "missing"
    )


ROWS: dict[str, tuple[Callable[[str], str], str]] = {
    "a file left out": (lambda text: text.replace(FILE, "sample-1.0.dist-info/RECORD"), "does not stand in RECORD"),
    "a file too many": (lambda text: text + "sample/other.py,sha256=x,1\n", "not in the archive"),
    "a wrong hash": (lambda text: text.replace("sha256=", "sha256=A", 1), "is not what RECORD says"),
    "a wrong size": (lambda text: text.replace(",25000", ",25001"), "is not what RECORD says"),
    "no hash": (lambda text: text.replace(text.split(",")[1], "", 1), "no hash"),
    "md5": (lambda text: text.replace("sha256=", "md5=", 1), "sha256 or better"),
    "sha1": (lambda text: text.replace("sha256=", "sha1=", 1), "sha256 or better"),
    "an unknown algorithm": (lambda text: text.replace("sha256=", "shake_256=", 1), "sha256 or better"),
    "two columns": (lambda text: text + "a,b\n", "2 columns"),
    "four columns": (lambda text: text + "a,b,c,d\n", "4 columns"),
    "a size that is no number": (lambda text: text.replace(",25000", ",²5"), "no number"),
    "a negative size": (lambda text: text.replace(",25000", ",-1"), "no number"),
    "two rows that differ": (lambda text: text + f"{FILE},sha256=x,1\n", "two different rows"),
    "an open quote": (lambda text: text + '"abc', "cannot be understood"),
    "nothing": (lambda _: "", "does not stand in RECORD"),
}


@pytest.mark.parametrize("change", ROWS)
def test_a_record_that_misses_or_belies_a_file_is_refused(tmp_path: Path, change: str) -> None:
    lie, what = ROWS[change]
    honest = next(member.data for member in kit().members() if str(member.name).endswith("RECORD")).decode()
    assert lie(honest) != honest
    refused(kit(record=lie(honest).encode()).write(tmp_path), what)


def test_a_record_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    refused(kit(record=b"\xff\xfe,,\n").write(tmp_path), "not UTF-8")


@pytest.mark.parametrize(
    "metadata",
    [
        b"Metadata-Version: 2.1\nName: other\nVersion: 1.0\n",
        b"Metadata-Version: 2.1\nName: sample\nVersion: 1.1\n",
        b"Metadata-Version: 2.1\nName: sample\nVersion: one\n",
        b"Metadata-Version: 2.1\nVersion: 1.0\n",
        b"",
    ],
)
def test_metadata_unlike_the_file_name_is_refused(tmp_path: Path, metadata: bytes) -> None:
    refused(kit(metadata=metadata).write(tmp_path), "is to be sample 1.0, and is .* by its METADATA")


def test_a_file_name_unlike_its_contents_is_refused(tmp_path: Path) -> None:
    install = kit().write(tmp_path)
    refused(replace(install, file="other-1.0-py3-none-any.whl"), "by its file name")
    refused(replace(install, file="sample-2.0-py3-none-any.whl"), "by its file name")
    refused(replace(install, file="sample.whl"), "not a wheel's file name")
    refused(replace(install, version="1.1"), "is to be sample 1.1")


def test_there_is_one_dist_info_folder_of_that_name(tmp_path: Path) -> None:
    refused(kit(files={FILE: TEXT, "other-1.0.dist-info/x": b""}).write(tmp_path), "2 .dist-info folders")
    renamed = [
        replace(member, name=str(member.name).replace("sample-1.0.dist-info", "sample-2.0.dist-info"))
        for member in kit(record=b"").members()
    ]
    refused(kit().write(tmp_path, renamed), "by its sample-2.0.dist-info")
    nameless = [member for member in kit().members() if ".dist-info" not in str(member.name)]
    refused(kit().write(tmp_path, nameless), "0 .dist-info folders")


@pytest.mark.parametrize("version", [b"", b"Wheel-Version: 2.0\n", b"Wheel-Version: 11.0\n", b"Wheel-Version: x\n"])
def test_another_wheel_version_is_refused(tmp_path: Path, version: bytes) -> None:
    refused(kit(wheel=version).write(tmp_path), "versions 1.x are understood")


@pytest.mark.parametrize(
    "points",
    [
        "[console_scripts]\n../evil = sample:main\n",
        "[console_scripts]\n.. = sample:main\n",
        "[console_scripts]\na/b = sample:main\n",
        "[console_scripts]\nx = sample\n",
        "[console_scripts]\nx = sample:main; import os\n",
        "[console_scripts]\nx = sample:main\n[gui_scripts]\nx = sample:other\n",
        "[console_scripts]\nx = sample:main\nx = sample:main\n",
        "x = 1\n",
        "[console_scripts]\nx = %(y)s\n",
    ],
)
def test_an_entry_point_that_is_no_script_is_refused(tmp_path: Path, points: str) -> None:
    refused(kit(entry_points=points).write(tmp_path), "asks for|cannot be understood")


@pytest.mark.parametrize("name", ["python", "python3", "python3.13", "activate"])
def test_an_entry_point_cannot_replace_the_environments_own_programs(tmp_path: Path, name: str) -> None:
    points = f"[console_scripts]\n{name} = sample:main\n"
    refused(kit(entry_points=points).write(tmp_path), f"replace the environment's own opt/env/bin/{name}")


def test_two_files_for_one_path_are_refused(tmp_path: Path) -> None:
    refused(kit(files={FILE: TEXT, f"sample-1.0.data/purelib/{FILE}": b""}).write(tmp_path), "so is another entry")
    refused(kit(files={FILE: TEXT, "sample": b""}).write(tmp_path), "as a file and as a directory")
    script = {"sample-1.0.data/data/bin/run": b""}
    refused(kit(files=script, entry_points="[console_scripts]\nrun = a:b\n").write(tmp_path), "both installed as")


def test_a_script_that_is_rewritten_is_checked_against_record_all_the_same(tmp_path: Path) -> None:
    name = "sample-1.0.data/scripts/run"
    rows = [record_row(str(member.name), member.data) for member in kit().members()[:4]]
    text = "".join(",".join(row) + "\n" for row in [*rows, record_row(name, b"#!python\nother\n")])
    refused(
        kit(files={**kit().files, name: b"#!python\nevil!\n"}, record=text.encode()).write(tmp_path), "RECORD says"
    )


# ---- any byte


def test_a_wheel_with_any_byte_changed_is_refused_or_read_as_zipfile_reads_it(tmp_path: Path) -> None:
    whole = kit(stored=frozenset({"sample/b.py"}), entry_points="[console_scripts]\nrun = sample:main\n")
    raw = zip_bytes(whole.members())
    random = Random(20)  # noqa: S311 (the same changes each time)
    taken = 0
    for _ in range(700):
        at = random.randrange(len(raw))
        mutant = raw[:at] + bytes([raw[at] ^ (1 << random.randrange(8))]) + raw[at + 1 :]
        install = whole.install(tmp_path, mutant)
        try:
            layer = layer_of(wheel_entries(install, SCHEME, compiler=None))
        except FaultyInput:
            continue
        taken += 1
        with zipfile.ZipFile(io.BytesIO(mutant)) as oracle:
            kept = {name for name in oracle.namelist() if not name.endswith("RECORD")}
            files = layer.files()
            assert {f"{SITE}/{name}": oracle.read(name) for name in kept}.items() <= files.items()
            assert len(files) == len(kept) + 3  # RECORD, INSTALLER, run
    assert 0 < taken < 200  # times, versions and attributes of entries do not matter
