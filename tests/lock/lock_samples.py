"""Locks and their parts, made in code for tests."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from envlock.digest import Digest
from envlock.lock.model import (
    BuildRequirement,
    BuiltFrom,
    Concession,
    HostContract,
    Lock,
    LockedBase,
    LockedDeb,
    LockedWheel,
    MadeBy,
)
from envlock.platforms import Platform
from envlock.spec.model import (
    AccessSpec,
    BaseSpec,
    EnvSpec,
    ImageSpec,
    PythonSpec,
    Requirement,
    TargetSpec,
)

BOTH = (Platform.AMD64, Platform.ARM64)
ONE = (Platform.AMD64,)


def sha(seed: str) -> Digest:
    return Digest.of(seed.encode())


def wheel(name: str, version: str = "1.0", *, tags: str = "py3-none-any", **changes: Any) -> LockedWheel:
    file = f"{name.replace('-', '_')}-{version}-{tags}.whl"
    made = LockedWheel(
        name=name, version=version, file=file, size=1000, sha256=sha(file), index="default", platforms=ONE
    )
    return replace(made, **changes)


def deb(name: str, version: str = "1.0-1", **changes: Any) -> LockedDeb:
    made = LockedDeb(
        name=name,
        version=version,
        architecture="amd64",
        archive="debian",
        pool=f"pool/main/{name[0]}/{name}/{name}_{version}_amd64.deb",
        size=500,
        sha256=sha(name + version),
        platforms=ONE,
    )
    return replace(made, **changes)


def built(name: str, version: str = "1.0", **changes: Any) -> LockedWheel:
    source = f"{name}-{version}.tar.gz"
    made_from = BuiltFrom(
        file=source,
        size=77,
        sha256=sha(source),
        index="default",
        python="3.13",
        requires=(build_requirement("setuptools", "80.0"),),
    )
    made = wheel(name, version, index="built", hash_source="computed", built_from=made_from)
    return replace(made, **changes)


def build_requirement(name: str, version: str) -> BuildRequirement:
    file = f"{name}-{version}-py3-none-any.whl"
    return BuildRequirement(name=name, version=version, file=file, size=9, sha256=sha(file), index="default")


def from_git(name: str, version: str = "1.0") -> LockedWheel:
    source = BuiltFrom(url="https://git.example/x.git", commit="a" * 40, subdirectory="python", python="3.13")
    made = built(name, version, built_from=source)
    return replace(made, direct_url="git+https://git.example/x.git@v1#subdirectory=python")


def contract(platform: Platform = Platform.AMD64, **changes: Any) -> HostContract:
    made = HostContract(
        platform=platform, cuda=None, driver=None, architectures_known=True, cubin=(), ptx=(), glibc="2.28"
    )
    return replace(made, **changes)


def base(*debs: LockedDeb) -> LockedBase:
    own = (deb("apt"), deb("libc6", "2.41-12"), deb("libstdc++6"), deb("python3", "3.13.5-1"), deb("ca-certificates"))
    every = sorted((*own, *debs), key=lambda item: (item.name, item.version, item.pool))
    return LockedBase(suite="trixie", python="3.13.5", glibc="2.41", debs=tuple(every))


def lock(*wheels: LockedWheel, **changes: Any) -> Lock:
    made = Lock(
        name="sample",
        spec=sha("spec"),
        made_by=MadeBy(envlock="0.1.0", resolver="uv", resolver_version="0.13.9"),
        python="3.13",
        platforms=ONE,
        base=base(),
        wheels=tuple(sorted(wheels, key=lambda item: (item.name, item.version, item.file))),
        contracts=(contract(),),
    )
    return replace(made, **changes)


def spec(*requirements: str, **changes: Any) -> EnvSpec:
    python = PythonSpec(
        requirements=tuple(
            Requirement(text=text, origin=f"envlock.toml: python.requirements[{at}]")
            for at, text in enumerate(requirements)
        )
    )
    made = EnvSpec(
        file=Path("/specs/sample/envlock.toml"),
        name="sample",
        python_version="3.13",
        platforms=ONE,
        python=python,
        indexes=(),
        target=TargetSpec(),
        base=BaseSpec(),
        image=ImageSpec(),
        data=(),
        access=AccessSpec(),
        sources=(),
        digest=sha("spec"),
    )
    return replace(made, **changes)


def random_lock(seed: int) -> Lock:
    """A sound lock with something of everything, another one for each seed."""
    dice = random.Random(seed)  # noqa: S311 (test data)
    platforms = dice.choice([ONE, BOTH, (Platform.ARM64,)])
    names = [f"project-{number}" for number in range(dice.randrange(1, 12))]
    made: list[LockedWheel] = []
    for name in names:
        version = dice.choice(["1.0", "2!1.0", "1.0rc1", "2.10.0+cu128", "0.0.1.post2.dev3"])
        some = tuple(sorted(dice.sample(platforms, dice.randrange(1, len(platforms) + 1))))
        one = dice.choice([wheel, built])(name, version)
        requires = tuple(sorted(dice.sample(names, dice.randrange(len(names)))))
        made.append(replace(one, platforms=some, requires=requires, requested=dice.random() < 0.5))
    made.append(replace(from_git("from-git"), platforms=platforms))
    made.append(wheel("own", index="local", path="wheels/own-1.0-py3-none-any.whl", platforms=platforms))
    made.append(wheel("direct", index="direct", direct_url="https://host.example/d%20x.whl", platforms=platforms))
    debs = [
        deb("libc6", platforms=platforms, architecture="all"),
        deb("zsh", platforms=platforms, architecture="all"),
    ]
    concessions = [Concession(package="torch", wanted="2", got="1", reason='it needs "580", \\ and é')]
    return lock(
        *made,
        platforms=platforms,
        base=replace(base(), debs=tuple(debs)),
        contracts=tuple(
            contract(platform, cuda="12.8", driver="525.60.13", cubin=("8.0", "12.0"), ptx=("12.0",))
            for platform in platforms
        ),
        concessions=tuple(concessions[: dice.randrange(2)]),
    )
