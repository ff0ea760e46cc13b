"""The proof over finished layers: what it finds, however it is hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest
from image_world import locked_wheel

from envlock.errors import Difference
from envlock.image.check import LayerContents, check_image, find_overwritten
from envlock.image.layer_cache import Overwritten
from envlock.image.members import Member

SITE = "opt/env/lib/python3.13/site-packages"


def member(path: str, kind: str = "file", target: str = "", *, mode: int = 0o644, crc32: int = 0) -> Member:
    return Member(path, kind, 0o755 if kind == "directory" and mode == 0o644 else mode, 0, 0, 0, crc32, target)


def directory(path: str, mode: int = 0o755) -> Member:
    return member(path, "directory", mode=mode)


def link(path: str, target: str) -> Member:
    return member(path, "symlink", target, mode=0o777)


def layer(*members: Member, base: bool = False, title: str = "a layer") -> LayerContents:
    return LayerContents(title=title, members=members, is_base=base)


MOUNT = layer(directory("data"), directory("data/models"), title="mount points")


def fault(*layers: LayerContents, data: tuple[str, ...] = ("/data/models",)) -> Difference:
    with pytest.raises(Difference) as found:
        check_image(layers, data=data, wheels=(), site_packages=SITE)
    return found.value


def test_an_empty_mount_point_passes_and_paths_are_counted() -> None:
    count = check_image([MOUNT, layer(member("x"))], data=["/data/models"], wheels=(), site_packages=SITE)
    assert count == 3


@pytest.mark.parametrize(
    "hidden",
    [
        member("data/models/weights.bin"),
        directory("data/models/empty"),
        link("data/models/link", "/elsewhere"),
        member("data/models/hard", "hardlink", "x"),
    ],
)
def test_nothing_may_lie_below(hidden: Member) -> None:
    found = fault(layer(hidden, title="evil"), MOUNT)
    assert found.code == "data-in-image"
    assert f"/{hidden.path} (evil)" in found.message


@pytest.mark.parametrize(
    ("where", "target"),
    [
        ("w", "/data/models"),
        ("w", "data/models"),
        ("w", "/other"),
        ("opt/w", "../data/models"),
        ("w", "./data/../other"),
    ],
)
def test_a_file_that_gets_there_by_a_link_is_found(where: str, target: str) -> None:
    found = fault(layer(link("other", "data/models"), link(where, target), member(f"{where}/x")), MOUNT)
    assert f"/{where}/x (a layer), which is /data/models/x" in found.message


def test_a_mount_point_that_is_reached_by_a_link_is_refused() -> None:
    found = fault(layer(link("data", "/usr/data"), directory("usr"), directory("usr/data/models")))
    assert "/data/models is not there as a directory" in found.message
    found = fault(layer(link("data", "/usr/data"), directory("data/models")))
    assert "/data/models is reached by links, and is /usr/data/models" in found.message


def test_a_missing_mount_point_is_told() -> None:
    assert "is not there as a directory" in fault(layer(member("x"))).message


def test_links_in_a_circle_end() -> None:
    check_image(
        [MOUNT, layer(link("a", "b"), link("b", "a"), member("a/x"))],
        data=["/data/models"],
        wheels=(),
        site_packages=SITE,
    )


def test_a_name_that_deletes_is_refused() -> None:
    found = fault(MOUNT, layer(member(f"{SITE}/.wh.torch")))
    assert (found.code, "would delete a file of a layer below" in found.message) == ("image-faulty", True)


def test_a_file_in_place_of_a_directory_is_refused() -> None:
    assert "is a file, and was a directory below" in fault(layer(directory("x")), layer(member("x")), MOUNT).message


def test_a_directory_of_the_base_keeps_its_mode() -> None:
    base = layer(directory("root", 0o700), base=True)
    found = fault(base, layer(directory("root"), title="copy"), MOUNT)
    assert "/root (copy) has mode 755 of 0:0, and 700 of 0:0 in the base" in found.message
    check_image([base, layer(directory("root", 0o700))], data=(), wheels=(), site_packages=SITE)
    check_image([base, replace(base, members=(directory("root"),))], data=(), wheels=(), site_packages=SITE)


def test_many_faults_are_counted_and_some_shown() -> None:
    found = fault(layer(*(member(f"data/models/{number}") for number in range(30))), MOUNT)
    assert len(found.message.splitlines()) == 12
    assert found.message.endswith("and 20 more")


def test_every_locked_wheel_must_be_there() -> None:
    wheels = [locked_wheel("some-package", b"", "1.0"), locked_wheel("other", b"", "2.0+cu128")]
    there = layer(member(f"{SITE}/Some_Package-1.0.dist-info/RECORD"))
    both = layer(*there.members, member(f"{SITE}/other-2.0+cu128.dist-info/RECORD"))
    check_image([both], data=(), wheels=wheels, site_packages=SITE)
    with pytest.raises(Difference, match=r"other 2\.0\+cu128") as found:
        check_image([there], data=(), wheels=wheels, site_packages=SITE)
    assert found.value.code == "wheel-not-in-image"


def test_overwritten_files_are_found_over_layers_and_within() -> None:
    inner = Overwritten(path="z", kept="b", lost="a", same=True)
    one = replace(layer(member("x"), directory("d"), member("y", crc32=1), title="one"), overwritten=(inner,))
    other = layer(member("x"), directory("d"), replace(member("y", crc32=2), owner="torch 2.0"), title="other")
    assert find_overwritten([one, other]) == (
        Overwritten(path="x", kept="other", lost="one", same=True),
        Overwritten(path="y", kept="torch 2.0", lost="one", same=False),
        inner,
    )
