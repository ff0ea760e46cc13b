"""Locking a specification over a stock, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from lock_samples import spec
from lock_stock import TORCH, FakeSuite, Releases, Stock

from envlock.errors import Unsatisfiable
from envlock.lock.codec import dumps, loads
from envlock.lock.locking import Upgrade, lock_environment
from envlock.lock.model import Lock
from envlock.platforms import Platform
from envlock.progress import Task
from envlock.spec.model import EnvSpec, IndexSpec, TargetSpec


@dataclass(slots=True)
class Listener:
    """Progress that remembers what was said."""

    said: list[str] = field(default_factory=list)

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:
        raise AssertionError(f"no work is expected: {label} {total} {unit}")

    def say(self, text: str) -> None:
        self.said.append(text)


def run(
    wanted: EnvSpec,
    previous: Lock | None = None,
    *,
    stock: Stock | None = None,
    suite: FakeSuite | None = None,
    upgrade: Iterable[str] | None = (),
    said: list[str] | None = None,
) -> Lock:
    """Lock, and see that the lock survives being written and read."""
    made = lock_environment(
        wanted,
        previous,
        wheels=(stock or Stock(TORCH)).resolve,
        suite=suite or FakeSuite(platforms=wanted.platforms),
        upgrade=Upgrade(everything=upgrade is None, packages=frozenset(upgrade or ())),
        made_by="0.1.0",
        progress=Listener(said if said is not None else []),
    )
    assert loads(dumps(made), "x") == made
    return made


def versions(made: Lock, platform: Platform = Platform.AMD64) -> dict[str, str]:
    return {wheel.name: wheel.version for wheel in made.wheels_for(platform)}


def unmet(wanted: EnvSpec, **more: Any) -> Unsatisfiable:
    with pytest.raises(Unsatisfiable) as caught:
        run(wanted, **more)
    assert caught.value.code == "contract-unmet"
    return caught.value


def target(**keys: Any) -> EnvSpec:
    requirements = keys.pop("requirements", ("torch", "peft"))
    return spec(*requirements, target=TargetSpec(**keys))


OWN: Releases = {
    "torch": {"2.14.1+cu126": ["nvidia-cuda-runtime-cu12==12.6.77"], "2.13.0+cpu": []},
    "torchvision": {"0.29.1+cu126": ["torch==2.14.1"]},
}


def with_index(wanted: EnvSpec, *packages: str) -> EnvSpec:
    index = IndexSpec(name="own", url="https://wheels.example/simple", packages=frozenset(packages))
    return replace(wanted, indexes=(index,))
