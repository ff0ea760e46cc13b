from __future__ import annotations

from dataclasses import replace

import pytest
from lock_runs import run, target, unmet, versions
from lock_samples import BOTH, spec
from lock_stock import TORCH, FakeSuite, Releases, Stock

from envlock.errors import FaultyInput, Unsatisfiable
from envlock.lock.codec import dumps
from envlock.lock.locking import merge_wheels
from envlock.platforms import Platform
from envlock.spec.model import AccessSpec, BaseSpec, Requirement, TargetSpec


def test_locking_again_gives_the_same_bytes() -> None:
    for wanted in (target(driver="535"), target(driver="580"), target(gpus=("7.0",)), spec("six", "peft")):
        made = run(wanted)
        assert dumps(run(wanted, made)) == dumps(made)


def test_pins_are_kept_when_something_newer_comes_out() -> None:
    wanted = target(driver="535")
    made = run(wanted)
    newer: Releases = {
        **TORCH,
        "peft": {"0.21.0": [], **TORCH["peft"]},
        "torch": {"2.16.0": ["cuda-toolkit==13.2.2"], **TORCH["torch"]},
    }
    assert dumps(run(wanted, made, stock=Stock(newer))) == dumps(made)
    more = run(replace(target(driver="535", requirements=("torch", "peft", "six")), digest=made.spec), made)
    assert versions(more) == {**versions(made), "six": "1.17.0"}


def test_what_is_upgraded_moves_and_nothing_else() -> None:
    old = Stock({**TORCH, "peft": {"0.19.0": ["torch"]}, "six": {"1.16.0": []}})
    wanted = spec("peft", "six")
    made = run(wanted, stock=old)
    assert versions(made)["peft"] == "0.19.0"
    assert versions(run(wanted, made, upgrade=["peft"])) == {**versions(made), "peft": "0.20.0"}
    everything = versions(run(wanted, made, upgrade=None))
    assert (everything["peft"], everything["six"]) == ("0.20.0", "1.17.0")


def test_upgrading_torch_keeps_it_within_the_target() -> None:
    wanted = target(driver="535")
    old = Stock({**TORCH, "torch": {name: TORCH["torch"][name] for name in ("2.15.0", "2.7.1")}})
    made = run(wanted, stock=old)
    assert versions(made)["torch"] == "2.7.1"
    upgraded = run(wanted, made, upgrade=["torch"])
    assert versions(upgraded)["torch"] == "2.10.0"
    assert upgraded.concessions[0].got == "2.10.0"


def test_what_was_conceded_is_no_wish_once_the_target_changes() -> None:
    made = run(target(driver="535"))
    wider = replace(target(driver="580"), digest=replace(made.spec, hex="0" * 64))
    assert versions(run(wider, made))["torch"] == "2.15.0"
    same = replace(target(driver="535", requirements=("torch", "peft", "six")), digest=wider.digest)
    again = run(same, made)
    assert versions(again)["torch"] == "2.10.0"
    assert again.concessions == made.concessions


def test_a_changed_requirement_lets_its_pin_go() -> None:
    made = run(spec("peft==0.19.0"))
    assert versions(run(spec("peft>=0.20"), made))["peft"] == "0.20.0"


def test_upgrading_what_is_not_there_is_a_fault() -> None:
    with pytest.raises(FaultyInput) as caught:
        run(spec("six"), upgrade=["sixx", "bash"])
    assert caught.value.code == "unknown-package"
    assert "bash and sixx" in caught.value.message


def test_debian_packages_are_pinned_and_upgraded_by_name() -> None:
    wanted = spec("six", base=BaseSpec(packages=("git", "tmux")))
    made = run(wanted)
    newer = FakeSuite(versions={"git": "2.0-1", "tmux": "2.0-1"})
    assert dumps(run(wanted, made, suite=newer)) == dumps(made)
    moved = run(wanted, made, suite=newer, upgrade=["git"])
    assert {deb.name: deb.version for deb in moved.base.debs if deb.requested == "spec"} == {
        "git": "2.0-1",
        "tmux": "1.0-1",
    }
    assert {
        deb.version for deb in run(wanted, made, suite=newer, upgrade=None).base.debs if deb.requested == "spec"
    } == {"2.0-1"}


def test_pins_of_another_suite_are_none() -> None:
    wanted = spec("six", base=BaseSpec(packages=("git",)))
    made = run(wanted)
    other = FakeSuite(name="forky", versions={"git": "3.0-1"})
    again = run(wanted, made, suite=other)
    assert next(deb.version for deb in again.base.debs if deb.name == "git") == "3.0-1"


def test_triton_brings_a_compiler_and_says_so() -> None:
    said: list[str] = []
    made = run(target(driver="580"), said=said)
    reasons = {deb.name: deb.requested for deb in made.base.debs}
    assert [name for name, reason in reasons.items() if reason == "triton"] == ["gcc", "libc6-dev", "libpython3-dev"]
    assert (
        "triton compiles its kernels' launchers at run time: added gcc, libc6-dev and libpython3-dev to the base"
        in said
    )


def test_opencv_brings_the_systems_libraries_unless_it_is_headless() -> None:
    stock = Stock({"opencv-python": {"5.0": []}, "opencv-python-headless": {"5.0": []}})
    with_windows = run(spec("opencv-python"), stock=stock)
    assert {deb.name: deb.requested for deb in with_windows.base.debs}["libgl1"] == "opencv"
    without = run(spec("opencv-python-headless"), stock=stock)
    assert "libgl1" not in {deb.name for deb in without.base.debs}


