from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import tomli_w
from lock_samples import BOTH, build_requirement, built, contract, deb, from_git, lock, random_lock, wheel

from envlock.errors import FaultyInput
from envlock.lock.codec import dumps, loads
from envlock.lock.model import Lock
from envlock.platforms import Platform


def fault(text: str) -> FaultyInput:
    with pytest.raises(FaultyInput) as caught:
        loads(text, "x.lock")
    return caught.value


def faults_of(changed: Lock) -> str:
    error = fault(dumps(changed))
    assert error.code == "lock-faulty"
    return error.message


@pytest.mark.parametrize("seed", range(60))
def test_a_lock_comes_back_as_it_was(seed: int) -> None:
    made = random_lock(seed)
    text = dumps(made)
    assert loads(text, "x.lock") == made
    assert dumps(loads(text, "x.lock")) == text


def test_the_order_of_what_is_given_does_not_show() -> None:
    made = random_lock(3)
    shuffled = replace(
        made,
        wheels=made.wheels[::-1],
        base=replace(made.base, debs=made.base.debs[::-1]),
        contracts=made.contracts[::-1],
    )
    assert dumps(shuffled) == dumps(made)


def test_a_bumped_version_changes_few_lines() -> None:
    before = dumps(lock(wheel("a"), wheel("b", "1.0"), wheel("c"))).splitlines()
    after = dumps(lock(wheel("a"), wheel("b", "1.1"), wheel("c"))).splitlines()
    assert len(before) == len(after)
    changed = [line.split(" = ")[0] for line, other in zip(before, after, strict=True) if line != other]
    assert changed == ["version", "file", "sha256"]


def test_a_new_dependency_is_one_new_line() -> None:
    names = [wheel(name) for name in ("a", "b", "c")]
    before = set(dumps(lock(*names, wheel("z", requires=("a", "c")))).splitlines())
    after = set(dumps(lock(*names, wheel("z", requires=("a", "b", "c")))).splitlines())
    assert after - before == {'    "b",'}
    assert before <= after


def test_a_lock_starts_by_saying_what_it_is() -> None:
    first, second, third = dumps(lock()).splitlines()[:3]
    assert "do not edit" in first
    assert "`envlock lock`" in second
    assert third == "version = 1"


def test_platforms_are_written_where_they_are_not_all() -> None:
    made = lock(
        wheel("a", platforms=BOTH), wheel("b"), platforms=BOTH, contracts=(contract(), contract(Platform.ARM64))
    )
    assert dumps(made).count('\nplatforms = ["linux/amd64"]\n') == 1 + len(made.base.debs)


@pytest.mark.parametrize("version", ["0", "2", "true", '"1"', "1.0", "[]"])
def test_another_version_is_refused(version: str) -> None:
    error = fault(dumps(lock()).replace("version = 1", f"version = {version}", 1))
    assert error.code == "lock-version"
    assert ("newer envlock" in error.hint) == (version == "2")


def test_a_file_without_version_is_no_lock() -> None:
    assert fault("name = 'x'").code == "lock-version"


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", ">>>>>>> theirs", "||||||| base"])
def test_conflict_markers_are_told_as_such(marker: str) -> None:
    text = dumps(lock(wheel("a"))).replace('name = "a"', f'{marker}\nname = "a"')
    error = fault(text)
    assert error.code == "lock-conflict"
    assert f"x.lock:{text[: text.index(marker)].count(chr(10)) + 1}:" in error.message
    assert "envlock lock" in error.hint


@pytest.mark.parametrize("text", ["a = ", "\x00", "[" * 5000, f"a = {'9' * 5000}"])
def test_what_is_not_toml_is_faulty(text: str) -> None:
    error = fault(text)
    assert error.code == "lock-faulty"
    assert "not TOML" in error.message


def test_all_faults_are_told_at_once_with_their_places() -> None:
    text = dumps(lock(wheel("a"), wheel("b"), built("c")))
    text = text.replace('name = "sample"\n', "").replace("size = 1000", 'size = "1000"')
    text = text.replace('python = "3.13.5"', 'python = "3.13.5"\ncolour = "red"').replace("size = 77", "size = -1")
    message = fault(text).message
    assert message.splitlines() == [
        "x.lock: name is missing",
        "x.lock: base.colour is not a key of a lock",
        "x.lock: wheel[0].size is '1000', not a number of bytes",
        "x.lock: wheel[1].size is '1000', not a number of bytes",
        "x.lock: wheel[2].size is '1000', not a number of bytes",
        "x.lock: wheel[2].built-from.size is -1, which is no file's size",
    ]


