from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from signed_archive import put, stanza
from suite_places import NOW, Place

from envlock.errors import EnvlockError, FaultyInput, MachineLacks, Unsatisfiable
from envlock.fetch.http import Http
from envlock.fetch.model import HttpSettings
from envlock.lock.debian.suite import facts_of
from envlock.lock.model import LockedDeb
from envlock.platforms import Platform

AMD64, ARM64 = Platform.AMD64, Platform.ARM64


def fault(place: Place, suite: str = "trixie", **options: object) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        place.open(suite, **options)  # type: ignore[arg-type]  # tests pass what `open` takes
    return caught.value


def by_name(debs: tuple[LockedDeb, ...]) -> dict[str, LockedDeb]:
    return {deb.name: deb for deb in debs}


def test_a_suite_tells_its_facts_and_closes_over_what_is_wanted(place: Place) -> None:
    place.write(stanza("git", depends="libc6"))
    suite = place.open()
    assert suite.name == "trixie"
    facts = suite.facts()
    assert (facts.python, facts.python_full, facts.glibc) == ("3.13", "3.13.5", "2.41")
    debs = by_name(suite.close({"git": "spec", "python3": "python"}))
    assert {name: deb.requested for name, deb in debs.items()} == {
        "git": "spec",
        "libc6": "essential",
        "python3": "python",
        "python3.13": None,
    }
    assert debs["git"].platforms == (AMD64,)


def test_security_and_updates_replace_the_suites_own_version(place: Place) -> None:
    place.write(
        stanza("a", "1"),
        stanza("b", "1"),
        updates=(stanza("a", "2"),),
        security=(stanza("b", "3"), stanza("a", "1.5")),
    )
    debs = by_name(place.open().close({"a": "spec", "b": "spec"}))
    assert (debs["a"].version, debs["a"].archive) == ("2", "debian")
    assert (debs["b"].version, debs["b"].archive) == ("3", "debian-security")


def test_equal_files_of_two_platforms_are_one_and_others_are_not(place: Place) -> None:
    shared, python = stanza("tzdata"), "3.13.5-1"
    packages = {
        arch: [
            stanza("libc6", f"2.4{number}", arch=arch, essential="yes"),
            stanza("python3", python, arch=arch, depends="tzdata"),
            shared,
        ]
        for number, arch in enumerate(("arm64", "amd64"))
    }
    place.main.write_suite("trixie", packages)
    place.main.write_suite("trixie-updates", {"amd64": [], "arm64": []})
    place.security.write_suite("trixie-security", {"amd64": [], "arm64": []})
    suite = place.open(platforms=(ARM64, AMD64))
    debs = suite.close({"python3": "python"})
    assert [(deb.name, deb.architecture, deb.platforms) for deb in debs] == [
        ("libc6", "arm64", (ARM64,)),
        ("libc6", "amd64", (AMD64,)),
        ("python3", "amd64", (AMD64,)),
        ("python3", "arm64", (ARM64,)),
        ("tzdata", "all", (AMD64, ARM64)),
    ]
    assert suite.facts().glibc == "2.40"


def test_two_closures_are_the_same_and_pins_hold(place: Place) -> None:
    place.write(stanza("a", "1", depends="b"), stanza("b", "1"))
    old = place.open().close({"a": "spec"})
    place.write(stanza("a", "2", depends="b (= 2)"), stanza("b", "2"))
    fresh = place.open()
    assert fresh.close({"a": "spec"}, pins=old) == old
    assert by_name(fresh.close({"a": "spec"}))["a"].version == "2"
    assert fresh.facts(pins=old) == fresh.facts()


def test_stable_means_the_suite_of_that_codename(place: Place) -> None:
    place.write()
    place.main.write_suite("stable", {"amd64": []}, codename="trixie")
    suite = place.open("stable")
    assert suite.name == "trixie"
    assert suite.facts().python == "3.13"


def test_a_rolling_suite_has_no_updates_or_security_beside_it(place: Place) -> None:
    place.write()
    place.main.write_suite("sid", {"amd64": [stanza("a")]}, alias="unstable")
    assert [deb.name for deb in place.open("sid").close({"a": "spec"})] == ["a"]


def test_indexes_are_fetched_by_hash_once_and_releases_only_when_changed(place: Place) -> None:
    place.write(stanza("a"))
    first = place.open().close({"a": "spec"})
    fetched = place.mirror.paths()
    assert sum(path.endswith("/InRelease") for path in fetched) == 3
    assert len([path for path in fetched if "/by-hash/SHA256/" in path]) == 2  # updates and security are alike: empty
    assert len(fetched) == 5
    place.mirror.answers.clear()
    assert place.open().close({"a": "spec"}) == first
    assert place.mirror.paths() == []
    assert len(place.mirror.paths(304)) == 3


