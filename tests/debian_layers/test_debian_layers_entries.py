from __future__ import annotations

import pickle
from hashlib import md5
from pathlib import Path

import pytest
from debs_in_code import Item, Package, deb_of

from envlock.image.layers.debian import deb_entries
from envlock.image.layers.debian_order import ordered
from envlock.image.layers.entries import Directory, Entry, File, Hardlink, Symlink


def entries_of(folder: Path, package: Package) -> dict[str, Entry]:
    entries = list(deb_entries(deb_of(folder, package)))
    paths = [entry.path for entry in entries]
    assert paths == sorted(paths, key=str.encode)
    assert len(set(paths)) == len(paths)
    return {entry.path: entry for entry in entries}


def body_of(entry: Entry) -> str:
    assert isinstance(entry, File)
    assert isinstance(entry.body, bytes)
    return entry.body.decode()


def test_files_lie_where_they_do_on_a_merged_usr(tmp_path: Path) -> None:
    items = [
        Item(path="./bin/"),
        Item(path="./bin/tool", body=b"tool", mode=0o4755),
        Item(path="./lib64/ld.so", symlink="../lib/ld.so"),
        Item(path="./sbin/tool2", hardlink="./bin/tool"),
        Item(path="./etc/tool.conf", body=b"", gid=42, mode=0o640),
        Item(path="./library/x", body=b"not an alias"),
    ]
    entries = entries_of(tmp_path, Package(items=items))
    assert entries["usr/bin/tool"] == File(path="usr/bin/tool", body=b"tool", mode=0o4755)
    assert entries["usr/lib64/ld.so"] == Symlink(path="usr/lib64/ld.so", target="../lib/ld.so")
    assert entries["usr/sbin/tool2"] == Hardlink(path="usr/sbin/tool2", target="usr/bin/tool", mode=0o4755)
    assert entries["etc/tool.conf"] == File(path="etc/tool.conf", body=b"", mode=0o640, gid=42)
    assert entries["usr/bin"] == Directory(path="usr/bin")
    assert "library/x" in entries
    assert not {"bin", "lib64", "sbin"} & entries.keys()


def test_paths_that_the_base_layer_makes_are_left_to_it(tmp_path: Path) -> None:
    items = [
        Item(path="./bin", symlink="usr/bin"),
        Item(path="./var/"),
        Item(path="./var/run/"),
        Item(path="./var/lock/"),
    ]
    assert not {"bin", "usr/bin", "var/run", "var/lock"} & entries_of(tmp_path, Package(items=items)).keys()


def test_a_hard_link_that_sorts_first_becomes_the_file(tmp_path: Path) -> None:
    items = [
        Item(path="./usr/bin/perl5", body=b"perl", mode=0o755, gid=5),
        Item(path="./usr/bin/perl", hardlink="./usr/bin/perl5"),
        Item(path="./usr/bin/perl6", hardlink="./usr/bin/perl"),
    ]
    entries = entries_of(tmp_path, Package(items=items))
    assert entries["usr/bin/perl"] == File(path="usr/bin/perl", body=b"perl", mode=0o755, gid=5)
    for other in ("usr/bin/perl5", "usr/bin/perl6"):
        assert entries[other] == Hardlink(path=other, target="usr/bin/perl", mode=0o755, gid=5)


def test_documentation_is_left_out_and_licences_stay(tmp_path: Path) -> None:
    items = [
        Item(path="./usr/share/doc/example/"),
        Item(path="./usr/share/doc/example/copyright", body=b"licence"),
        Item(path="./usr/share/doc/example/changelog.gz", body=b"x"),
        Item(path="./usr/share/doc/other", symlink="example"),
        Item(path="./usr/share/man/man1/"),
        Item(path="./usr/share/man/man1/tool.1.gz", body=b"x"),
        Item(path="./usr/share/locale/de/LC_MESSAGES/tool.mo", body=b"x"),
        Item(path="./usr/share/locale/locale.alias", body=b"x"),
        Item(path="./usr/share/common-licenses/GPL", body=b"x"),
        Item(path="./usr/share/zoneinfo/UTC", body=b"x"),
    ]
    entries = entries_of(tmp_path, Package(items=items))
    assert [
        path for path in entries if path.startswith("usr/share/") and not isinstance(entries[path], Directory)
    ] == [
        "usr/share/common-licenses/GPL",
        "usr/share/doc/example/copyright",
        "usr/share/doc/other",
        "usr/share/locale/locale.alias",
        "usr/share/zoneinfo/UTC",
    ]
    assert "usr/share/man/man1" not in entries


