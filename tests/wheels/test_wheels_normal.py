from __future__ import annotations

import random
import stat
import zipfile
from pathlib import Path

import pytest
from installer.sources import WheelFile
from wheels_kit import make_wheel

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.lock.wheels.normal_wheel import read_wheel, write_wheel

FILE = "tool-1.0-py3-none-any.whl"
WHEEL = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRIES = [
    ("tool/__init__.py", b"", 0o644),
    ("tool/run.sh", b"#!/bin/sh\n", 0o755),
    ("tool/na\u00efve.txt", b"x" * 1000, 0o600),
    ("tool-1.0.data/scripts/tool", b"#!python\n", 0o775),
    ("tool-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n", 0o644),
    ("tool-1.0.dist-info/WHEEL", WHEEL, 0o644),
    ("tool-1.0.dist-info/RECORD", b"nonsense", 0o644),
    ("tool-1.0.dist-info/RECORD.jws", b"signed", 0o644),
]


def write(path: Path, entries: list[tuple[str, bytes, int]], *, year: int = 2021, method: int = 8) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tool/", b"")
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name, (year, 2, 3, 4, 5, 6))
            info.external_attr = (stat.S_IFREG | mode) << 16
            info.compress_type = method
            archive.writestr(info, data)
    return path


def normal(path: Path, file: str = FILE) -> bytes:
    return write_wheel(read_wheel(path, file))


def test_order_times_modes_and_compression_of_the_original_do_not_matter(tmp_path: Path) -> None:
    shuffled = random.Random(7).sample(ENTRIES, len(ENTRIES))  # noqa: S311 (an order, not a secret)
    one = write(tmp_path / "one.whl", ENTRIES)
    other = write(
        tmp_path / "other.whl", [(name, data, mode & ~0o066) for name, data, mode in shuffled], year=1999, method=0
    )
    assert normal(one) == normal(other)


def test_the_bytes_are_these_and_no_others(tmp_path: Path) -> None:
    """When this fails the normal form has changed: NORMAL_FORM must go up, and every lock with built wheels anew."""
    data = normal(write(tmp_path / "one.whl", ENTRIES))
    assert Digest.of(data).hex == "a6cf970748f74702ff9a5b9e480424a21fe7cbb7a3d75291f99882fee81f448a"


def test_the_normal_form_is_sorted_stored_dated_and_of_two_modes(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(normal(write(tmp_path / "one.whl", ENTRIES)))
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        assert archive.testzip() is None
    assert [info.filename for info in infos] == [
        "tool-1.0.data/scripts/tool",
        "tool/__init__.py",
        "tool/na\u00efve.txt",
        "tool/run.sh",
        "tool-1.0.dist-info/METADATA",
        "tool-1.0.dist-info/WHEEL",
        "tool-1.0.dist-info/RECORD",
    ]
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}
    assert {info.date_time for info in infos} == {(2000, 1, 1, 0, 0, 0)}
    modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in infos}
    assert {name for name, mode in modes.items() if mode == 0o755} == {"tool/run.sh", "tool-1.0.data/scripts/tool"}
    assert set(modes.values()) == {0o644, 0o755}


def test_an_installer_finds_its_record_true(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(normal(write(tmp_path / "one.whl", ENTRIES)))
    with WheelFile.open(path) as wheel:
        wheel.validate_record()


def test_normalising_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(normal(make_wheel(tmp_path / "made", "tool", "1.0")))
    assert normal(path) == path.read_bytes()


@pytest.mark.parametrize(
    "entries",
    [
        [*ENTRIES, ("tool/../../evil", b"", 0o644)],
        [*ENTRIES, ("/evil", b"", 0o644)],
        [*ENTRIES, ("other-1.0.dist-info/METADATA", b"", 0o644), ("Tool-2.0.dist-info/METADATA", b"", 0o644)],
        [entry for entry in ENTRIES if "dist-info" not in entry[0]],
    ],
)
def test_wheels_that_are_not_sound_are_refused(entries: list[tuple[str, bytes, int]], tmp_path: Path) -> None:
    with pytest.raises(FaultyInput) as caught:
        read_wheel(write(tmp_path / FILE, entries), FILE)
    assert caught.value.code == "wheel-faulty"


def test_a_broken_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"PK no")
    with pytest.raises(FaultyInput):
        read_wheel(tmp_path / FILE, FILE)


@pytest.mark.parametrize(
    ("tags", "pure"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("cp311-cp311-linux_x86_64", False),
        ("py3-none-linux_x86_64", False),
    ],
)
def test_machine_code_shows_in_the_tags(tags: str, pure: bool, tmp_path: Path) -> None:  # noqa: FBT001 (a parameter)
    path = make_wheel(tmp_path, "tool", "1.0", tags=tags)
    assert (read_wheel(path, path.name).impure is None) == pure


def test_a_wheel_that_says_it_is_not_pure_is_not(tmp_path: Path) -> None:
    impure = WHEEL.replace(b"true", b"false")
    entries = [(name, impure if name.endswith("WHEEL") else data, mode) for name, data, mode in ENTRIES]
    assert read_wheel(write(tmp_path / FILE, entries), FILE).impure == "it says Root-Is-Purelib: false"
