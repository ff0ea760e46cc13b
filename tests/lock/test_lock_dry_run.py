from __future__ import annotations

import json
from dataclasses import replace

import pytest
from lock_samples import BOTH, base, build_requirement, built, contract, deb, from_git, lock, sha, wheel

from envlock.lock.dry_run import dry_run
from envlock.lock.model import Concession
from envlock.platforms import Platform
from envlock.spec.model import TargetSpec

EMPTY = {sha("nothing")}
SAMPLE = lock(wheel("a"), wheel("b"), base=replace(base(), debs=(deb("git"),)))


def test_an_empty_store_has_all_to_fetch() -> None:
    run = dry_run(SAMPLE, TargetSpec(), present=lambda digest: digest in EMPTY)
    assert (run.fetch, run.in_store) == (2500, 0)


def test_what_the_store_has_is_not_fetched() -> None:
    run = dry_run(SAMPLE, TargetSpec(), present=lambda digest: digest == SAMPLE.wheels[0].sha256)
    assert (run.fetch, run.in_store) == (1500, 1000)


def test_a_wheel_to_build_again_costs_its_source_and_its_tools() -> None:
    one = built("a")
    made = lock(one, base=replace(base(), debs=()))
    tools = build_requirement("setuptools", "80.0").size
    assert dry_run(made, TargetSpec(), present=lambda digest: False).fetch == 77 + tools  # noqa: ARG005
    assert dry_run(made, TargetSpec(), present=lambda digest: digest == one.sha256).fetch == 0


def test_of_a_repository_the_size_is_not_known() -> None:
    made = lock(from_git("a"), base=replace(base(), debs=()))
    assert dry_run(made, TargetSpec(), present=lambda digest: digest in EMPTY).fetch == 0


def test_what_two_platforms_share_is_fetched_once() -> None:
    made = lock(wheel("a", platforms=BOTH), platforms=BOTH, contracts=(contract(), contract(Platform.ARM64)))
    made = replace(made, base=replace(base(), debs=()))
    run = dry_run(made, TargetSpec(), present=lambda digest: digest in EMPTY)
    assert run.fetch == 1000
    assert [(one.platform, one.wheels, one.compressed) for one in run.platforms] == [
        (Platform.AMD64, 1, 1000),
        (Platform.ARM64, 1, 1000),
    ]
    assert run.build_disk > run.fetch


def test_the_verdict_on_the_target_is_told() -> None:
    torch = wheel("torch", "2.15.0")
    made = lock(torch, contracts=(contract(cuda="13.2", driver="580", cubin=("7.5",)),))
    (good,) = dry_run(made, TargetSpec(driver="580"), present=lambda digest: digest in EMPTY).platforms
    assert good.mismatches == ()
    (bad,) = dry_run(made, TargetSpec(driver="535"), present=lambda digest: digest in EMPTY).platforms
    assert bad.mismatches == ("torch 2.15.0 needs an NVIDIA driver of 580 or later, and the target's may be 535",)
    assert bad.as_json()["fits_target"] is False


def test_it_goes_into_json() -> None:
    made = replace(SAMPLE, concessions=(Concession(package="torch", wanted="2", got="1", reason="driver"),))
    run = dry_run(made, TargetSpec(), present=lambda digest: digest in EMPTY)
    read = json.loads(json.dumps(run.as_json()))
    assert read["fetch_bytes"] == 2500
    assert read["platforms"][0]["contract"]["glibc"] == "2.28"
    assert read["concessions"] == [{"package": "torch", "wanted": "2", "got": "1", "reason": "driver"}]


def test_the_estimate_is_near_what_was_measured() -> None:
    """70 wheels of 3.1 GB came to 6.0 GB, and .debs of 118 MB to 498 MB."""
    made = lock(wheel("a", size=3_100_000_000), base=replace(base(), debs=(deb("git", size=118_000_000),)))
    (run,) = dry_run(made, TargetSpec(), present=lambda digest: digest in EMPTY).platforms
    assert run.unpacked == pytest.approx(6_000_000_000 + 600_000_000 + 498_000_000, rel=0.05)
