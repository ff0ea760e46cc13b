from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from wheels_kit import PLACE, TARGET, index_file

from envlock.errors import Unsatisfiable
from envlock.fetch.model import IndexFile
from envlock.lock.wheels.catalogue import Project
from envlock.lock.wheels.explain import Failure, no_resolution, passed_over
from envlock.lock.wheels.offers import Rules, sort_out
from envlock.lock.wheels.tags import Fit


def project(name: str, *files: str | IndexFile) -> Project:
    listed = [file if isinstance(file, IndexFile) else index_file(file) for file in files]
    if not listed:
        return Project(name=name, index=None, offers={})
    found = sort_out(name, listed, PLACE, Fit(TARGET), Rules())
    return Project(name=name, index=PLACE, offers=found.offers, found=found)


def told(words: str, *projects: Project, allowed: tuple[str, ...] = (), **bounds: str) -> Unsatisfiable:
    return no_resolution(
        Failure(
            resolver="uv",
            words=words,
            projects=projects,
            target=TARGET,
            allowed=frozenset(allowed),
            bounds={name: SpecifierSet(text) for name, text in bounds.items()},
            indexes=("https://index.example/simple",),
        )
    )


def test_the_line_that_allows_source_packages_names_all_of_them() -> None:
    fault = told(
        "Because there are no versions of jieba, it cannot be.",
        project("jieba", "jieba-0.42.1.tar.gz"),
        project("pathtools", "pathtools-0.1.2.tar.gz"),
        project("click", "click-8.0-py3-none-any.whl", "click-7.0.tar.gz"),
        allowed=("antlr4-python3-runtime",),
        jieba="",
    )
    assert fault.code == "no-resolution"
    assert 'allow-sdist = ["antlr4-python3-runtime", "jieba", "pathtools"]' in fault.hint
    assert "jieba publishes no wheel." in fault.message
    assert "click" not in fault.message


def test_a_wheel_that_wants_a_newer_c_library_is_told() -> None:
    fault = told(
        "there are no versions of tool", project("tool", "tool-2.0-cp313-cp313-manylinux_2_99_x86_64.whl"), tool=""
    )
    assert "tool-2.0-cp313-cp313-manylinux_2_99_x86_64.whl needs glibc 2.99, and the base has 2.41" in fault.message
    assert "[base]" in fault.hint


def test_all_interpreters_that_a_version_is_for_are_told() -> None:
    fault = told(
        "there is no version of tool==1.0",
        project(
            "tool",
            "tool-1.0-cp39-cp39-manylinux_2_17_x86_64.whl",
            "tool-1.0-cp310-cp310-manylinux_2_17_x86_64.whl",
            "tool-1.0-pp310-pypy310_pp73-manylinux_2_17_x86_64.whl",
            "tool-1.0-cp313-cp313-win_amd64.whl",
            "tool-2.0-py3-none-any.whl",
        ),
        tool="==1.0",
    )
    assert "tool has versions that cannot be locked: 1.0 is for CPython 3.9, CPython 3.10." in fault.message


def test_versions_that_were_kept_back_for_several_reasons_are_counted() -> None:
    fault = told(
        "no versions of tool>=2",
        project(
            "tool",
            "tool-1.0-py3-none-any.whl",
            index_file("tool-2.0-py3-none-any.whl", yanked=""),
            index_file("tool-3.0-py3-none-any.whl", requires_python=">=3.14"),
            "tool-4.0rc1-py3-none-any.whl",
        ),
        tool=">=2",
    )
    for count in ("1 yanked", "1 pre-releases", "1 made for other versions of Python"):
        assert count in fault.message
    for advice in ("pre-release", "yanked", "another version"):
        assert advice in fault.hint


def test_what_would_fit_and_is_kept_back_goes_before_what_does_not_fit() -> None:
    files = ("tool-2.0-cp313-cp313-manylinux_2_17_x86_64.whl", "tool-2.0-cp312-cp312-manylinux_2_17_x86_64.whl")
    shown = project("tool", *(index_file(file, yanked="broken") for file in files), "tool-1.0-py3-none-any.whl")
    assert f"{files[0]} was yanked (broken)" in told("tool>=2", shown, tool=">=2").message
    assert passed_over(shown, Version("1.0"), SpecifierSet()) is None


def test_a_newer_version_is_spoken_of_only_where_the_target_is_why() -> None:
    shown = project(
        "tool", "tool-1.0-py3-none-any.whl", "tool-3.0-cp312-cp312-win32.whl", "tool-2.0-py3-none-any.whl"
    )
    assert passed_over(shown, Version("2.0"), SpecifierSet()) == (
        "tool 2.0 is locked, as the newer tool-3.0-cp312-cp312-win32.whl is for Windows"
    )
    assert passed_over(shown, Version("1.0"), SpecifierSet()) is None
    assert passed_over(shown, Version("2.0"), SpecifierSet("<3")) is None


def test_a_name_that_is_nowhere_is_told_with_where_it_was_sought() -> None:
    fault = told("tolo was not found", project("tolo"), project("unrelated-extra"), tolo="")
    assert "tolo is on no index." in fault.message
    assert "https://index.example/simple" in fault.hint
    assert "unrelated-extra" not in fault.message


def test_a_plain_conflict_has_the_resolver_s_words_alone() -> None:
    fault = told(
        "Because a depends on b<1 and you require b>1, it cannot be. See http://127.0.0.1:4711/Wo-_rd/simple/b/",
        project("b", "b-1.0-py3-none-any.whl", "b-1.0-cp312-cp312-win32.whl"),
        b="",
    )
    assert fault.message.splitlines()[1:] == [
        "  Because a depends on b<1 and you require b>1, it cannot be. See the index"
    ]
    assert "127.0.0.1" not in fault.message


def test_long_words_are_cut_in_the_middle() -> None:
    fault = told("\n".join(f"line {number}" for number in range(100)))
    lines = fault.message.splitlines()
    assert len(lines) == 25
    assert lines[1].strip() == "line 0"
    assert lines[-1].strip() == "line 99"
    assert "more lines" in fault.message
