from __future__ import annotations

import pytest
from lock_samples import contract, wheel

from envlock.lock.contract import Kind, Mismatch, derive_contract, judge
from envlock.lock.cuda_facts import (
    exists_for,
    find_build,
    lowest_driver,
    own_driver,
    reaches,
    runs_machine_code,
    runs_ptx,
    torch_builds,
)
from envlock.lock.model import HostContract, LockedWheel
from envlock.platforms import Platform
from envlock.spec.model import TargetSpec

X86 = Platform.AMD64
CU13 = contract(cuda="13.2", driver="580", cubin=("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"))


def kinds(judged: tuple[Mismatch, ...]) -> list[Kind]:
    return [mismatch.kind for mismatch in judged]


def derive(*wheels: LockedWheel, platform: Platform = X86) -> HostContract:
    return derive_contract(wheels, platform)


def test_the_newest_torch_is_read_from_cuda_toolkit() -> None:
    torch = wheel("torch", "2.15.0", tags="cp313-cp313-manylinux_2_28_x86_64", requires=("cuda-toolkit",))
    found = derive(torch, wheel("cuda-toolkit", "13.2.2"), wheel("nvidia-cuda-runtime", "13.2.75"))
    assert found == HostContract(
        platform=X86,
        cuda="13.2",
        driver="580",
        architectures_known=True,
        cubin=("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"),
        ptx=(),
        glibc="2.28",
    )


@pytest.mark.parametrize(
    ("torch", "runtime", "version", "expected"),
    [
        ("2.10.0", "nvidia-cuda-runtime-cu12", "12.8.90", ("12.8", "525.60.13", "7.0")),
        ("2.6.0", "nvidia-cuda-runtime-cu12", "12.4.127", ("12.4", "525.60.13", "5.0")),
        ("2.0.1", "nvidia-cuda-runtime-cu11", "11.7.99", ("11.7", "450.80.02", "3.7")),
    ],
)
def test_older_torch_is_read_from_the_runtime_it_requires(
    torch: str, runtime: str, version: str, expected: tuple[str, str, str]
) -> None:
    found = derive(wheel("torch", torch, requires=(runtime,)), wheel(runtime, version))
    assert (found.cuda, found.driver, found.cubin[0]) == expected


def test_a_label_tells_the_runtime_even_without_its_packages() -> None:
    found = derive(wheel("torch", "2.10.0+cu126"))
    assert (found.cuda, found.driver, found.cubin[0]) == ("12.6", "525.60.13", "5.0")


@pytest.mark.parametrize("version", ["2.10.0+cpu", "2.10.0+rocm6.4", "2.10.0"])
def test_torch_without_cuda_has_no_contract_with_a_gpu(version: str) -> None:
    found = derive(wheel("torch", version))
    assert (found.cuda, found.driver, found.architectures_known) == (None, None, True)


def test_an_unknown_build_is_not_guessed_at() -> None:
    found = derive(wheel("torch", "99.0", requires=("cuda-toolkit",)), wheel("cuda-toolkit", "13.2.2"))
    assert (found.cuda, found.architectures_known, found.cubin) == ("13.2", False, ())


def test_a_known_version_built_for_another_cuda_is_unknown() -> None:
    found = derive(wheel("torch", "2.15.0", requires=("cuda-toolkit",)), wheel("cuda-toolkit", "13.0.2"))
    assert not found.architectures_known


def test_the_highest_driver_counts_where_packages_bring_several_runtimes() -> None:
    torch = wheel("torch", "2.10.0", requires=("nvidia-cuda-runtime-cu12",))
    found = derive(torch, wheel("nvidia-cuda-runtime-cu12", "12.8.90"), wheel("jax-cuda13-plugin", "0.9.0"))
    assert (found.cuda, found.driver) == ("12.8", "580")


def test_other_frameworks_show_their_runtime_too() -> None:
    assert derive(wheel("cupy-cuda12x", "14.0")).driver == "525.60.13"
    assert derive(wheel("jax-cuda13-plugin", "0.9")).cuda == "13.0"
    assert derive(wheel("tensorflow", "2.20"), wheel("nvidia-cuda-runtime-cu12", "12.5.82")).cuda == "12.5"
    assert not derive(wheel("cupy-cuda12x", "14.0")).architectures_known


def test_a_runtime_that_is_not_known_has_no_known_driver() -> None:
    found = derive(wheel("nvidia-cuda-runtime", "14.1.5"))
    assert (found.cuda, found.driver) == ("14.1", None)
    assert kinds(judge(found, TargetSpec(driver="999"), torch=None)) == [Kind.DRIVER]


def test_placeholders_of_the_runtime_are_no_runtime() -> None:
    assert derive(wheel("nvidia-cuda-runtime", "0.0.1")).cuda is None


def test_only_the_platforms_own_wheels_count() -> None:
    wheels = [wheel("cuda-toolkit", "13.0.2", platforms=(Platform.ARM64,))]
    assert derive_contract(wheels, X86).cuda is None
    assert derive_contract(wheels, Platform.ARM64).cuda == "13.0"


@pytest.mark.parametrize(
    ("tags", "glibc"),
    [
        ("py3-none-any", "2.5"),
        ("cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64", "2.17"),
        ("cp313-cp313-manylinux2014_x86_64.manylinux_2_28_x86_64", "2.17"),
        ("cp313-cp313-manylinux_2_39_x86_64", "2.39"),
        ("cp313-cp313-manylinux_2_39_aarch64.manylinux1_x86_64", "2.5"),
        ("cp313-cp313-linux_x86_64", "2.5"),
    ],
)
def test_the_glibc_floor_is_that_of_the_most_demanding_wheel(tags: str, glibc: str) -> None:
    assert derive(wheel("a", tags=tags), wheel("b")).glibc == glibc


