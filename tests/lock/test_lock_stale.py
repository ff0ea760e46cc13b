from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lock_samples import BOTH, built, contract, deb, from_git, lock, sha, spec, wheel
from lock_stock import TORCH, FakeSuite, Stock

from envlock.lock.codec import dumps
from envlock.lock.derived import derived_files
from envlock.lock.locking import Upgrade, lock_environment
from envlock.lock.model import Lock
from envlock.lock.stale import differences
from envlock.platforms import Platform
from envlock.spec.model import AccessSpec, BaseSpec, EnvSpec, IndexSpec, Requirement, TargetSpec


def made_for(wanted: EnvSpec) -> Lock:
    stock = Stock(TORCH, {"own": {"torch": {"2.14.1+cu126": ["nvidia-cuda-runtime-cu12==12.6.77"]}}})
    suite = FakeSuite(platforms=wanted.platforms)
    return lock_environment(wanted, None, wheels=stock.resolve, suite=suite, upgrade=Upgrade(), made_by="0.1.0")


def check(wanted: EnvSpec, made: Lock) -> tuple[str, ...]:
    return differences(wanted, made, text=dumps(made), derived=dict(derived_files(made)))


def changed(wanted: EnvSpec, **changes: Any) -> EnvSpec:
    return replace(wanted, digest=sha("another"), **changes)


WANTED = [
    spec("six"),
    spec("torch", "peft", target=TargetSpec(driver="535")),
    spec("torch", target=TargetSpec(driver="580", gpus=("8.9", "12.0"))),
    spec("torch", target=TargetSpec(cuda="12.4")),
    spec("torch", target=TargetSpec(driver="535"), indexes=(IndexSpec(name="own", url="/wheels"),)),
    spec("six", access=AccessSpec(ssh=True, jupyter=True), base=BaseSpec(packages=("git", "openssh-server"))),
    spec('six ; platform_machine == "aarch64"', "peft", platforms=BOTH),
    spec("torch>=2.0.dev0", 'six<1.17 ; python_version >= "3.11"', platforms=BOTH),
    spec(),
]


@pytest.mark.parametrize("wanted", WANTED, ids=range(len(WANTED)))
def test_a_lock_that_was_just_made_is_not_stale(wanted: EnvSpec) -> None:
    made = made_for(wanted)
    assert check(wanted, made) == ()


@pytest.mark.parametrize("wanted", WANTED, ids=range(len(WANTED)))
def test_a_changed_specification_is_never_taken_for_the_same(wanted: EnvSpec) -> None:
    assert check(changed(wanted), made_for(wanted)) != ()


def test_a_change_that_pins_do_not_show_is_told_in_general() -> None:
    (line,) = check(changed(spec("six")), made_for(spec("six")))
    assert line.startswith("envlock.toml or a file that it names is not as it was locked")


def test_a_requirement_that_a_pin_does_not_meet_is_named() -> None:
    made = made_for(spec("six"))
    assert check(changed(spec("six>=2")), made) == (
        "envlock.toml: python.requirements[0]: six>=2, and six 1.17.0 is locked",
    )


def test_new_and_dropped_requirements_are_named() -> None:
    found = check(changed(spec("peft[extra]>0")), made_for(spec("six")))
    assert found == (
        "envlock.toml: python.requirements[0]: peft[extra]>0 is not locked",
        "six 1.17.0 is locked as asked for, and is not asked for any more",
    )


def test_a_constraint_that_a_pin_does_not_meet_is_named() -> None:
    wanted = spec("six")
    limit = Requirement(text="six<1.17", origin="constraints.txt:3")
    python = replace(wanted.python, constraints=(limit, Requirement(text="absent<1", origin="x")))
    assert check(changed(wanted, python=python), made_for(wanted)) == (
        "constraints.txt:3: six<1.17, and six 1.17.0 is locked",
    )


def test_only_the_platform_that_differs_is_named() -> None:
    made = made_for(spec("six", platforms=BOTH))
    wanted = changed(spec('six>=2 ; platform_machine == "aarch64"', "six", platforms=BOTH))
    (line,) = check(wanted, made)
    assert line.endswith("and six 1.17.0 is locked (linux/arm64)")


def test_what_differs_on_all_platforms_is_told_once() -> None:
    made = made_for(spec("six", "peft", platforms=BOTH))
    assert check(changed(spec("six>=2", platforms=BOTH)), made) == (
        "envlock.toml: python.requirements[0]: six>=2, and six 1.17.0 is locked",
        "peft 0.20.0 is locked as asked for, and is not asked for any more",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "other"}, "the lock is of sample, and the specification is of other"),
        ({"python_version": "3.14"}, "python: 3.14 is asked for, and 3.13 is locked"),
        ({"platforms": BOTH}, "platforms: linux/arm64 is asked for, and is not locked"),
        ({"base": BaseSpec(debian="bookworm")}, "base.debian: bookworm is asked for, and trixie is locked"),
        ({"base": BaseSpec(packages=("git",))}, "base: git is asked for (spec), and is not locked"),
        ({"access": AccessSpec(ssh=True)}, "base: openssh-server is asked for (ssh), and is not locked"),
        ({"access": AccessSpec(jupyter=True)}, "envlock.toml: access.jupyter: jupyterlab is not locked"),
    ],
)
def test_what_else_differs_is_named(changes: dict[str, Any], words: str) -> None:
    assert words in check(changed(spec("six"), **changes), made_for(spec("six")))


