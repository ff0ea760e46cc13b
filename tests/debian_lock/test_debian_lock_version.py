from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from itertools import pairwise

import pytest

from envlock.lock.debian.version import Version, satisfies


def _random_version(chance: random.Random) -> str:
    epoch = chance.choice(["", "", "", "0:", "1:", "2:"])
    signs = ["0", "1", "2", "9", "10", "007", "a", "b", "z", "A", "Z", "~", "~~", "+", ".", "rc", "dfsg", "-"]
    upstream = chance.choice("0123") + "".join(chance.choices(signs, k=chance.randrange(6)))
    revision = chance.choice(["", "", "-1", "-0", "-1~bpo12+1", "-1+deb13u1", "-~", "-a", "-00"])
    return f"{epoch}{upstream.rstrip('-')}{revision}"


def test_order_is_dpkgs_own(program: Callable[..., str]) -> None:
    dpkg = program("dpkg")
    chance = random.Random(20261201)  # noqa: S311 (the same pairs each time)
    versions = [_random_version(chance) for _ in range(500)]
    # Most random pairs differ at once; one that is changed in one place tests deeper.
    pairs = list(pairwise(versions))
    pairs += [(version, _mutated(version, chance)) for version in versions]
    script = f"""
while read -r left right; do
  if {dpkg} --compare-versions "$left" lt "$right"; then echo '<'
  elif {dpkg} --compare-versions "$left" eq "$right"; then echo '='
  else echo '>'; fi
done
"""
    text = "".join(f"{left} {right}\n" for left, right in pairs)
    told = subprocess.run(["sh", "-c", script], input=text, capture_output=True, text=True, check=True).stdout.split()
    ours = [_sign(Version.parse(left).compare(Version.parse(right))) for left, right in pairs]
    differing = [
        (pair, dpkg_says) for pair, dpkg_says, we_say in zip(pairs, told, ours, strict=True) if dpkg_says != we_say
    ]
    assert differing == []
    assert {"<", "=", ">"} <= set(told)


def _mutated(version: str, chance: random.Random) -> str:
    place = chance.randrange(version.find(":") + 2, len(version) + 1)
    return version[:place] + chance.choice(["0", "~", "a", "+", ".", "1"]) + version[place:]


def _sign(order: int) -> str:
    return "<" if order < 0 else ">" if order > 0 else "="


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("1.0~rc1", "1.0"),
        ("1.0", "1.0a"),
        ("1.0a", "1.0+b1"),
        ("2.36-9+deb12u9", "2.36-9+deb12u10"),
        ("9:1", "10:0"),
        ("1.0-1~bpo12+1", "1.0-1"),
        ("1.2.3", "1.10"),
        ("6.12.107-1", "6.12.117-1"),
    ],
)
def test_known_orders(earlier: str, later: str) -> None:
    assert Version.parse(earlier) < Version.parse(later)
    assert Version.parse(later) > Version.parse(earlier)


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.0-0"), ("1.0", "0:1.0"), ("1.00", "1.0"), ("1a", "1a0")])
def test_different_texts_of_the_same_version_are_equal(one: str, other: str) -> None:
    assert Version.parse(one) == Version.parse(other)
    assert hash(Version.parse(one)) == hash(Version.parse(other))


@pytest.mark.parametrize("text", ["", "1 2", "a:1", ":1", "1-", "1_2", "1.0/..", "1" * 600, "1:"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Debian version"):
        Version.parse(text)


@pytest.mark.parametrize(
    ("operator", "fits"), [("<<", False), ("<=", True), ("=", True), (">=", True), (">>", False)]
)
def test_relations_to_an_equal_version(operator: str, *, fits: bool) -> None:
    assert satisfies("1:2.0-1", operator, "1:2.0-1") is fits


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(ValueError, match="not a version relation"):
        satisfies("1", "==", "1")