def test_a_misspelt_key_is_told_with_the_right_one() -> None:
    text = dumps(lock(wheel("a", requested=True))).replace("requested =", "requestd =")
    assert "wheel[0].requestd is not a key of a lock (is requested meant?)" in fault(text).message


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("file", "../../etc/x-1.0-py3-none-any.whl", "not a plain file name"),
        ("file", "a-1.0-py3-none-linux/../x.whl", "not a plain file name"),
        ("file", ".a-1.0-py3-none-any.whl", "not a plain file name"),
        ("file", "a.whl", "not a wheel's file name"),
        ("file", "b-1.0-py3-none-any.whl", "is of b, not of a"),
        ("file", "a-2.0-py3-none-any.whl", "is of version 2.0, not 1.0"),
        ("sha256", "sha256:" + "0" * 64, "write the 64 hex digits alone"),
        ("sha256", "0" * 63, "not the 64 hex digits"),
        ("sha256", "A" * 64, "not the 64 hex digits"),
        ("name", "A_b", "not a normalised name such as 'a-b'"),
        ("version", "new", "not a version"),
        ("version", "9" * 5000, "not a version"),
        ("file", f"a-{'9' * 5000}-py3-none-any.whl", "not a wheel's file name"),
        ("index", "a/b", "not an index's name"),
        ("index", "direct", "without direct-url"),
        ("index", "", "not a text"),
    ],
)
def test_wheels_are_read_strictly(key: str, value: str, words: str) -> None:
    values = tomllib.loads(dumps(lock(wheel("a"))))
    values["wheel"][0][key] = value
    message = fault(tomli_w.dumps(values)).message
    assert f"wheel[0].{key}" in message
    assert words in message


@pytest.mark.parametrize(
    "pool",
    [
        "/pool/x.deb",
        "pool/../x.deb",
        "pool//x.deb",
        "pool/x.tar",
        "../x.deb",
        "pool/.x.deb",
        "http://h/x.deb",
        "a b.deb",
    ],
)
def test_pool_paths_are_clean(pool: str) -> None:
    made = lock(base=replace(lock().base, debs=(deb("x", pool=pool),)))
    assert "base.deb[0].pool" in faults_of(made)


@pytest.mark.parametrize("path", ["/abs/own-1.0-py3-none-any.whl", "./own-1.0-py3-none-any.whl", "a//b.whl"])
def test_local_paths_are_relative(path: str) -> None:
    assert "wheel[0].path" in faults_of(lock(wheel("own", index="local", path=path)))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://user:secret@host.example/a.whl", "holds credentials"),
        ("https://token@host.example/a.whl", "holds credentials"),
        ("git+https://token@host.example/a.git", "holds credentials"),
        ("a.whl", "not a URL"),
        ("https://[::1/a.whl", "not a URL"),
        ("https://host.example/a b.whl", "not a URL"),
    ],
)
def test_urls_are_whole_and_hold_no_secret(url: str, words: str) -> None:
    message = faults_of(lock(wheel("a", index="direct", direct_url=url)))
    assert words in message
    assert "secret" not in message


def test_a_git_url_may_name_its_user() -> None:
    made = from_git("a")
    assert made.built_from is not None
    source = replace(made.built_from, url="ssh://git@host.example/a.git")
    text = dumps(lock(replace(made, built_from=source, direct_url="git+ssh://git@host.example/a.git@v1")))
    assert loads(text, "x").wheels[0].built_from == source


@pytest.mark.parametrize(
    ("line", "instead", "words"),
    [
        ('resolver = "uv"', 'resolver = "poetry"', "made-by.resolver is 'poetry', not uv or pip-tools"),
        ('spec = "sha256:', 'spec = "md5:', "not sha256:<64 hex digits>"),
        ('platforms = ["linux/amd64"]', "platforms = []", "platforms is empty"),
        ('platforms = ["linux/amd64"]', 'platforms = ["linux/amd64", "linux/amd64"]', "has 'linux/amd64' twice"),
        ('platforms = ["linux/amd64"]', 'platforms = ["linux/x86"]', "has an element 0 that is 'linux/x86', not"),
        ('python = "3.13"', 'python = "3"', "python is '3', not a version such as 3.13"),
    ],
)
def test_the_head_is_read_strictly(line: str, instead: str, words: str) -> None:
    assert words in fault(dumps(lock()).replace(line, instead, 1)).message