def test_a_platform_that_is_not_asked_for_any_more_is_named() -> None:
    made = made_for(spec("six", platforms=BOTH))
    assert "platforms: linux/arm64 is locked, and is not asked for" in check(changed(spec("six")), made)


def test_another_resolver_is_named() -> None:
    wanted = spec("six")
    other = changed(wanted, python=replace(wanted.python, resolver="pip-tools"))
    assert "python.resolver: pip-tools is asked for, and uv made the lock" in check(other, made_for(wanted))


def test_a_dropped_base_package_is_named() -> None:
    made = made_for(spec("six", base=BaseSpec(packages=("git",))))
    found = check(changed(spec("six")), made)
    assert "base: git is locked as asked for, and is not asked for any more" in found


def test_a_package_that_another_one_provides_is_there() -> None:
    wanted = spec(base=BaseSpec(packages=("awk",)))
    made = made_for(wanted)
    debs = tuple(deb("mawk", requested="spec") if one.name == "awk" else one for one in made.base.debs)
    assert check(wanted, replace(made, base=replace(made.base, debs=debs))) == ()


def test_a_target_that_the_lock_does_not_fit_any_more_is_named() -> None:
    made = made_for(spec("torch", target=TargetSpec(driver="580")))
    found = check(changed(spec("torch", target=TargetSpec(driver="535", gpus=("7.0",)))), made)
    assert [line.partition(" for ")[0] for line in found] == ["target: torch 2.15.0"] * 2


def test_a_contract_that_the_wheels_do_not_have_is_named() -> None:
    made = made_for(spec("torch"))
    wrong = replace(made, contracts=(contract(cuda="12.8", driver="525.60.13"),))
    assert "contract: that of linux/amd64 is not the one that the locked wheels have" in check(spec("torch"), wrong)


def test_an_index_that_is_gone_or_has_packages_of_its_own_is_named() -> None:
    index = IndexSpec(name="own", url="/wheels")
    made = made_for(spec("torch", target=TargetSpec(driver="535"), indexes=(index,)))
    without = check(changed(spec("torch", target=TargetSpec(driver="535"))), made)
    assert without == ("torch is locked from the index own, which is not in the specification",)
    alone = changed(spec("six", indexes=(replace(index, packages=frozenset({"six"})),)))
    assert check(alone, made_for(spec("six"))) == (
        "six is to come from the index own alone, and is locked from default",
    )


def test_another_place_of_a_direct_requirement_is_named() -> None:
    url = "https://host.example/a-1.0-py3-none-any.whl"
    made = lock(wheel("a", index="direct", direct_url=url, requested=True), base=made_for(spec()).base)
    assert check(spec(f"a @ {url.replace('host', 'user:secret@host')}#sha256=1"), made) == ()
    (line,) = check(changed(spec("a @ https://user:secret@other.example/a-1.0-py3-none-any.whl")), made)
    assert "https://other.example/a-1.0-py3-none-any.whl, and https://host.example" in line
    assert "secret" not in line


def test_a_direct_requirement_in_the_place_of_an_indexs_is_named() -> None:
    made = lock(wheel("a", requested=True), base=made_for(spec()).base)
    (line,) = check(changed(spec("a @ https://host.example/a-1.0-py3-none-any.whl")), made)
    assert "a-1.0-py3-none-any.whl of an index is locked" in line


def test_direct_git_and_local_requirements_are_met_by_what_was_made_of_them() -> None:
    made = lock(
        replace(from_git("a"), requested=True),
        wheel("b", index="local", path="wheels/b-1.0-py3-none-any.whl", requested=True),
        replace(built("c"), requested=True),
        base=made_for(spec()).base,
    )
    wanted = spec(
        "a @ git+https://token@git.example/x.git@v1#subdirectory=python",
        "b @ file:///specs/sample/wheels/b-1.0-py3-none-any.whl",
        "c",
    )
    assert check(wanted, made) == ()


def test_derived_files_are_compared() -> None:
    wanted = spec("six")
    made = made_for(wanted)
    (name,) = derived_files(made)
    assert differences(wanted, made, text=dumps(made), derived={}) == (f"{name} is missing",)
    assert differences(wanted, made, text=dumps(made), derived={name: "six==1\n"}) == (
        f"{name} is not what the lock gives",
    )


def test_a_requirement_that_cannot_be_decided_is_left_to_locking() -> None:
    wanted = spec("six", 'peft ; extra == "x"', "not a requirement")
    (line,) = check(changed(wanted), made_for(spec("six")))
    assert line.startswith("envlock.toml or a file that it names is not as it was locked")


def test_an_edited_lock_is_told() -> None:
    wanted = spec("six")
    made = made_for(wanted)
    (line,) = differences(wanted, made, text=dumps(made) + "\n", derived=dict(derived_files(made)))
    assert "edited or merged by hand" in line


def test_a_wheel_that_only_one_platform_asks_for_is_no_left_over() -> None:
    wanted = spec('six ; platform_machine == "x86_64"', "peft", platforms=(Platform.AMD64, Platform.ARM64))
    assert check(wanted, made_for(wanted)) == ()
