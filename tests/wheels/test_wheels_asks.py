from __future__ import annotations

import pytest
from packaging.version import Version
from wheels_kit import TARGET

from envlock.errors import FaultyInput
from envlock.lock.wheels.asks import Ask, prerelease_names, read_asks, versions_pinned
from envlock.lock.wheels.metadata import read_wheel_metadata
from envlock.spec.model import Requirement


def asks(*texts: str) -> tuple[Ask, ...]:
    return read_asks([Requirement(text=text, origin="requirements.txt:7") for text in texts], TARGET)


def test_markers_are_decided_for_the_target() -> None:
    held = asks(
        'old; python_version < "3.13"',
        'new; python_full_version >= "3.13.5"',
        'arm; platform_machine == "aarch64"',
        'linux; sys_platform == "linux" and platform_system == "Linux" and os_name == "posix"',
        'cpython; implementation_name == "cpython" and platform_python_implementation == "CPython"',
        'kernel; platform_release >= "5.4"',
    )
    assert [ask.name for ask in held] == ["new", "linux", "cpython"]


def test_lines_for_resolvers_have_neither_marker_nor_place() -> None:
    (ask,) = asks('My_Tool[b,A]>=1.0,<2; python_version > "3"')
    assert ask.line() == "my-tool[a,b]<2,>=1.0"
    assert ask.bound() == "my-tool<2,>=1.0"
    (direct,) = asks("tool[x] @ https://host.example/tool-1.0-py3-none-any.whl")
    assert direct.line("1.0") == "tool[x]==1.0"
    assert direct.bound("1.0") == "tool==1.0"


def test_what_cannot_be_read_is_told_with_its_place() -> None:
    with pytest.raises(FaultyInput) as caught:
        asks("tool >== 1")
    assert caught.value.code == "requirement-faulty"
    assert "requirements.txt:7" in caught.value.message


def test_pre_releases_are_for_those_who_name_one() -> None:
    assert prerelease_names(asks("one>=2.0rc1", "two>=2.0", "three")) == {"one"}


def test_exact_versions_are_pinned_with_those_of_the_lock() -> None:
    pinned = versions_pinned(asks("one==1.0", "two==1.*", "one==1.1", "three>=3"), [("three", "3.1")])
    assert pinned["one"] == {Version("1.0"), Version("1.1")}
    assert pinned["three"] == {Version("3.1")}
    assert not pinned.get("two")


def metadata(*requires: str) -> bytes:
    lines = [
        "Metadata-Version: 2.1",
        "Name: My_Tool",
        "Version: 1.0",
        *(f"Requires-Dist: {each}" for each in requires),
    ]
    return "\n".join(lines).encode()


def test_needs_depend_on_target_and_extras() -> None:
    read = read_wheel_metadata(
        metadata(
            "a>=1", 'b; python_version < "3"', 'c; extra == "gpu"', 'd; sys_platform == "linux" and extra == "gpu"'
        ),
        "my_tool-1.0-py3-none-any.whl",
    )
    assert read.name == "my-tool"
    assert [need.name for need in read.needed(TARGET, [])] == ["a"]
    assert [need.name for need in read.needed(TARGET, ["gpu"])] == ["a", "c", "d"]


def test_what_older_tools_wrote_is_still_a_need() -> None:
    read = read_wheel_metadata(metadata("one (>=1.0.*)", 'two [x] >2.*; python_version >= "3"'), "tool.whl")
    assert [(need.name, need.specifier) for need in read.needs] == [("one", None), ("two", None)]
    assert read.needs[1].extras == {"x"}


@pytest.mark.parametrize("data", [b"Name: tool\n", b"Name: tool\nVersion: one\n", metadata("!!"), metadata("a; b c")])
def test_metadata_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(FaultyInput) as caught:
        read_wheel_metadata(data, "tool-1.0-py3-none-any.whl")
    assert caught.value.code == "wheel-faulty"