def test_one_package_twice_is_a_fault_unless_platforms_part_it() -> None:
    twice = lock(wheel("a", "1.0"), wheel("a", "2.0"))
    assert "wheel[1] is a for linux/amd64 again, after wheel[0]" in faults_of(twice)
    parted = lock(
        wheel("a", "1.0"),
        wheel("a", "2.0", platforms=(Platform.ARM64,)),
        platforms=BOTH,
        contracts=(contract(), contract(Platform.ARM64)),
    )
    assert loads(dumps(parted), "x") == parted


def test_one_file_twice_is_a_fault() -> None:
    text = dumps(lock(wheel("a")))
    table = text[text.index("\n[[wheel]]") : text.index("\n[base]")]
    assert "wheel[1] is a-1.0-py3-none-any.whl again, after wheel[0]" in fault(text.replace(table, table * 2)).message


def test_a_requirement_that_is_not_locked_is_a_fault() -> None:
    assert "wheel[0].requires has b, which is not locked" in faults_of(lock(wheel("a", requires=("b",))))


def test_a_platform_that_the_lock_is_not_for_is_a_fault() -> None:
    text = dumps(lock(wheel("a", platforms=(Platform.ARM64,))))
    assert "wheel[0].platforms has linux/arm64, which the lock is not for" in fault(text).message


def test_every_platform_has_one_contract() -> None:
    assert "contract is there 0 times for linux/amd64" in faults_of(lock(contracts=()))
    assert "contract is there 2 times for linux/amd64" in faults_of(lock(contracts=(contract(), contract())))
    extra = lock(contracts=(contract(), contract(Platform.ARM64)))
    assert "contract[1].platform is linux/arm64" in faults_of(extra)


def test_contracts_do_not_contradict_themselves() -> None:
    assert "driver is there without a cuda" in faults_of(lock(contracts=(contract(driver="580"),)))
    unknown = contract(cuda="12.8", driver="580", architectures_known=False, cubin=("8.0",))
    assert "architectures-known is false" in faults_of(lock(contracts=(unknown,)))


def test_a_deb_is_for_its_platforms() -> None:
    made = lock(base=replace(lock().base, debs=(deb("xz", architecture="arm64"),)))
    assert "base.deb[0].architecture is arm64, which does not fit linux/amd64" in faults_of(made)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file": None}, "must have either"),
        ({"commit": "a" * 40}, "must have either"),
        ({"subdirectory": "x"}, "must have either"),
        ({"url": "https://host.example/a.tar.gz"}, 'url goes with the index "direct" alone'),
        ({"subdirectory": "../x"}, "leads out of its folder"),
        ({"file": "a-1.0.rpm"}, "not a source distribution's file name"),
        ({"requires": (replace(build_requirement("b", "1"), index="local"),)}, 'requires[0].index is "local"'),
        ({"requires": (build_requirement("b", "1"), build_requirement("b", "1"))}, "requires[1] is b-1"),
        ({"requires": (replace(build_requirement("b", "1"), name="c"),)}, "requires[0].file is of b, not of c"),
    ],
)
def test_sources_of_built_wheels_are_whole(changes: dict[str, Any], words: str) -> None:
    made = built("a")
    assert made.built_from is not None
    assert words in faults_of(lock(replace(made, built_from=replace(made.built_from, **changes))))


def test_a_source_distribution_may_have_a_place_of_its_own() -> None:
    made = built("a")
    assert made.built_from is not None
    source = replace(made.built_from, index="direct", url="https://host.example/a-1.0.tar.gz")
    loads(dumps(lock(replace(made, built_from=source, direct_url=source.url))), "x")


def paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


@pytest.mark.parametrize("seed", range(4))
def test_any_value_of_another_type_is_told_of_and_nothing_worse(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 (test data)
    text = dumps(random_lock(seed))
    whole = tomllib.loads(text)
    places = [path for path in paths(whole) if path]
    for path in dice.sample(places, min(50, len(places))):
        wrongs: tuple[object, ...] = (None, 3.5, {"x": 1}, [{}], "", "\x7f")
        for wrong in wrongs:
            values = deepcopy(whole)
            where: Any = values
            for part in path[:-1]:
                where = where[part]
            if wrong is None:
                del where[path[-1]]
            else:
                where[path[-1]] = wrong
            if wrong is None:  # what is not required may be absent
                with suppress(FaultyInput):
                    loads(tomli_w.dumps(values), "x.lock")
            else:
                assert fault(tomli_w.dumps(values)).code in ("lock-faulty", "lock-version")
