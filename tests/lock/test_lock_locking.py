from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from lock_samples import BOTH, spec
from lock_stock import TORCH, FakeSuite, Releases, Stock

from envlock.errors import EnvlockError, FaultyInput, MachineLacks, Unsatisfiable
from envlock.lock.codec import dumps, loads
from envlock.lock.locking import Upgrade, lock_environment, merge_wheels
from envlock.lock.model import Lock
from envlock.lock.wheels.resolve import Resolution, WheelRequest
from envlock.platforms import Platform
from envlock.progress import Task
from envlock.spec.model import AccessSpec, BaseSpec, EnvSpec, IndexSpec, Requirement, TargetSpec


@dataclass(slots=True)
class Listener:
    """Progress that remembers what was said."""

    said: list[str] = field(default_factory=list)

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:
        raise AssertionError(f"no work is expected: {label} {total} {unit}")

    def say(self, text: str) -> None:
        self.said.append(text)


def run(
    wanted: EnvSpec,
    previous: Lock | None = None,
    *,
    stock: Stock | None = None,
    suite: FakeSuite | None = None,
    upgrade: Iterable[str] | None = (),
    said: list[str] | None = None,
) -> Lock:
    """Lock, and see that the lock survives being written and read."""
    made = lock_environment(
        wanted,
        previous,
        wheels=(stock or Stock(TORCH)).resolve,
        suite=suite or FakeSuite(platforms=wanted.platforms),
        upgrade=Upgrade(everything=upgrade is None, packages=frozenset(upgrade or ())),
        made_by="0.1.0",
        progress=Listener(said if said is not None else []),
    )
    assert loads(dumps(made), "x") == made
    return made


def versions(made: Lock, platform: Platform = Platform.AMD64) -> dict[str, str]:
    return {wheel.name: wheel.version for wheel in made.wheels_for(platform)}


def unmet(wanted: EnvSpec, **more: Any) -> Unsatisfiable:
    with pytest.raises(Unsatisfiable) as caught:
        run(wanted, **more)
    assert caught.value.code == "contract-unmet"
    return caught.value


def target(**keys: Any) -> EnvSpec:
    requirements = keys.pop("requirements", ("torch", "peft"))
    return spec(*requirements, target=TargetSpec(**keys))


def test_a_new_driver_gets_the_newest_torch() -> None:
    made = run(target(driver="580"))
    assert versions(made)["torch"] == "2.15.0"
    assert made.contract_for(Platform.AMD64).cuda == "13.2"
    assert made.concessions == ()


def test_an_older_driver_gets_the_newest_torch_that_runs_there() -> None:
    said: list[str] = []
    made = run(target(driver="535"), said=said)
    assert versions(made) == {
        "torch": "2.10.0",
        "peft": "0.20.0",
        "triton": "3.6.0",
        "nvidia-cuda-runtime-cu12": "12.8.90",
    }
    assert (made.contract_for(Platform.AMD64).driver, made.contract_for(Platform.AMD64).cuda) == ("525.60.13", "12.8")
    assert [(item.package, item.wanted, item.got) for item in made.concessions] == [
        ("torch", "2.15.0", "2.10.0"),
        ("triton", "3.9.0", "3.6.0"),
    ]
    assert "needs an NVIDIA driver of 580 or later" in made.concessions[0].reason
    assert any(line.startswith("torch 2.15.0 -> 2.10.0: ") for line in said)


def test_an_old_gpu_gets_a_torch_that_has_code_for_it() -> None:
    made = run(target(driver="580", gpus=("7.0",)))
    assert versions(made)["torch"] == "2.10.0"
    assert run(target(gpus=("6.1",))).contract_for(Platform.AMD64).cuda == "12.6"
    assert "has no code for a GPU of capability 7.0" in made.concessions[0].reason


def test_an_exact_cuda_is_found() -> None:
    assert versions(run(target(cuda="12.4")))["torch"] == "2.6.0"
    assert versions(run(target(cuda="13.0")))["torch"] == "2.11.0"


def test_the_resolver_does_not_get_away_with_a_torch_from_before_metadata() -> None:
    """Below all that CUDA's packages can rule out there is a torch that says nothing of CUDA."""
    error = unmet(target(driver="470"))
    assert "1.4.0" not in error.message
    assert error.message.splitlines()[1:] == [
        "  torch 2.10.0 with CUDA 12.8: needs an NVIDIA driver of 525.60.13 or later, and the target's may be 470",
        "  torch 2.15.0 with CUDA 13.2: needs an NVIDIA driver of 580 or later, and the target's may be 470",
    ]