def test_a_file_whose_first_name_is_left_out_lives_on_under_the_next(tmp_path: Path) -> None:
    items = [
        Item(path="./usr/share/doc/example/tool", body=b"x"),
        Item(path="./usr/bin/tool", hardlink="./usr/share/doc/example/tool"),
        Item(path="./usr/bin/again", hardlink="./usr/share/doc/example/tool"),
    ]
    entries = entries_of(tmp_path, Package(items=items))
    assert entries["usr/bin/again"] == File(path="usr/bin/again", body=b"x")
    assert entries["usr/bin/tool"] == Hardlink(path="usr/bin/tool", target="usr/bin/again")


def test_dpkg_finds_its_files_and_nothing_that_was_left_out(tmp_path: Path) -> None:
    package = Package(
        items=[
            Item(path="./etc/"),
            Item(path="./etc/tool.conf", body=b"conf"),
            Item(path="./bin/tool", body=b"tool"),
            Item(path="./usr/share/man/man1/tool.1.gz", body=b"x"),
        ],
        conffiles=["/etc/tool.conf"],
        scripts={"postinst": "#!/bin/sh\n", "triggers": "interest x\n"},
    )
    entries = entries_of(tmp_path, package)
    info = {
        path.rpartition("/")[2]: entry for path, entry in entries.items() if path.startswith("var/lib/dpkg/info/")
    }
    assert sorted(info) == [
        "example.conffiles",
        "example.list",
        "example.md5sums",
        "example.postinst",
        "example.triggers",
    ]
    assert body_of(info["example.list"]) == "/.\n/etc\n/etc/tool.conf\n/bin/tool\n"
    digest = md5(b"tool", usedforsecurity=False).hexdigest()
    assert body_of(info["example.md5sums"]) == f"{digest}  bin/tool\n"
    assert isinstance(info["example.postinst"], File)
    assert info["example.postinst"].mode == 0o755


def test_md5sums_are_made_where_a_package_brings_none(tmp_path: Path) -> None:
    items = [Item(path="./usr/bin/tool", body=b"tool"), Item(path="./etc/conf", body=b"conf")]
    entries = entries_of(tmp_path, Package(items=items, md5sums=False, conffiles=["/etc/conf"]))
    digest = md5(b"tool", usedforsecurity=False).hexdigest()
    assert body_of(entries["var/lib/dpkg/info/example.md5sums"]) == f"{digest}  usr/bin/tool\n"


def test_packages_for_several_architectures_are_recorded_with_theirs(tmp_path: Path) -> None:
    entries = entries_of(tmp_path, Package(name="libexample", control={"Multi-Arch": "same"}))
    assert "var/lib/dpkg/info/libexample:amd64.list" in entries


def test_owners_that_scripts_give_are_given(tmp_path: Path) -> None:
    agent = Package(name="openssh-client", items=[Item(path="./usr/bin/ssh-agent", body=b"x", mode=0o755)])
    assert entries_of(tmp_path, agent)["usr/bin/ssh-agent"] == File(
        path="usr/bin/ssh-agent", body=b"x", mode=0o2755, gid=101
    )
    script = "if true; then\n dpkg-statoverride --update --add root tty 2755 /usr/bin/x\nfi\n"
    tool = Package(items=[Item(path="./usr/bin/x", body=b"x")], scripts={"postinst": script})
    assert entries_of(tmp_path, tool)["usr/bin/x"] == File(path="usr/bin/x", body=b"x", mode=0o2755, gid=5)


def test_entries_can_be_made_in_another_process(tmp_path: Path) -> None:
    deb = deb_of(tmp_path, Package(items=[Item(path="./usr/bin/tool", body=b"tool")]))
    assert pickle.loads(pickle.dumps(deb)) == deb  # noqa: S301 (our own bytes)
    assert pickle.loads(pickle.dumps(list(deb_entries(deb)))) == list(deb_entries(deb))  # noqa: S301 (as above)


def test_order_refuses_what_cannot_be_a_tree() -> None:
    with pytest.raises(ValueError, match="twice"):
        ordered([File(path="a", body=b""), File(path="a", body=b"")])
    with pytest.raises(ValueError, match="hard link"):
        ordered([Hardlink(path="a", target="b"), Hardlink(path="b", target="a")])
    with pytest.raises(ValueError, match="hard link"):
        ordered([Hardlink(path="a", target="b")])