def test_a_mirror_without_by_hash_folders_serves_too(place: Place) -> None:
    place.write(stanza("a"))
    for archive in (place.main, place.security):
        for folder in archive.root.rglob("by-hash"):
            folder.rename(folder.with_name("moved"))
    assert by_name(place.open().close({"a": "spec"}))["a"].version == "1.0"


def test_an_archive_in_a_folder_of_this_machine_serves_too(place: Place) -> None:
    place.write(stanza("a"))
    place.settings = replace(
        place.settings,
        archives={"debian": (place.main.root.as_uri(),), "debian-security": (str(place.security.root),)},
    )
    assert "a" in by_name(place.open().close({"a": "spec"}))
    assert place.mirror.answers == []
    assert fault(place, "potato").code == "unknown-suite"


def test_the_next_mirror_is_asked_when_one_lacks_the_suite(place: Place) -> None:
    place.write(stanza("a"))
    urls = place.settings.archives
    place.settings = replace(
        place.settings, archives={name: (f"{place.mirror.url}/nothing", *found) for name, found in urls.items()}
    )
    assert "a" in by_name(place.open().close({"a": "spec"}))


def test_an_index_of_architecture_all_of_its_own_is_read_too(place: Place) -> None:
    place.write()
    base = [stanza("libc6", "2.41", arch="amd64", essential="yes")]
    place.main.write_suite("trixie", {"amd64": base, "all": [stanza("doc")]})
    assert "doc" in by_name(place.open().close({"doc": "spec"}))
    hidden = {"No-Support-for-Architecture-all": "Packages"}
    place.main.write_suite("trixie", {"amd64": base, "all": [stanza("doc")]}, fields=hidden)
    with pytest.raises(Unsatisfiable, match="no package doc"):
        place.open().close({"doc": "spec"})


def test_offline_the_kept_index_serves(place: Place) -> None:
    place.write(stanza("a"))
    online = place.open().close({"a": "spec"})
    with Http(HttpSettings(offline=True)) as offline:
        place.http = offline
        assert place.open().close({"a": "spec"}) == online
        assert fault(place, "bookworm").code == "offline"


def test_a_damaged_cache_is_made_again(place: Place) -> None:
    place.write(stanza("a"))
    first = place.open().close({"a": "spec"})
    for number, file in enumerate(sorted(place.store.area("debian").iterdir())):
        file.write_bytes([b"", b"{}\n", file.read_bytes()[:-9], b'{"a": 1}\nrubbish'][number % 4])
    assert place.open().close({"a": "spec"}) == first


# --- what must be refused


def test_a_release_signed_by_someone_else_is_refused_and_not_kept(place: Place) -> None:
    place.write(stanza("a"))
    good = place.main.inrelease("trixie").read_bytes()
    put(place.main.inrelease("trixie"), good.replace(b"Codename: trixie", b"Codename: potato"))
    assert fault(place).code == "debian-signature-bad"
    put(place.main.inrelease("trixie"), good)
    assert "a" in by_name(place.open().close({"a": "spec"}))


def test_an_expired_release_is_refused_but_one_that_never_expires_is_not(place: Place) -> None:
    place.write()
    expiring = {"Valid-Until": "Sun, 06 Dec 2026 00:53:13 UTC"}
    place.security.write_suite("trixie-security", {"amd64": []}, fields=expiring)
    place.open()
    found = fault(place, now=NOW + timedelta(days=5))
    assert found.code == "debian-release-expired"
    assert "valid until 2026-12-06 00:53 UTC, and it is 2026-12-06 12:00 now" in found.message


def test_another_suite_under_the_asked_name_is_refused(place: Place) -> None:
    place.write()
    place.main.write_suite("trixie", {"amd64": []}, codename="bookworm", alias="oldstable")
    found = fault(place)
    assert found.code == "debian-release-faulty"
    assert "'bookworm' ('oldstable')" in found.message


def test_an_unknown_suite_is_told(place: Place) -> None:
    found = fault(place, "trixy")
    assert isinstance(found, FaultyInput)
    assert found.code == "unknown-suite"


def test_a_missing_security_suite_is_not_passed_over(place: Place) -> None:
    place.write()
    place.security.inrelease("trixie-security").unlink()
    found = fault(place)
    assert found.code == "unknown-suite"
    assert "trixie-security" in found.message


def test_a_platform_that_the_suite_lacks_is_told(place: Place) -> None:
    place.write()
    found = fault(place, platforms=(AMD64, ARM64))
    assert found.code == "debian-architecture-missing"
    assert "nothing for arm64" in found.message