def test_gpus_that_no_torch_serves_together_get_the_two_nearest() -> None:
    error = unmet(target(driver="535", gpus=("6.0", "12.0")))
    assert [line.strip().partition(":")[0] for line in error.message.splitlines()[1:]] == [
        "torch 2.10.0 with CUDA 12.8",
        "torch 2.7.1 with CUDA 12.6",
    ]
    assert "6.0" in error.message
    assert "12.0" in error.message


def test_a_requirement_in_the_way_is_named() -> None:
    error = unmet(target(driver="535", requirements=("torch>=2.11", "peft")))
    assert (
        "torch 2.10.0 with CUDA 12.8: would run on the target, but is excluded by torch>=2.11 "
        "(envlock.toml: python.requirements[0])"
    ) in error.message


def test_a_requirement_in_the_way_by_its_dependencies_is_told_of_too() -> None:
    error = unmet(target(driver="535", requirements=("torch", "torchvision==0.30.0")))
    assert "torch 2.10.0 with CUDA 12.8: would run on the target, but does not go with" in error.message
    assert "Within the target's limits, no way" in error.message


def test_companions_of_torch_follow_it() -> None:
    made = run(target(driver="535", requirements=("torch", "torchvision")))
    assert (versions(made)["torch"], versions(made)["torchvision"]) == ("2.10.0", "0.25.0")
    assert made.concessions[1].reason == "goes with torch 2.10.0 with CUDA 12.8"


OWN: Releases = {
    "torch": {"2.14.1+cu126": ["nvidia-cuda-runtime-cu12==12.6.77"], "2.13.0+cpu": []},
    "torchvision": {"0.29.1+cu126": ["torch==2.14.1"]},
}


def with_index(wanted: EnvSpec, *packages: str) -> EnvSpec:
    index = IndexSpec(name="own", url="https://wheels.example/simple", packages=frozenset(packages))
    return replace(wanted, indexes=(index,))


def test_another_index_of_the_spec_is_taken_where_it_has_a_newer_torch_that_fits() -> None:
    wanted = with_index(target(driver="535", requirements=("torch", "torchvision", "peft")))
    made = run(wanted, stock=Stock(TORCH, {"own": OWN}))
    found = {wheel.name: (wheel.version, wheel.index) for wheel in made.wheels}
    assert found["torch"] == ("2.14.1+cu126", "own")
    assert found["torchvision"] == ("0.29.1+cu126", "own")
    assert found["peft"] == ("0.20.0", "default")
    again = run(wanted, made, stock=Stock(TORCH, {"own": OWN}))
    assert dumps(again) == dumps(made)


def test_upgrading_one_of_an_indexs_packages_frees_the_others() -> None:
    """Versions that only the other index has would stand in the way of a torch that is looked for everywhere."""
    wanted = with_index(target(driver="535", requirements=("torch", "torchvision")))
    made = run(wanted, stock=Stock(TORCH, {"own": OWN}))
    newer = {**OWN, "torch": {**OWN["torch"], "2.14.2+cu126": ["nvidia-cuda-runtime-cu12==12.6.77"]}}
    newer["torchvision"] = {**OWN["torchvision"], "0.29.2+cu126": ["torch==2.14.2"]}
    again = run(wanted, made, stock=Stock(TORCH, {"own": newer}), upgrade=["torch", "torchvision"])
    assert (versions(again)["torch"], versions(again)["torchvision"]) == ("2.14.2+cu126", "0.29.2+cu126")
    one = run(wanted, made, stock=Stock(TORCH, {"own": newer}), upgrade=["torch"])
    assert versions(one)["torch"] in {"2.14.1+cu126", "2.14.2+cu126"}


def test_another_index_is_left_alone_where_it_is_for_other_packages_or_has_no_torch() -> None:
    wanted = target(driver="535")
    stock = Stock(TORCH, {"own": {"torch": {}}})
    assert versions(run(with_index(wanted), stock=stock))["torch"] == "2.10.0"
    assert versions(run(with_index(wanted, "six"), stock=Stock(TORCH, {"own": OWN})))["torch"] == "2.10.0"


def test_the_cpu_gets_a_torch_without_cuda() -> None:
    made = run(with_index(target(cuda="cpu")), stock=Stock(TORCH, {"own": OWN}))
    assert versions(made)["torch"] == "2.13.0+cpu"
    assert made.contract_for(Platform.AMD64).cuda is None


