from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from wheels_kit import TARGET

from envlock.lock.wheels.interpreter import ask_interpreter
from envlock.lock.wheels.tags import Fit, Nearness
from envlock.lock.wheels.target import Target

FIT = Fit(TARGET)


@pytest.mark.parametrize(
    "tags",
    [
        "py3-none-any",
        "py2.py3-none-any",
        "py313-none-any",
        "py310-none-any",
        "cp313-none-any",
        "cp313-cp313-manylinux_2_41_x86_64",
        "cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64",
        "cp313-cp313-manylinux2010_x86_64",
        "cp313-cp313-manylinux1_x86_64",
        "cp313-cp313-linux_x86_64",
        "cp38-abi3-manylinux_2_28_x86_64",
        "py3-none-manylinux_2_28_x86_64",
    ],
)
def test_what_fits(tags: str) -> None:
    assert FIT.rank(tags) is not None


@pytest.mark.parametrize(
    ("tags", "nearness", "words"),
    [
        ("cp313-cp313-manylinux_2_42_x86_64", Nearness.GLIBC, "needs glibc 2.42, and the base has 2.41"),
        ("cp312-cp312-manylinux_2_17_x86_64", Nearness.INTERPRETER, "is for CPython 3.12"),
        ("cp314-abi3-manylinux_2_17_x86_64", Nearness.INTERPRETER, "is for CPython 3.14"),
        ("py2-none-any", Nearness.INTERPRETER, "is for Python 2"),
        ("cp313-cp313t-manylinux_2_17_x86_64", Nearness.IMPLEMENTATION, "is for free-threaded CPython 3.13"),
        ("pp310-pypy310_pp73-manylinux_2_17_x86_64", Nearness.IMPLEMENTATION, "is for PyPy 3.10"),
        ("cp313-cp313-manylinux_2_17_aarch64", Nearness.PLATFORM, "is for Linux aarch64"),
        ("cp313-cp313-musllinux_1_2_x86_64", Nearness.PLATFORM, "is for Linux with musl (musllinux_1_2_x86_64)"),
        ("cp313-cp313-macosx_11_0_arm64", Nearness.PLATFORM, "is for macOS"),
        ("cp313-cp313-win_amd64", Nearness.PLATFORM, "is for Windows"),
    ],
)
def test_what_does_not_fit_and_why(tags: str, nearness: Nearness, words: str) -> None:
    assert FIT.rank(tags) is None
    assert FIT.misfit(tags).nearness is nearness
    assert FIT.misfit(tags).words == words


def test_of_several_tags_the_nearest_is_told_of() -> None:
    assert FIT.misfit("cp312.cp313-cp312.cp313-manylinux_2_99_x86_64").nearness is Nearness.GLIBC


def test_what_is_nearest_to_the_target_is_preferred() -> None:
    best_first = [
        "cp313-cp313-linux_x86_64",
        "cp313-cp313-manylinux_2_28_x86_64",
        "cp313-cp313-manylinux_2_17_x86_64",
        "cp313-abi3-manylinux_2_28_x86_64",
        "cp310-abi3-manylinux_2_28_x86_64",
        "py3-none-manylinux_2_28_x86_64",
        "cp313-none-any",
        "py3-none-any",
    ]
    assert sorted(best_first, key=lambda tags: FIT.rank(tags) or 0) == best_first


def test_the_host_s_own_tags_come_in_pip_s_own_order() -> None:
    host = ask_interpreter(Path(sys.executable), {}).target
    fit = Fit(host)
    assert [fit.rank(str(tag)) for tag in sys_tags()] == list(range(len(list(sys_tags()))))


def test_arm_knows_no_manylinux_older_than_2014() -> None:
    fit = Fit(Target(python="3.11", python_full="3.11.2", machine="aarch64", glibc="2.36"))
    assert fit.rank("cp311-cp311-manylinux2014_aarch64") is not None
    assert fit.rank("cp311-cp311-manylinux2010_aarch64") is None


def test_without_glibc_only_wheels_without_machine_code_fit() -> None:
    fit = Fit(Target(python="3.11", python_full="3.11.2", machine="arm64", glibc=None))
    assert fit.rank("py3-none-any") is not None
    assert fit.rank("cp311-cp311-manylinux_2_17_x86_64") is None
