from __future__ import annotations

from dataclasses import replace

import pytest
from signed_archive import stanza
from test_debian_lock_closure import WHERE, merged

from envlock.lock.debian.closure import Unmet
from envlock.lock.debian.merged import MergedIndex
from envlock.lock.debian.packages import PackageIndex, compact
from envlock.lock.debian.pinning import close_keeping
from envlock.lock.model import LockedDeb
from envlock.platforms import Platform


def pins(*stanzas: str, requested: str = "") -> dict[str, LockedDeb]:
    """The packages of these entries as an earlier lock has them; `requested` are the names that were asked for."""
    index = PackageIndex(compact("\n".join(stanzas)), archive="debian", architecture="amd64", origin="old")
    return {
        package.name: LockedDeb(
            name=package.name,
            version=package.version,
            architecture=package.architecture,
            archive=package.archive,
            pool=package.pool,
            size=package.size,
            sha256=package.sha256,
            platforms=(Platform.AMD64,),
            requested="spec" if package.name in requested.split() else None,
        )
        for name in index.names
        for package in index.find(name)
    }


def kept(index: MergedIndex, roots: str, old: dict[str, LockedDeb]) -> dict[str, str]:
    chosen = close_keeping(index, dict.fromkeys(roots.split(), "spec"), old, where=WHERE)
    return {package.name: package.version for package in chosen}


def test_a_pin_is_kept_though_the_suite_has_a_newer_version() -> None:
    index = merged(stanza("a", "1", depends="b"), stanza("b", "1"), security=(stanza("b", "2"),))
    assert kept(index, "a", pins(stanza("a", "1"), stanza("b", "1"))) == {"a": "1", "b": "1"}
    assert kept(index, "a", {}) == {"a": "1", "b": "2"}


def test_a_pinned_version_that_left_the_index_keeps_its_name_and_hash() -> None:
    index = merged(stanza("a", "2", depends="b (= 2)"), stanza("b", "2"))
    old = pins(stanza("a", "1"), stanza("b", "1"), requested="a")
    chosen = close_keeping(index, {"a": "spec"}, old, where=WHERE)
    assert [(p.name, p.version, p.sha256) for p in chosen] == [
        ("a", "1", old["a"].sha256),
        ("b", "1", old["b"].sha256),
    ]


def test_the_same_version_with_other_bytes_stays_what_was_locked() -> None:
    index = merged(stanza("a", "1"))
    old = pins(stanza("a", "1"))
    old["a"] = replace(old["a"], sha256=type(old["a"].sha256).of(b"other"))
    (package,) = close_keeping(index, {"a": "spec"}, old, where=WHERE)
    assert package.sha256 == old["a"].sha256


def test_something_new_that_wants_a_newer_version_takes_it_and_its_exact_siblings_along() -> None:
    index = merged(
        stanza("libc6", "2"), stanza("libc6-dev", "2", depends="libc6 (= 2)"), stanza("bash", "2"),
        stanza("new", depends="libc6 (>= 2)"),
    )  # fmt: skip
    old = pins(stanza("libc6", "1"), stanza("libc6-dev", "1"), stanza("bash", "1"), requested="libc6-dev bash")
    assert kept(index, "libc6-dev bash new", old) == {"libc6": "2", "libc6-dev": "2", "bash": "1", "new": "1.0"}


def test_a_pin_whose_own_entry_excludes_the_newer_sibling_follows() -> None:
    index = merged(
        stanza("a", "1", depends="b (= 1)"), stanza("b", "1"), stanza("new", depends="b (>= 2)"),
        security=(stanza("a", "2", depends="b (= 2)"), stanza("b", "2")),
    )  # fmt: skip
    assert kept(index, "a new", pins(stanza("a", "1"), stanza("b", "1"))) == {"a": "2", "b": "2", "new": "1.0"}


def test_a_pin_that_something_new_breaks_is_given_up() -> None:
    index = merged(stanza("a", "2"), stanza("new", breaks="a (<< 2)"))
    assert kept(index, "a new", pins(stanza("a", "1"))) == {"a": "2", "new": "1.0"}


def test_where_nothing_helps_the_fault_is_told() -> None:
    index = merged(stanza("a", "2"), stanza("new", depends="a (>= 3)"))
    with pytest.raises(Unmet, match="a is 2"):
        kept(index, "a new", pins(stanza("a", "1")))


def test_an_alternative_taken_before_is_taken_again() -> None:
    index = merged(stanza("a", depends="b | c"), stanza("b"), stanza("c"))
    assert kept(index, "a", pins(stanza("a"), stanza("c"))) == {"a": "1.0", "c": "1.0"}


def test_a_pin_that_nothing_needs_any_more_falls_away() -> None:
    index = merged(stanza("a"), stanza("git", depends="perl"), stanza("perl"))
    old = pins(stanza("a"), stanza("git"), stanza("perl"), requested="a git")
    assert kept(index, "a", old) == {"a": "1.0"}


def test_what_only_a_vanished_version_needs_stays_beside_it() -> None:
    # a 1 needed lib1; the index has a 2 alone, which needs lib2.
    index = merged(stanza("a", "2", depends="lib2"), stanza("lib1", depends="lib0"), stanza("lib2"), stanza("lib0"))
    old = pins(stanza("a", "1"), stanza("lib1"), stanza("lib0"), requested="a")
    assert kept(index, "a", old) == {"a": "1", "lib0": "1.0", "lib1": "1.0", "lib2": "1.0"}


def test_needs_that_lead_in_a_circle_come_to_an_end() -> None:
    index = merged(stanza("a", "2"), stanza("x", depends="y | nothing"), stanza("y", depends="x"))
    old = pins(stanza("a", "1"), stanza("x"), stanza("y"), requested="a x")
    assert kept(index, "a", old) == {"a": "1"}


def test_an_exact_sibling_of_a_vanished_version_is_not_taken_in_another_version() -> None:
    index = merged(stanza("a", "2", depends="b (= 2)"), stanza("b", "2"))
    assert kept(index, "a", pins(stanza("a", "1"), requested="a")) == {"a": "2", "b": "2"}


def test_what_was_asked_for_once_still_falls_away_beside_a_vanished_version() -> None:
    index = merged(stanza("a", "2"), stanza("git", "2", depends="perl"), stanza("perl", "2"))
    old = pins(stanza("a", "1"), stanza("git", "1"), stanza("perl", "1"), requested="a git")
    assert kept(index, "a", old) == {"a": "1"}


def test_a_pinned_package_whose_name_is_gone_stays_as_locked() -> None:
    old = pins(stanza("a", "1", depends="lib"), stanza("lib", "1"), requested="a")
    assert kept(merged(stanza("lib", "1")), "a", old) == {"a": "1", "lib": "1"}


def test_relations_of_a_newer_version_do_not_part_what_was_locked_together() -> None:
    index = merged(stanza("a", "2", breaks="b (<< 2)", provides="v (= 2)"), stanza("b", "2", depends="v (= 2)"))
    old = pins(stanza("a", "1"), stanza("b", "1"), requested="a b")
    assert kept(index, "a b", old) == {"a": "1", "b": "1"}
