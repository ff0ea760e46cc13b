from __future__ import annotations

from dataclasses import replace

import pytest
from lock_runs import OWN, Listener, run, target, unmet, versions, with_index
from lock_samples import spec
from lock_stock import TORCH, FakeSuite, Releases, Stock

from envlock.errors import EnvlockError, MachineLacks, Unsatisfiable
from envlock.lock.codec import dumps
from envlock.lock.locking import Upgrade, lock_environment
from envlock.lock.wheels.resolve import Resolution, WheelRequest
from envlock.platforms import Platform
from envlock.spec.model import IndexSpec


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