def test_what_the_spec_has_already_is_not_said_to_be_added() -> None:
    said: list[str] = []
    named = replace(spec("triton"), base=BaseSpec(packages=("gcc", "libc6-dev")))
    made = run(named, said=said)
    assert {deb.name: deb.requested for deb in made.base.debs}["gcc"] == "spec"
    assert "triton compiles its kernels' launchers at run time: added libpython3-dev to the base" in said


def test_ways_in_bring_what_they_need() -> None:
    said: list[str] = []
    made = run(spec("six", access=AccessSpec(ssh=True, jupyter=True)), said=said)
    assert {deb.name: deb.requested for deb in made.base.debs}["openssh-server"] == "ssh"
    assert next(wheel for wheel in made.wheels if wheel.name == "jupyterlab").requested
    assert any("openssh-server" in line for line in said)


def test_every_base_can_run_python_and_reach_tls() -> None:
    made = run(spec())
    assert {"apt", "python3", "ca-certificates", "libstdc++6"} <= {deb.name for deb in made.base.debs}
    assert (made.base.python, made.base.glibc, made.wheels) == ("3.13.5", "2.41", ())


def test_a_python_that_the_suite_does_not_have_is_refused() -> None:
    with pytest.raises(Unsatisfiable) as caught:
        run(spec("six", python_version="3.12"))
    assert caught.value.code == "python-not-in-suite"
    assert 'python = "3.13"' in caught.value.hint


def test_torch_without_cuda_and_unknown_architectures_are_said() -> None:
    said: list[str] = []
    releases: Releases = {**TORCH, "torch": {"2.10.0+cpu": [], "98.0": ["cuda-toolkit"]}}
    run(spec("torch<3"), stock=Stock(releases), said=said)
    run(target(driver="580", gpus=("7.0",)), stock=Stock(releases), said=said)
    assert any("torch 2.10.0+cpu for linux/amd64 is built without CUDA" in line for line in said)
    assert any("GPUs torch 98.0 for linux/amd64 has code for is not known" in line for line in said)
    run(target(gpus=("7.0",), requirements=("cuda-toolkit",)), stock=Stock(releases), said=said)
    assert any("GPUs a set of wheels with CUDA 13.2 for linux/amd64" in line for line in said)


def test_several_platforms_are_one_lock() -> None:
    wanted = replace(target(driver="580"), platforms=BOTH)
    made = run(wanted)
    assert made.platforms == BOTH
    assert all(wheel.platforms == BOTH for wheel in made.wheels)
    assert [contract.platform for contract in made.contracts] == list(BOTH)
    assert dumps(run(wanted, made)) == dumps(made)


def test_platforms_agree_on_versions_where_they_can() -> None:
    releases: Releases = {**TORCH, "six": {"1.17.0": [], "1.16.0": []}}
    wanted = replace(spec('six<1.17 ; platform_machine == "x86_64"', "six"), platforms=BOTH)
    made = run(wanted, stock=Stock(releases))
    assert {wheel.version for wheel in made.wheels} == {"1.16.0"}
    assert made.wheels[0].platforms == BOTH


def test_what_fits_one_platform_only_is_refused_for_the_other() -> None:
    wanted = replace(target(driver="535"), platforms=BOTH)
    error = unmet(wanted)
    assert "for linux/arm64" in error.message
    assert "torch 2.10.0 with no CUDA: is built without CUDA, so no GPU would be used" in error.message


def test_one_platform_may_have_an_older_torch_than_the_other() -> None:
    markers = ('torch ; platform_machine == "aarch64"', 'torch<2.11 ; platform_machine == "x86_64"')
    made = run(replace(spec(*markers), platforms=BOTH))
    assert versions(made)["torch"] == "2.10.0"
    assert versions(made, Platform.ARM64)["torch"] == "2.10.0"
    apart = run(replace(spec(*markers, target=TargetSpec(driver="580")), platforms=BOTH))
    assert versions(apart, Platform.ARM64)["torch"] == "2.15.0"


def test_the_same_file_for_two_platforms_is_one_wheel() -> None:
    stock = Stock({"a": {"1": ['b ; platform_machine == "x86_64"']}, "b": {"1": []}})
    made = run(replace(spec("a"), platforms=BOTH), stock=stock)
    assert [(wheel.name, wheel.platforms, wheel.requires) for wheel in made.wheels] == [
        ("a", BOTH, ("b",)),
        ("b", (Platform.AMD64,), ()),
    ]
    assert merge_wheels(made.wheels) == made.wheels


def test_requests_carry_what_the_spec_says() -> None:
    stock = Stock(TORCH)
    wanted = spec("six")
    python = replace(
        wanted.python,
        constraints=(Requirement(text="six<2", origin="c"),),
        exclude_newer="2026-11-30T00:00:00Z",
        allow_sdist=frozenset({"x"}),
        allow_pure_sdist=True,
    )
    made = run(replace(wanted, python=python), stock=stock)
    (request,) = stock.requests
    assert (request.python, request.python_full, request.glibc) == ("3.13", "3.13.5", "2.41")
    assert (request.constraints, request.exclude_newer) == (python.constraints, python.exclude_newer)
    assert (request.allow_sdist, request.allow_pure_sdist) == (python.allow_sdist, True)
    assert str(request.spec_folder) == "/specs/sample"
    run(wanted, made, stock=stock)
    assert stock.requests[-1].previous == made.wheels
    assert stock.requests[-1].pins == {"six": "1.17.0"}
