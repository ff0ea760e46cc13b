from __future__ import annotations

import json

import pytest
from signed_archive import stanza

from envlock.errors import FaultyInput
from envlock.lock.debian.packages import PackageIndex, compact
from envlock.lock.debian.relations import Relation, parse_alternatives, parse_list


def index_of(*stanzas: str) -> PackageIndex:
    data = compact("\n".join(stanzas))
    return PackageIndex(data, archive="debian", architecture="amd64", origin="Debian suite trixie")


def test_a_package_has_what_a_lock_and_a_closure_need() -> None:
    text = stanza(
        "gcc",
        "4:14.2.0-1",
        arch="amd64",
        pre_depends="dpkg",
        depends="cpp (= 4:14.2.0-1), gcc-14 | gcc-13 (<< 14)",
        conflicts="gcc-doc (<< 1:2.95.3)",
        breaks="old",
        provides="c-compiler, gcc-api (= 14)",
        multi_arch="allowed",
    )
    (package,) = index_of(text).find("gcc")
    assert (package.version, package.architecture, package.archive, package.size) == (
        "4:14.2.0-1",
        "amd64",
        "debian",
        1000,
    )
    assert package.pool == "pool/main/g/gcc/gcc_14.2.0-1_amd64.deb"
    assert package.depends == (
        (Relation("dpkg"),),
        (Relation("cpp", operator="=", version="4:14.2.0-1"),),
        (Relation("gcc-14"), Relation("gcc-13", operator="<<", version="14")),
    )
    assert [str(relation) for relation in package.conflicts] == ["gcc-doc (<< 1:2.95.3)", "old"]
    assert package.provides == (Relation("c-compiler"), Relation("gcc-api", operator="=", version="14"))
    assert package.multi_arch == "allowed"


def test_every_version_of_a_name_is_found_wherever_it_stands() -> None:
    index = index_of(stanza("linux", "6.1"), stanza("linux-x", "6.1"), stanza("a", "1"), stanza("linux", "6.2"))
    assert sorted(package.version for package in index.find("linux")) == ["6.1", "6.2"]
    assert [package.version for package in index.find("a")] == ["1"]
    assert index.find("lin") == ()
    assert set(index.names) == {"a", "linux", "linux-x"}


def test_providers_and_essential_packages_are_known() -> None:
    index = index_of(
        stanza("mawk", provides="awk"), stanza("gawk", provides="awk (= 5), x"), stanza("bash", essential="yes")
    )
    assert index.provider_names("awk") == ("mawk", "gawk")
    assert index.provider_names("nothing") == ()
    assert index.essential == ("bash",)


def test_folded_fields_and_an_empty_index_are_read() -> None:
    index = index_of(stanza("a", depends="b,\n c (>= 1)"))
    assert [str(group[0]) for group in index.find("a")[0].depends] == ["b", "c (>= 1)"]
    assert index_of().find("a") == ()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"filename": "../../etc/passwd.deb"}, "Filename"),
        ({"filename": "pool/main/../../../root/x.deb"}, "Filename"),
        ({"filename": "/pool/x.deb"}, "Filename"),
        ({"filename": "pool/main/x/%2e%2e/x.deb"}, "Filename"),
        ({"filename": "pool\\main\\x.deb"}, "Filename"),
        ({"filename": "pool//x.deb"}, "Filename"),
        ({"filename": "pool/x.rpm"}, "Filename"),
        ({"size": "0"}, "Size"),
        ({"size": "-5"}, "Size"),
        ({"size": "99999999999"}, "Size"),
        ({"size": "1e3"}, "Size"),
        ({"size": ""}, "Size"),
        ({"sha256": ""}, "no SHA256"),
        ({"sha256": "d41d8cd98f00b204e9800998ecf8427e"}, "sha256"),
        ({"version": "1 0"}, "version"),
        ({"architecture": "arm64"}, "architecture"),
        ({"depends": "b; rm"}, "relation"),
        ({"depends": "b (=> 1)"}, "relation"),
        ({"provides": "B"}, "relation"),
    ],
)
def test_an_entry_that_is_not_fit_to_be_locked_is_refused_when_asked_for(fields: dict[str, str], fault: str) -> None:
    version = fields.pop("version", "1.0")
    index = index_of(stanza("bad", version, **fields), stanza("good"))
    assert len(index.find("good")) == 1
    with pytest.raises(FaultyInput, match=fault) as caught:
        index.find("bad")
    assert caught.value.code == "debian-index-faulty"
    assert "'bad'" in caught.value.message


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"[]\n", b"not json\n"])
def test_a_cached_index_that_is_not_whole_is_refused(damage: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (any kind: it is made again)
        PackageIndex(damage, archive="debian", architecture="amd64", origin="x")


def test_a_cached_index_that_was_cut_off_is_refused() -> None:
    data = compact(stanza("a"))
    with pytest.raises(ValueError, match="not whole"):
        PackageIndex(data[:-5], archive="debian", architecture="amd64", origin="x")


def test_the_cached_form_is_plain_json() -> None:
    for line in compact(stanza("a") + "\n" + stanza("b")).splitlines():
        json.loads(line)


def test_relations_read_as_they_are_written() -> None:
    text = "a:any (>= 1:2~), b:native | c:i386, d(=1)"
    groups = parse_alternatives(text)
    assert [" | ".join(str(relation) for relation in group) for group in groups] == [
        "a:any (>= 1:2~)",
        "b:native | c:i386",
        "d (= 1)",
    ]
    assert parse_list("") == ()
    assert parse_list("a, , b") == (Relation("a"), Relation("b"))
