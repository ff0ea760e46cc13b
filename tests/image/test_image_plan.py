"""Lock and spec into layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from image_world import data_spec, lock_of, locked_deb, locked_wheel, spec_of

from envlock.errors import FaultyInput
from envlock.image.layers.copied import CopiedFile, CopiedTree
from envlock.image.packing import pack
from envlock.image.plan import LAYER_LIMIT, ImagePlan, plan_image
from envlock.image.recipes import BaseRecipe, DebianRecipe, Recipe, StdlibRecipe, VenvRecipe, WheelsRecipe
from envlock.image.user import image_user
from envlock.lock.model import BuiltFrom, Lock, LockedWheel
from envlock.platforms import Platform
from envlock.spec.model import BaseSpec, EnvSpec, ImageSpec

MIB = 1 << 20
FOLDER = Path("/spec")


def wheel(name: str, size: int = MIB, version: str = "1.0", **changes: object) -> LockedWheel:
    return locked_wheel(name, f"{name} {version}".encode(), version, size=size, **changes)


def changed(wheel: LockedWheel, change: dict[str, object]) -> LockedWheel:
    return replace(wheel, **change)  # type: ignore[arg-type] # a test names fields of the class


def plan(lock: Lock, spec: EnvSpec | None = None, *, can_compile: bool = True) -> ImagePlan:
    return plan_image(spec or spec_of(FOLDER), lock, Platform.AMD64, can_compile=can_compile)


def wheel_layers(made: ImagePlan) -> list[list[str]]:
    return [[each.name for each in recipe.wheels] for recipe in made.recipes if isinstance(recipe, WheelsRecipe)]


def keys(made: ImagePlan) -> dict[str, Recipe]:
    return {str(recipe.key): recipe for recipe in made.recipes}


def test_layers_come_in_the_order_in_which_they_are_likely_to_change() -> None:
    lock = lock_of(
        [
            wheel("transformers", 30 * MIB),
            wheel("torch", 800 * MIB),
            wheel("nvidia-cudnn", 700 * MIB),
            wheel("cuda-bindings", 40 * MIB),
            wheel("triton", 200 * MIB),
            wheel("ours", 50 * MIB, index="local", path="ours.whl"),
            wheel("tiny"),
            wheel("mine", index="built", built_from=BuiltFrom(python="3.13")),
        ],
        [locked_deb("libc6", b"libc6"), locked_deb("libpython3.13-stdlib", b"stdlib")],
    )
    made = plan(lock)
    kinds = [type(recipe) for recipe in made.recipes]
    assert kinds[:4] == [DebianRecipe, BaseRecipe, StdlibRecipe, VenvRecipe]
    assert wheel_layers(made) == [
        ["cuda-bindings"],
        ["nvidia-cudnn"],
        ["triton"],
        ["torch"],
        ["transformers"],
        ["ours"],
        ["tiny"],
        ["mine"],
    ]


def test_never_more_layers_than_the_limit_and_the_smallest_big_wheels_are_packed() -> None:
    lock = lock_of([wheel(f"big-{number:03}", (25 + number) * MIB) for number in range(200)])
    made = plan(lock)
    assert len(made.recipes) + 1 <= LAYER_LIMIT
    assert sorted(name for names in wheel_layers(made) for name in names) == [f"big-{n:03}" for n in range(200)]
    alone = {names[0] for names in wheel_layers(made) if len(names) == 1}
    packed = {name for names in wheel_layers(made) if len(names) > 1 for name in names}
    assert max(packed) < min(alone)


def test_a_bump_of_one_small_wheel_changes_one_key() -> None:
    wheels = [wheel(f"small-{number}") for number in range(200)]
    before = keys(plan(lock_of(wheels)))
    after = keys(plan(lock_of([*wheels[1:], wheel("small-0", version="2.0")])))
    assert len(before) == len(after)
    assert len(before.keys() - after.keys()) == 1


def test_a_bump_of_one_package_changes_its_layer_and_the_base() -> None:
    debs = [locked_deb(f"lib{number}", str(number).encode(), size=MIB) for number in range(100)]
    before = keys(plan(lock_of([], debs)))
    after = keys(plan(lock_of([], [*debs[1:], locked_deb("lib0", b"other", "2.0", size=MIB)])))
    replaced = [before[key] for key in before.keys() - after.keys()]
    assert sorted(recipe.kind for recipe in replaced) == ["base", "debian"]


@pytest.mark.parametrize(
    "change",
    [
        {"requested": True},
        {"index": "direct", "direct_url": "https://host.example/small.whl"},
        {"index": "built", "built_from": BuiltFrom(python="3.13", url="https://host.example/r.git", commit="c" * 40)},
    ],
)
def test_what_changes_an_installed_wheel_changes_its_key(change: dict[str, object]) -> None:
    assert keys(plan(lock_of([wheel("small")]))) != keys(plan(lock_of([changed(wheel("small"), change)])))


def test_prefix_and_interpreter_and_bytecode_are_in_the_keys_of_wheels() -> None:
    lock = lock_of([wheel("small")])
    other_base = replace(lock, base=replace(lock.base, python="3.99.1"))
    moved = spec_of(FOLDER, image=ImageSpec(prefix=PurePosixPath("/srv/env")))
    plans = [plan(lock), plan(other_base), plan(lock, moved), plan(lock, can_compile=False)]
    found = {recipe.key for made in plans for recipe in made.recipes if isinstance(recipe, WheelsRecipe)}
    assert len(found) == len(plans)


def test_labels_and_variables_change_no_layer_below_the_last() -> None:
    lock = lock_of([wheel("small")])
    other = spec_of(FOLDER, image=ImageSpec(env={"A": "b"}, labels={"c": "d"}), data=(data_spec("/data"),))
    assert keys(plan(lock)).keys() == keys(plan(lock, other)).keys()


def test_direct_url_is_told_for_urls_and_repositories_and_not_for_local_files() -> None:
    git = BuiltFrom(python="3.13", url="https://host.example/r.git", commit="c" * 40, subdirectory="py")
    lock = lock_of(
        [
            wheel("by-url", index="direct", direct_url="https://host.example/by_url.whl"),
            wheel("by-git", index="built", built_from=git),
            wheel("by-file", index="local", path="wheels/by_file.whl"),
            wheel("by-sdist", index="built", built_from=BuiltFrom(python="3.13", file="by_sdist.tar.gz")),
        ]
    )
    texts = [
        text for recipe in plan(lock).recipes if isinstance(recipe, WheelsRecipe) for _, text in recipe.direct_urls
    ]
    assert sorted(texts) == sorted(
        [
            '{"archive_info":{"hash":"sha256=%s","hashes":{"sha256":"%s"}},"url":"https://host.example/by_url.whl"}'
            % ((lock.wheels[-1].sha256.hex,) * 2),
            '{"subdirectory":"py","url":"https://host.example/r.git","vcs_info":{"commit_id":"%s","vcs":"git"}}'
            % ("c" * 40),
        ]
    )


def test_each_copy_has_its_layer_until_there_are_many() -> None:
    trees = tuple(
        CopiedTree(
            root=FOLDER, label=f"src{n}", to=PurePosixPath(f"/work/{n}"), files=(CopiedFile(path="", mode=0o755),)
        )
        for n in range(12)
    )
    few = plan_image(spec_of(FOLDER), lock_of(), Platform.AMD64, copies=trees[:3])
    many = plan_image(spec_of(FOLDER), lock_of(), Platform.AMD64, copies=trees)
    assert [recipe.title for recipe in few.recipes[-3:]] == [f"copy of src{n} to /work/{n}" for n in range(3)]
    assert many.recipes[-1].title == "12 copies"


def test_a_mirror_of_the_spec_becomes_the_sources_of_apt() -> None:
    spec = spec_of(FOLDER, base=BaseSpec(mirror="http://mirror.example/debian/"))
    base = next(recipe for recipe in plan(lock_of(), spec).recipes if isinstance(recipe, BaseRecipe))
    assert base.apt_sources is not None
    assert "URIs: http://mirror.example/debian\nSuites: trixie trixie-updates\n" in base.apt_sources
    assert "URIs: http://mirror.example/debian-security\nSuites: trixie-security\n" in base.apt_sources


def test_a_platform_that_is_not_locked_is_refused() -> None:
    with pytest.raises(FaultyInput, match="not for linux/arm64") as fault:
        plan_image(spec_of(FOLDER), lock_of(), Platform.ARM64)
    assert fault.value.code == "platform-not-locked"


def test_buckets_split_when_their_number_doubles() -> None:
    items = [f"item-{number}" for number in range(64)]

    def packed(size: int) -> tuple[tuple[str, ...], ...]:
        return pack(items, name=str, size=lambda _: size, target=64, most=8)

    assert [len(packed(size)) for size in (1, 2, 4, 100)] == [1, 2, 4, 8]
    for bucket in packed(4):
        assert any(set(bucket) <= set(bigger) for bigger in packed(2))
    assert pack([], name=str, size=len, target=1, most=8) == ()


@pytest.mark.parametrize(
    ("text", "written", "home", "name"),
    [
        (None, "", "/root", None),
        ("trainer", "1000", "/home/trainer", "trainer"),
        ("1000", "1000", "/home/user", "user"),
        ("1001:1002", "1001:1002", "/home/user", "user"),
        ("33", "33:33", "/", None),
        ("0:100", "0:100", "/", None),
    ],
)
def test_users(text: str | None, written: str, home: str, name: str | None) -> None:
    user = image_user(text)
    assert (user.written, user.home, user.added.name if user.added else None) == (written, home, name)