def test_gpus_are_no_matter_where_the_cpu_is_asked_for() -> None:
    made = run(with_index(target(cuda="cpu", gpus=("9.0",))), stock=Stock(TORCH, {"own": OWN}))
    assert versions(made)["torch"] == "2.13.0+cpu"


def test_without_an_index_for_the_cpu_the_lines_to_add_are_told() -> None:
    releases: Releases = {
        **TORCH,
        "torch": {name: needs for name, needs in TORCH["torch"].items() if name != "1.4.0"},
    }
    error = unmet(target(cuda="cpu"), stock=Stock(releases))
    assert "[[index]]" in error.hint
    assert 'packages = ["torch"' in error.hint


def test_torch_without_cuda_from_an_index_of_its_own_cannot_be_helped() -> None:
    index = IndexSpec(name="cpu", url="https://wheels.example/cpu", packages=frozenset({"torch"}))
    wanted = replace(target(driver="535"), indexes=(index,))

    def resolve(request: WheelRequest) -> Resolution:
        releases: Releases = {**TORCH, "torch": {"2.13.0+cpu": []}}
        return Stock(releases).resolve(request)

    with pytest.raises(Unsatisfiable) as caught:
        lock_environment(
            wanted, None, wheels=resolve, suite=FakeSuite(), upgrade=Upgrade(), made_by="0.1.0", progress=Listener()
        )
    assert "torch 2.13.0+cpu with no CUDA: is built without CUDA, so no GPU would be used" in caught.value.message


def test_a_label_that_metadata_does_not_repeat_is_stepped_over() -> None:
    releases: Releases = {**TORCH, "torch": {"2.14.0+cu130": [], "2.13.0+cu130": [], "2.12.0+cu126": []}}
    made = run(target(driver="535"), stock=Stock(releases))
    assert versions(made)["torch"] == "2.12.0+cu126"


def test_tightening_ends() -> None:
    releases: Releases = {**TORCH, "torch": {f"2.{number}.0+cu130": [] for number in range(60)}}
    stock = Stock(releases)
    unmet(target(driver="535"), stock=stock)
    assert len(stock.requests) < 20


def test_other_frameworks_are_judged_too() -> None:
    stock = Stock({"cupy-cuda13x": {"14.0": []}, "six": {"1.17.0": []}})
    error = unmet(target(driver="535", requirements=("cupy-cuda13x",)), stock=stock)
    assert "a set of wheels with CUDA 13.0: needs an NVIDIA driver of 580" in error.message


def test_what_a_resolver_says_first_is_passed_on() -> None:
    with pytest.raises(Unsatisfiable) as caught:
        run(spec("torch>=99"))
    assert caught.value.code == "no-resolution"


@pytest.mark.parametrize("error", [MachineLacks("x", hint="y", code="z"), Unsatisfiable("x", hint="y", code="z")])
def test_other_errors_while_tightening_are_not_taken_for_no_resolution(error: EnvlockError) -> None:
    stock = Stock(TORCH)

    def resolve(request: WheelRequest) -> Resolution:
        if stock.requests:
            raise error
        return stock.resolve(request)

    with pytest.raises(type(error)) as caught:
        lock_environment(
            target(driver="535"), None, wheels=resolve, suite=FakeSuite(), upgrade=Upgrade(), made_by="0.1.0"
        )
    assert caught.value is error


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
    assert [name for name, reason in reasons.items() if reason == "triton"] == ["gcc", "libc6-dev", "python3-dev"]
    assert (
        "triton compiles its kernels' launchers at run time: added gcc, libc6-dev and python3-dev to the base" in said
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
    assert "triton compiles its kernels' launchers at run time: added python3-dev to the base" in said


def test_ways_in_bring_what_they_need() -> None:
    said: list[str] = []
    made = run(spec("six", access=AccessSpec(ssh=True, jupyter=True)), said=said)
    assert {deb.name: deb.requested for deb in made.base.debs}["openssh-server"] == "ssh"
    assert next(wheel for wheel in made.wheels if wheel.name == "jupyterlab").requested
    assert any("openssh-server" in line for line in said)


def test_every_base_can_run_python_and_reach_tls() -> None:
    made = run(spec())
    assert {"python3", "ca-certificates", "libstdc++6"} <= {deb.name for deb in made.base.debs}
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
