from __future__ import annotations

import pytest
from signed_archive import stanza

from envlock.lock.debian.closure import Unmet, close_over
from envlock.lock.debian.merged import MergedIndex
from envlock.lock.debian.packages import PackageIndex, compact

WHERE = "Debian trixie for amd64"


def merged(*stanzas: str, security: tuple[str, ...] = ()) -> MergedIndex:
    indexes = [
        PackageIndex(compact("\n".join(entries)), archive=archive, architecture="amd64", origin=archive)
        for archive, entries in (("debian", stanzas), ("debian-security", security))
    ]
    return MergedIndex(indexes, title="Debian trixie")


def names(index: MergedIndex, *roots: str) -> list[str]:
    return [package.name for package in close_over(index, dict.fromkeys(roots, "spec"), where=WHERE)]


def test_depends_and_pre_depends_are_followed_and_nothing_else() -> None:
    index = merged(
        stanza("a", depends="b", pre_depends="c", recommends="no", suggests="no"),
        stanza("b", depends="d"),
        stanza("c"),
        stanza("d", depends="a"),
        stanza("no"),
    )
    assert names(index, "a") == ["a", "b", "c", "d"]


def test_the_highest_version_of_all_archives_is_taken_and_of_equal_ones_the_first() -> None:
    index = merged(
        stanza("libc6", "2.41-12"),
        stanza("same", "1"),
        security=(stanza("libc6", "2.41-12+deb13u1"), stanza("same", "1")),
    )
    libc, same = close_over(index, {"libc6": "x", "same": "x"}, where=WHERE)
    assert (libc.version, libc.archive) == ("2.41-12+deb13u1", "debian-security")
    assert same.archive == "debian"


def test_the_first_alternative_that_can_be_had_is_taken() -> None:
    assert names(merged(stanza("a", depends="b | c"), stanza("b"), stanza("c")), "a") == ["a", "b"]
    assert names(merged(stanza("a", depends="b | c"), stanza("c")), "a") == ["a", "c"]
    assert names(merged(stanza("a", depends="b (>= 2) | c"), stanza("b", "1"), stanza("c")), "a") == ["a", "c"]


def test_an_alternative_that_something_else_brings_is_preferred_whatever_the_order() -> None:
    index = merged(
        stanza("a", depends="first | second, z"), stanza("z", depends="y"), stanza("y", depends="second"),
        stanza("first"), stanza("second"),
    )  # fmt: skip
    assert names(index, "a") == ["a", "second", "y", "z"]


def test_a_script_that_would_do_nothing_here_is_not_preferred() -> None:
    index = merged(
        stanza("init", depends="usrmerge | usr-is-merged"), stanza("usrmerge", depends="perl"),
        stanza("usr-is-merged"), stanza("perl"),
    )  # fmt: skip
    assert names(index, "init") == ["init", "usr-is-merged"]


def test_of_the_providers_the_one_of_highest_priority_is_taken_then_the_first_by_name() -> None:
    index = merged(
        stanza("base", depends="awk, editor"),
        stanza("gawk", provides="awk"),
        stanza("mawk", provides="awk", priority="required"),
        stanza("nano", provides="editor"),
        stanza("ed", provides="editor"),
    )
    assert names(index, "base") == ["base", "ed", "mawk"]


@pytest.mark.parametrize(
    ("provides", "wanted", "fits"),
    [
        ("v (= 2)", "v (>= 2)", True),
        ("v (= 2)", "v (>> 2)", False),
        ("v", "v (>= 0)", False),
        ("v", "v", True),
    ],
)
def test_a_version_is_only_met_by_a_versioned_provision(provides: str, wanted: str, *, fits: bool) -> None:
    index = merged(stanza("a", depends=wanted), stanza("p", "9", provides=provides))
    if fits:
        assert names(index, "a") == ["a", "p"]
    else:
        with pytest.raises(Unmet, match="none of the packages that provide v"):
            names(index, "a")


def test_an_architecture_after_a_name_means_this_one_or_none() -> None:
    index = merged(
        stanza("a", arch="amd64", depends="py:any, n:native, e:amd64, f:i386 | g"),
        stanza("py", arch="amd64", multi_arch="allowed"),
        stanza("n"),
        stanza("e", arch="amd64"),
        stanza("f", arch="amd64"),
        stanza("g"),
    )
    assert names(index, "a") == ["a", "e", "g", "n", "py"]


def test_any_needs_the_packages_consent() -> None:
    with pytest.raises(Unmet) as caught:
        names(merged(stanza("a", depends="py:any"), stanza("py", multi_arch="foreign")), "a")
    assert "py:any" in caught.value.message


def test_an_unmet_dependency_tells_the_chain_and_why() -> None:
    index = merged(stanza("gcc", depends="gcc-14"), stanza("gcc-14", depends="cpp (= 2) | tcc"), stanza("cpp", "1"))
    with pytest.raises(Unmet) as caught:
        names(index, "gcc")
    assert caught.value.code == "unmet-dependency"
    assert caught.value.status == 3
    assert caught.value.message == (
        "Debian trixie for amd64: gcc -> gcc-14 -> cpp (= 2) | tcc cannot be met: cpp is 1; there is no package tcc"
    )


