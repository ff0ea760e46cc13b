from __future__ import annotations

from datetime import UTC, datetime

from packaging.version import Version
from wheels_kit import PLACE, TARGET, index_file

from envlock.fetch.model import IndexFile
from envlock.lock.wheels.offers import Offers, Reason, Rules, sort_out
from envlock.lock.wheels.tags import Fit


def sorted_out(*files: IndexFile, project: str = "tool", rules: Rules | None = None) -> Offers:
    return sort_out(project, files, PLACE, Fit(TARGET), rules or Rules())


def chosen(offers: Offers) -> dict[str, str]:
    return {str(version): offer.file.file for version, offer in offers.offers.items()}


def reasons(offers: Offers) -> set[tuple[str, Reason]]:
    return {(out.file, out.reason) for out in offers.excluded}


def test_the_wheel_that_fits_best_stands_for_its_version() -> None:
    found = sorted_out(
        index_file("tool-1.0-py3-none-any.whl"),
        index_file("tool-1.0-cp313-cp313-manylinux_2_17_x86_64.whl"),
        index_file("tool-1.0-cp313-cp313-manylinux_2_28_x86_64.whl"),
        index_file("tool-1.0-cp313-cp313-manylinux_2_28_aarch64.whl"),
        index_file("tool-1.0.tar.gz"),
    )
    assert chosen(found) == {"1.0": "tool-1.0-cp313-cp313-manylinux_2_28_x86_64.whl"}


def test_of_wheels_alike_the_higher_build_number_wins() -> None:
    found = sorted_out(index_file("tool-1.0-9-py3-none-any.whl"), index_file("tool-1.0-10-py3-none-any.whl"))
    assert chosen(found) == {"1.0": "tool-1.0-10-py3-none-any.whl"}


def test_versions_spelt_differently_are_one() -> None:
    found = sorted_out(index_file("tool-1.0.0-py3-none-any.whl"), index_file("tool-1.0.0.tar.gz"))
    assert chosen(found) == {"1.0.0": "tool-1.0.0-py3-none-any.whl"}


def test_a_python_that_is_too_old_is_told() -> None:
    found = sorted_out(index_file("tool-2.0-py3-none-any.whl", requires_python=">=3.14"))
    assert not found.offers
    assert found.excluded[0].reason is Reason.PYTHON
    assert found.excluded[0].words == "wants Python >=3.14"


def test_a_requires_python_that_cannot_be_read_excludes_nothing() -> None:
    assert sorted_out(index_file("tool-2.0-py3-none-any.whl", requires_python="three")).offers


def test_exclude_newer_leaves_out_what_came_later_or_at_an_unknown_time() -> None:
    rules = Rules(exclude_newer=datetime(2026, 1, 1, tzinfo=UTC))
    found = sorted_out(
        index_file("tool-1.0-py3-none-any.whl", upload_time="2025-12-31T23:59:59Z"),
        index_file("tool-2.0-py3-none-any.whl", upload_time="2026-01-01T00:00:00.000001Z"),
        index_file("tool-3.0-py3-none-any.whl"),
        index_file("tool-4.0-py3-none-any.whl", upload_time="yesterday"),
        rules=rules,
    )
    assert chosen(found) == {"1.0": "tool-1.0-py3-none-any.whl"}
    assert [out.reason for out in found.excluded] == [Reason.NEWER, Reason.UNDATED, Reason.UNDATED]


def test_a_file_on_this_machine_needs_no_upload_time() -> None:
    rules = Rules(exclude_newer=datetime(2026, 1, 1, tzinfo=UTC))
    local = IndexFile(file="tool-1.0-py3-none-any.whl", url="file:///wheels/tool-1.0-py3-none-any.whl")
    assert sorted_out(local, rules=rules).offers


def test_a_yanked_file_is_offered_only_to_those_who_name_its_version() -> None:
    file = index_file("tool-1.0-py3-none-any.whl", yanked="broken")
    assert sorted_out(file).excluded[0].words == "was yanked (broken)"
    assert sorted_out(file, rules=Rules(pinned={"tool": frozenset({Version("1.0")})})).offers


def test_pre_releases_are_hidden_unless_named_or_all_there_is() -> None:
    final, early = index_file("tool-1.0-py3-none-any.whl"), index_file("tool-2.0rc1-py3-none-any.whl")
    assert list(chosen(sorted_out(final, early))) == ["1.0"]
    assert list(chosen(sorted_out(final, early, rules=Rules(prereleases=frozenset({"tool"}))))) == ["1.0", "2.0rc1"]
    assert list(chosen(sorted_out(early))) == ["2.0rc1"]


def test_a_version_with_a_source_alone_is_offered_where_that_is_allowed() -> None:
    sdist = index_file("tool-1.0.tar.gz")
    assert reasons(sorted_out(sdist)) == {("tool-1.0.tar.gz", Reason.SOURCE)}
    for rules in (Rules(sources=frozenset({"tool"})), Rules(all_sources=True)):
        offer = sorted_out(sdist, rules=rules).offers[Version("1.0")]
        assert offer.source
        assert offer.file.file == "tool-1.0.tar.gz"


def test_a_version_with_machine_code_for_others_is_never_built_from_source() -> None:
    found = sorted_out(
        index_file("tool-1.0-cp312-cp312-win_amd64.whl"), index_file("tool-1.0.tar.gz"), rules=Rules(all_sources=True)
    )
    assert not found.offers


def test_a_version_with_a_wheel_for_python_2_alone_counts_as_source_only() -> None:
    found = sorted_out(
        index_file("tool-1.0-py2-none-any.whl"), index_file("tool-1.0.tar.gz"), rules=Rules(all_sources=True)
    )
    assert found.offers[Version("1.0")].source


def test_old_names_of_source_distributions_are_understood() -> None:
    rules = Rules(all_sources=True)
    found = sorted_out(
        index_file("antlr4-python3-runtime-4.9.3.tar.gz"), project="antlr4-python3-runtime", rules=rules
    )
    assert chosen(found) == {"4.9.3": "antlr4-python3-runtime-4.9.3.tar.gz"}
    both = sorted_out(index_file("tool-1.0.zip"), index_file("tool-1.0.tar.gz"), rules=rules)
    assert chosen(both) == {"1.0": "tool-1.0.tar.gz"}


def test_files_of_no_known_kind_are_passed_over() -> None:
    found = sorted_out(
        index_file("tool-1.0-py3.8.egg"),
        index_file("tool-1.0.exe"),
        index_file("tool-nonsense-py3-none-any.whl"),
        index_file("tool-1.0.whl"),
        index_file("tool-extra-1.0.tar.gz"),
    )
    assert found == Offers({}, ())


def test_local_versions_are_versions_of_their_own() -> None:
    found = sorted_out(
        index_file("tool-1.0+cu128-cp313-cp313-linux_x86_64.whl"), index_file("tool-1.0-py3-none-any.whl")
    )
    assert sorted(chosen(found)) == ["1.0", "1.0+cu128"]