def test_the_glibc_floor_of_arm_starts_where_its_wheels_do() -> None:
    assert derive(platform=Platform.ARM64).glibc == "2.17"


@pytest.mark.parametrize(
    ("driver", "floor", "reached"),
    [
        ("580", "580", True),
        ("580.65.06", "580", True),
        ("579.99", "580", False),
        ("535", "525.60.13", True),
        ("525", "525.60.13", True),  # a branch alone stands for its releases
        ("525.53", "525.60.13", False),
        ("525.60.13", "525.60.13", True),
        ("525.60.2", "525.60.13", False),
        ("470", "525.60.13", False),
    ],
)
def test_drivers_are_compared_by_number_as_far_as_they_are_given(driver: str, floor: str, *, reached: bool) -> None:
    assert reaches(driver, floor) is reached
    target = TargetSpec(driver=driver)
    judged = judge(contract(cuda="12.8", driver=floor), target, torch="2.10.0")
    assert kinds(judged) == ([] if reached else [Kind.DRIVER])


@pytest.mark.parametrize(
    ("gpu", "runs"),
    [("8.0", True), ("8.6", True), ("8.9", True), ("7.5", False), ("9.0", False), ("8.7", False), ("10.0", False)],
)
def test_machine_code_runs_within_its_major_version(gpu: str, *, runs: bool) -> None:
    assert runs_machine_code(("8.0", "8.6"), gpu) is runs


def test_machine_code_for_tegra_is_its_own() -> None:
    assert runs_machine_code(("8.7",), "8.7")
    assert not runs_machine_code(("8.0", "8.6"), "8.7")
    assert runs_machine_code(("11.0",), "11.0")


def test_ptx_runs_on_any_later_gpu() -> None:
    assert runs_ptx(("9.0",), "12.0")
    assert runs_ptx(("12.0",), "12.0")
    assert not runs_ptx(("12.0",), "9.0")
    assert not runs_ptx(("10.0",), "9.0")


def test_a_gpu_without_code_is_told_with_what_there_is() -> None:
    (mismatch,) = judge(CU13, TargetSpec(driver="580", gpus=("7.0", "8.9", "12.0")), torch="2.15.0")
    assert mismatch.kind is Kind.GPU
    assert mismatch.gpu == "7.0"
    assert "capability 7.0 (it has 7.5, 8.0, 8.6, 9.0, 10.0, 12.0)" in mismatch.words


def test_a_gpu_that_ptx_serves_needs_the_driver_of_that_cuda() -> None:
    made = contract(cuda="12.8", driver="525.60.13", cubin=("9.0",), ptx=("9.0",))
    assert judge(made, TargetSpec(gpus=("12.0",)), torch="2.7.0") == ()
    assert judge(made, TargetSpec(gpus=("12.0",), driver="570"), torch="2.7.0") == ()
    (mismatch,) = judge(made, TargetSpec(gpus=("12.0",), driver="535"), torch="2.7.0")
    assert "needs an NVIDIA driver of 570.26 or later" in mismatch.words


def test_unknown_architectures_are_not_judged() -> None:
    unknown = contract(cuda="13.2", driver="580", architectures_known=False)
    assert judge(unknown, TargetSpec(gpus=("7.0",)), torch="99.0") == ()


def test_every_gpu_and_the_driver_are_told_of_at_once() -> None:
    judged = judge(CU13, TargetSpec(driver="535", gpus=("6.1", "7.0")), torch="2.15.0")
    assert kinds(judged) == [Kind.DRIVER, Kind.GPU, Kind.GPU]


@pytest.mark.parametrize(
    "target", [TargetSpec(driver="535"), TargetSpec(gpus=("9.0",)), TargetSpec(cuda="12.8")], ids=str
)
def test_torch_silently_without_cuda_is_a_mismatch_where_a_gpu_is_to_be_used(target: TargetSpec) -> None:
    assert kinds(judge(contract(), target, torch="2.10.0")) == [Kind.NO_CUDA]


def test_without_a_target_torch_may_be_without_cuda() -> None:
    assert judge(contract(), TargetSpec(), torch="2.10.0+cpu") == ()
    assert judge(contract(), TargetSpec(driver="535"), torch=None) == ()


def test_an_exact_cuda_is_that_one() -> None:
    assert judge(CU13, TargetSpec(cuda="13.2"), torch="2.15.0") == ()
    assert kinds(judge(CU13, TargetSpec(cuda="13.0"), torch="2.15.0")) == [Kind.OTHER_CUDA]


def test_no_cuda_is_wanted_for_the_cpu() -> None:
    assert judge(contract(), TargetSpec(cuda="cpu"), torch="2.10.0+cpu") == ()
    assert kinds(judge(CU13, TargetSpec(cuda="cpu", driver="100"), torch="2.15.0")) == [Kind.UNWANTED_CUDA]


def test_the_tables_agree_with_themselves() -> None:
    builds = torch_builds()
    assert len({(build.version, build.machine) for build in builds}) == len(builds)
    for build in builds:
        assert lowest_driver(build.cuda) is not None
        assert own_driver(build.cuda) is not None
        assert find_build(str(build.version), build.cuda, next(p for p in Platform if p.machine == build.machine))
        label = build.version.local
        assert label is None or label == f"cu{build.cuda.replace('.', '')}"
    assert not exists_for(builds[-1], "3.14")
    assert exists_for(builds[0], "3.99")