@pytest.mark.parametrize("field", ["conflicts", "breaks"])
def test_a_conflict_among_the_chosen_names_both_and_who_wants_them(field: str) -> None:
    index = merged(
        stanza("a", depends="b"), stanza("b", **{field: "d (<< 2)"}), stanza("c", depends="d"), stanza("d")
    )
    with pytest.raises(Unmet) as caught:
        names(index, "a", "c")
    assert caught.value.code in {"package-conflict", "unmet-dependency"}
    assert "b 1.0 excludes d (<< 2): d 1.0 cannot be beside it" in caught.value.message
    assert "a -> b" in caught.value.message or "c -> d" in caught.value.message


def test_wanted_packages_that_exclude_each_other_are_told() -> None:
    index = merged(
        stanza("exim", conflicts="mta", provides="mta"), stanza("postfix", conflicts="mta", provides="mta")
    )
    with pytest.raises(Unmet, match="which provides mta, cannot be beside it") as caught:
        names(index, "exim", "postfix")
    assert caught.value.code == "package-conflict"
    assert set(caught.value.targets) == {"exim", "postfix"}


@pytest.mark.parametrize(("provider", "excluder"), [("a", "z"), ("z", "a")])
def test_what_a_package_provides_is_excluded_whichever_comes_first(provider: str, excluder: str) -> None:
    index = merged(stanza(provider, provides="v (= 2)"), stanza(excluder, conflicts="v (<< 3)"))
    with pytest.raises(Unmet, match=rf"{excluder} 1\.0 excludes v .<< 3.: {provider} 1\.0, which provides v,"):
        names(index, provider, excluder)


def test_an_unmet_alternative_that_clashes_is_told_with_the_clash() -> None:
    index = merged(stanza("a", depends="b"), stanza("b", conflicts="c"), stanza("c"))
    with pytest.raises(Unmet, match=r"a -> b cannot be met: b 1\.0 excludes c: c 1\.0 cannot be beside it") as caught:
        close_over(index, {"a": "spec", "c": "spec"}, where=WHERE)
    assert set(caught.value.targets) == {"b", "c"}


def test_a_package_does_not_exclude_itself_and_versioned_conflicts_pass_by_other_versions() -> None:
    index = merged(stanza("a", conflicts="v, b (<< 1)", provides="v"), stanza("b", "1"))
    assert names(index, "a", "b") == ["a", "b"]


def test_an_alternative_that_clashes_is_passed_over() -> None:
    index = merged(stanza("a", depends="b | c"), stanza("b", conflicts="d"), stanza("c"), stanza("d"))
    assert names(index, "a", "d") == ["a", "c", "d"]


def test_a_decision_that_leads_to_a_clash_later_is_taken_back() -> None:
    index = merged(
        stanza("a", depends="b | c, e | f"), stanza("b", depends="x"), stanza("c"), stanza("x", conflicts="g"),
        stanza("e", depends="g"), stanza("f", depends="g"), stanza("g"),
    )  # fmt: skip
    assert names(index, "a") == ["a", "c", "e", "g"]


def test_a_search_without_an_end_is_given_up_with_its_first_fault() -> None:
    choices = [stanza(f"{side}{number}") for number in range(20) for side in "lr"]
    wants = ", ".join(f"l{number} | r{number}" for number in range(20))
    index = merged(
        *choices, stanza("a", depends=f"{wants}, y | z"), stanza("y", depends="gone"), stanza("z", depends="gone")
    )
    with pytest.raises(Unmet, match="a -> y -> gone cannot be met: there is no package gone"):
        names(index, "a")


def test_the_choice_does_not_hang_on_the_order_of_the_index() -> None:
    stanzas = [
        stanza("a", depends="v, w | x"), stanza("p", provides="v"), stanza("q", provides="v"),
        stanza("w", depends="q | p"), stanza("x"),
    ]  # fmt: skip
    assert names(merged(*stanzas), "a") == names(merged(*reversed(stanzas)), "a")


def test_a_name_that_is_not_there_is_told_with_its_neighbours() -> None:
    with pytest.raises(Unmet) as caught:
        names(merged(stanza("openssh-server"), stanza("openssl")), "opensh-server")
    assert caught.value.code == "unknown-package"
    assert "there is no package opensh-server (spec)" in caught.value.message
    assert caught.value.hint == "Near it: openssh-server."


def test_another_python_is_told_with_the_one_that_the_suite_has() -> None:
    with pytest.raises(Unmet) as caught:
        names(merged(stanza("python3", "3.13.5-1")), "python3.12-dev")
    assert "Debian trixie has Python 3.13 alone (python3.13-dev)" in caught.value.hint


def test_a_virtual_root_is_its_only_provider_or_a_question() -> None:
    one = merged(stanza("gcc", provides="c-compiler"))
    assert names(one, "c-compiler") == ["gcc"]
    two = merged(stanza("gcc", provides="c-compiler"), stanza("clang", provides="c-compiler"))
    with pytest.raises(Unmet, match="virtual package") as caught:
        names(two, "c-compiler")
    assert caught.value.hint == "Name one of them: clang, gcc."
