from __future__ import annotations

import stat
from pathlib import Path

import pytest
from debs_in_code import Item, Package, deb_of

from envlock.errors import FaultyInput
from envlock.image.layers.debian import interpreter, interpreter_debs, unpack_root
from envlock.platforms import Platform

PYTHON = [
    Package(name="python3.13-minimal", control={"Depends": "libpython3.13-minimal (= 1), media-types | mailcap"}),
    Package(
        name="libpython3.13-minimal", control={"Multi-Arch": "same", "Pre-Depends": "libc6 (>= 2.38), libssl3t64"}
    ),
    Package(name="libpython3.13-stdlib", control={"Multi-Arch": "same", "Depends": "libnone | libffi8, tzdata"}),
    Package(name="libc6", control={"Multi-Arch": "same"}),
    Package(name="libffi8", control={"Multi-Arch": "same"}),
    Package(name="libssl3t64", control={"Multi-Arch": "same"}),
    Package(name="media-types"),
    Package(name="tzdata", architecture="all"),
    Package(name="gcc", control={"Depends": "libc6"}),
    Package(name="libother", control={"Multi-Arch": "same"}),
]


def test_only_what_the_interpreter_needs_is_chosen(tmp_path: Path) -> None:
    debs = [deb_of(tmp_path, package) for package in PYTHON]
    assert [deb.name for deb in interpreter_debs(debs)] == [
        "libc6",
        "libffi8",
        "libpython3.13-minimal",
        "libpython3.13-stdlib",
        "libssl3t64",
        "python3.13-minimal",
    ]


def test_a_base_without_python_is_told(tmp_path: Path) -> None:
    with pytest.raises(FaultyInput) as caught:
        interpreter_debs([deb_of(tmp_path, Package())])
    assert caught.value.code == "base-without-python"


def test_a_root_is_unpacked_for_the_calling_user(tmp_path: Path) -> None:
    package = Package(
        items=[
            Item(path="./lib/x/"),
            Item(path="./lib/x/ld.so", body=b"ld", mode=0o755),
            Item(path="./lib64/ld.so", symlink="/lib/x/ld.so"),
            Item(path="./usr/bin/su", body=b"su", mode=0o4755, uid=12345),
            Item(path="./usr/bin/again", hardlink="./usr/bin/su"),
            Item(path="./usr/closed/", mode=0o500),
            Item(path="./usr/closed/secret", body=b"x", mode=0o400),
        ]
    )
    root = tmp_path / "deep" / "root"
    unpack_root([deb_of(tmp_path, package)], root)
    assert (root / "usr/lib/x/ld.so").read_bytes() == b"ld"
    assert (root / "usr/lib64/ld.so").readlink() == Path("../../lib/x/ld.so")
    assert stat.S_IMODE((root / "usr/bin/su").stat().st_mode) == 0o755
    assert (root / "usr/bin/again").samefile(root / "usr/bin/su")
    assert stat.S_IMODE((root / "usr/closed").stat().st_mode) & 0o700 == 0o700
    assert sorted(path.name for path in root.parent.iterdir()) == ["root"]


def test_a_root_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    good = deb_of(tmp_path, Package(items=[Item(path="./etc/x", body=b"x")]))
    bad = deb_of(tmp_path, Package(name="bad"), data=b"rubbish")
    with pytest.raises(FaultyInput):
        unpack_root([good, bad], tmp_path / "roots" / "root")
    assert not list((tmp_path / "roots").iterdir())


def test_nothing_is_written_through_another_packages_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = deb_of(tmp_path, Package(name="a", items=[Item(path="./srv", symlink=f"../../../{outside.name}")]))
    file = deb_of(tmp_path, Package(name="b", items=[Item(path="./srv/x", body=b"x")]))
    with pytest.raises(FaultyInput, match="srv/x: lies below a link that leaves the root"):
        unpack_root([link, file], tmp_path / "a" / "b" / "root")
    assert not list(outside.iterdir())


def test_absolute_links_lead_inside_the_root(tmp_path: Path) -> None:
    link = deb_of(tmp_path, Package(name="a", items=[Item(path="./srv", symlink="/usr")]))
    file = deb_of(tmp_path, Package(name="b", items=[Item(path="./srv/x", body=b"x")]))
    folder = deb_of(tmp_path, Package(name="c", items=[Item(path="./usr/")]))
    unpack_root([folder, link, file], tmp_path / "root")
    assert (tmp_path / "root/usr/x").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("platform", "loader"),
    [
        (Platform.AMD64, "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
        (Platform.ARM64, "usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"),
        (Platform.AMD64, "usr/lib64/ld-linux-x86-64.so.2"),
    ],
)
def test_the_interpreter_runs_through_the_roots_own_loader(tmp_path: Path, platform: Platform, loader: str) -> None:
    for path in (loader, "usr/bin/python3.13"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    command, environment = interpreter(tmp_path, platform, "3.13")
    libraries = tmp_path / "usr/lib" / platform.multiarch
    assert command == (
        str(tmp_path / loader),
        "--inhibit-cache",
        "--library-path",
        str(libraries),
        str(tmp_path / "usr/bin/python3.13"),
    )
    assert environment["PYTHONHOME"] == str(tmp_path / "usr")


def test_a_root_without_that_python_is_told(tmp_path: Path) -> None:
    with pytest.raises(FaultyInput) as caught:
        interpreter(tmp_path, Platform.AMD64, "3.13")
    assert caught.value.code == "base-without-python"