@pytest.mark.parametrize("change", ["tampered", "cut off", "longer", "another"])
def test_packages_that_are_not_what_was_signed_are_refused(place: Place, change: str) -> None:
    place.write(stanza("a"))
    folder = place.main.root / "dists/trixie/main/binary-amd64"
    copies = [folder / "Packages.xz", *folder.glob("by-hash/SHA256/*")]
    good = copies[0].read_bytes()
    evil = lzma.compress(stanza("a", "6.6").encode())
    bad = {"tampered": good[:-20] + b"x" * 20, "cut off": good[:-20], "longer": good + b"\0" * 4, "another": evil}
    for copy in copies:
        copy.write_bytes(bad[change])
    found = fault(place)
    assert found.code == "debian-index-faulty"
    assert "try again in a few minutes" in found.hint
    copies[1].write_bytes(good)
    assert "a" in by_name(place.open().close({"a": "spec"}))


def _resign(place: Place, packed: bytes, *, ending: str = ".xz", plain: tuple[str, int] | None = None) -> None:
    """Sign a release that lists these bytes, and what they are said to unpack to, as the index of amd64."""
    digest = hashlib.sha256(packed).hexdigest()
    path = f"main/binary-amd64/Packages{ending}"
    put(place.main.root / "dists/trixie" / path, packed)
    lines = [f" {digest} {len(packed)} {path}"]
    if plain:
        lines.append(f" {plain[0]} {plain[1]} main/binary-amd64/Packages")
    release = "Suite: stable\nCodename: trixie\nArchitectures: amd64\nSHA256:\n"
    place.main.sign("trixie", release + "\n".join(lines) + "\n")


@pytest.mark.parametrize(("ending", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress), ("", bytes)])
def test_an_index_is_read_however_it_is_packed(place: Place, ending: str, pack: Callable[[bytes], bytes]) -> None:
    place.write()
    _resign(place, pack(stanza("a").encode()), ending=ending)
    assert "a" in by_name(place.open().close({"a": "spec"}))


@pytest.mark.parametrize(("ending", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_an_index_that_unpacks_to_more_than_was_signed_is_refused(
    place: Place, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    place.write()
    _resign(place, pack(b"\n" * (8 << 20)), ending=ending, plain=("0" * 64, 1000))
    assert "does not unpack to what the release lists" in fault(place).message


def test_an_index_that_unpacks_to_something_else_is_refused(place: Place) -> None:
    place.write()
    _resign(place, lzma.compress(b"\n" * 1000), plain=("0" * 64, 1000))
    assert "does not unpack to what the release lists" in fault(place).message


@pytest.mark.parametrize(
    ("ending", "packed"),
    [
        (".xz", b"not xz at all"),
        (".xz", lzma.compress(b"Package: a\n")[:-8]),
        (".gz", b"not gzip at all"),
        (".gz", gzip.compress(b"Package: a\n")[:-8]),
    ],
    ids=["no-xz", "cut-xz", "no-gzip", "cut-gzip"],  # not the bytes: gzip's hold the time
)
def test_an_index_that_does_not_unpack_is_refused(place: Place, ending: str, packed: bytes) -> None:
    place.write()
    _resign(place, packed, ending=ending)
    assert "does not unpack: " in fault(place).message


def test_an_absurd_size_is_refused_before_anything_is_fetched(place: Place) -> None:
    place.write()
    _resign(place, b"x", plain=("0" * 64, 999_999_999_999))
    assert "999,999,999,999 bytes" in fault(place).message


def test_a_release_without_the_index_or_without_hashes_is_refused(place: Place) -> None:
    place.write()
    place.main.sign("trixie", "Suite: stable\nCodename: trixie\nArchitectures: amd64\nSHA256:\n")
    assert "lists no main/binary-amd64/Packages" in fault(place).message
    place.main.sign("trixie", "Suite: stable\nCodename: trixie\nArchitectures: amd64\nMD5Sum:\n x 1 y\n")
    found = fault(place)
    assert found.code == "debian-release-faulty"
    assert "no SHA256" in found.message


def test_a_date_that_is_none_is_refused(place: Place) -> None:
    place.write()
    place.main.write_suite("trixie", {"amd64": []}, fields={"Valid-Until": "someday"})
    assert "Valid-Until is no date" in fault(place).message


def test_a_package_with_a_path_out_of_the_archive_is_refused(place: Place) -> None:
    place.write(stanza("a", filename="../../../etc/cron.d/a.deb"))
    with pytest.raises(FaultyInput, match="not a plain path"):
        place.open().close({"a": "spec"})


def test_versions_that_tell_no_facts_are_refused(place: Place) -> None:
    place.main.write_suite("sid", {"amd64": [stanza("libc6", "now"), stanza("python3", "3.13.5", depends="libc6")]})
    with pytest.raises(ValueError, match="tell no facts"):
        place.open("sid").facts()


def test_without_a_mirror_the_user_is_told_where_to_name_one(place: Place) -> None:
    place.settings = replace(place.settings, archives={})
    found = fault(place)
    assert isinstance(found, MachineLacks)
    assert found.code == "no-debian-mirror"


def test_facts_need_an_interpreter_and_a_c_library() -> None:
    with pytest.raises(ValueError, match="without python3"):
        facts_of(())
