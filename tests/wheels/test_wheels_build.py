from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from wheels_kit import HOST, Talk, backend_source, make_sdist, make_wheel

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput, MachineLacks, Unsatisfiable
from envlock.fetch.store import Store
from envlock.lock.model import BuildRequirement, BuiltFrom
from envlock.lock.wheels.build_room import BuildRoom, WheelAtHand, cuts_network
from envlock.lock.wheels.builder import Builder
from envlock.lock.wheels.interpreter import ask_interpreter
from envlock.lock.wheels.normal_wheel import read_wheel
from envlock.lock.wheels.sdist import SdistSource
from envlock.platforms import Platform

HERE = ask_interpreter(Path(sys.executable), os.environ)


class World:
    """A builder whose build requirements are wheels in a folder, taken by name."""

    def __init__(self, tmp_path: Path, environ: dict[str, str] | None = None) -> None:
        self.talk = Talk()
        self.folder = tmp_path / "wheels"
        self.asked: list[tuple[str, ...]] = []
        self.builder = Builder(
            store=Store(tmp_path / "store"),
            interpreter=HERE,
            environ=environ or dict(os.environ),
            bring=self.bring,
            progress=self.talk,
        )

    def needs(
        self, wanted: Sequence[str], kept: Sequence[BuildRequirement], builds: str
    ) -> tuple[BuildRequirement, ...]:
        self.asked.append(tuple(wanted))
        assert builds
        if kept:
            return tuple(kept)
        return tuple(self.requirement(name) for name in wanted)

    def requirement(self, name: str) -> BuildRequirement:
        (path,) = self.folder.glob(f"{name}-*.whl")
        digest = Digest.of_file(path)
        version = path.name.split("-")[1]
        size = path.stat().st_size
        return BuildRequirement(name=name, version=version, file=path.name, size=size, sha256=digest, index="default")

    def bring(self, requires: Sequence[BuildRequirement]) -> tuple[WheelAtHand, ...]:
        return tuple(WheelAtHand(each.file, self.folder / each.file, each.sha256.hex) for each in requires)

    @property
    def builds(self) -> int:
        return sum(label.startswith("building") for label in self.talk.labels)


def source(folder: Path, name: str, version: str, files: dict[str, str]) -> SdistSource:
    path = make_sdist(folder, name, version, files)
    size, digest = path.stat().st_size, Digest.of_file(path)
    return SdistSource(name=name, path=path, file=path.name, size=size, sha256=digest, index="default")


def test_a_source_becomes_a_locked_wheel(tmp_path: Path) -> None:
    world = World(tmp_path)
    sdist = source(tmp_path, "my-tool", "1.0", backend_source("my-tool", "1.0", requires=("other>=1",)))
    ready = world.builder.build(sdist, world.needs, Platform.AMD64)
    wheel = ready.wheel
    assert (wheel.name, wheel.version, wheel.file) == ("my-tool", "1.0", "my_tool-1.0-py3-none-any.whl")
    assert (wheel.index, wheel.hash_source) == ("built", "computed")
    assert Digest.of_file(ready.path) == wheel.sha256
    assert ready.path.stat().st_size == wheel.size
    assert b"Requires-Dist: other>=1" in ready.metadata
    assert wheel.built_from == BuiltFrom(
        file="my-tool-1.0.tar.gz", size=sdist.size, sha256=sdist.sha256, index="default", python=HOST
    )


def test_other_folders_seeds_and_masks_give_the_same_bytes(tmp_path: Path) -> None:
    files = backend_source("tool", "1.0") | {f"part_{number}.py": "" for number in range(20)}
    digests = set()
    for place, mask in (("one", 0o022), ("a/much/longer/place", 0o077)):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        seed = str(random.randrange(1, 1000))  # noqa: S311 (any other seed does)
        world = World(folder, dict(os.environ) | {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C"})
        before = os.umask(mask)
        try:
            digests.add(
                world.builder.build(source(folder, "tool", "1.0", files), world.needs, Platform.AMD64).wheel.sha256
            )
        finally:
            os.umask(before)
    assert len(digests) == 1


def test_nothing_is_built_twice(tmp_path: Path) -> None:
    sdist = source(tmp_path, "tool", "1.0", backend_source("tool", "1.0"))
    first = World(tmp_path)
    one = first.builder.build(sdist, first.needs, Platform.AMD64)
    again = World(tmp_path)
    assert again.builder.build(sdist, again.needs, Platform.AMD64) == one
    assert (first.builds, again.builds) == (1, 0)


def test_a_wheel_that_the_store_has_lost_is_built_again(tmp_path: Path) -> None:
    sdist = source(tmp_path, "tool", "1.0", backend_source("tool", "1.0"))
    world = World(tmp_path)
    one = world.builder.build(sdist, world.needs, Platform.AMD64)
    one.path.unlink()
    assert world.builder.build(sdist, world.needs, Platform.AMD64).path.is_file()
    assert world.builds == 2


def test_what_the_backend_wants_besides_is_locked_and_installed(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "stated", "1.0")
    make_wheel(tmp_path / "wheels", "besides", "2.0")
    files = backend_source(
        "tool", "1.0", build_requires=("stated",), wanted=("besides",), before="import stated, besides"
    )
    world = World(tmp_path)
    sdist = source(tmp_path, "tool", "1.0", files)
    built = world.builder.build(sdist, world.needs, Platform.AMD64).wheel.built_from
    assert built is not None
    assert [each.name for each in built.requires] == ["besides", "stated"]
    assert world.asked == [("stated",), ("besides", "stated")]
    again = World(tmp_path)
    again.builder.build(sdist, again.needs, Platform.AMD64)
    assert again.builds == 0


def test_other_build_requirements_are_another_build(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "helper", "1.0")
    files = backend_source("tool", "1.0", build_requires=("helper",))
    sdist = source(tmp_path, "tool", "1.0", files)
    world = World(tmp_path)
    first = world.builder.build(sdist, world.needs, Platform.AMD64).wheel
    (tmp_path / "wheels" / "helper-1.0-py3-none-any.whl").rename(tmp_path / "old.whl")
    make_wheel(tmp_path / "wheels", "helper", "2.0")
    assert first.built_from is not None
    second = world.builder.build(sdist, world.needs, Platform.AMD64).wheel
    assert second.built_from is not None
    assert second.built_from.requires[0].version == "2.0"
    shutil.move(tmp_path / "old.whl", tmp_path / "wheels" / "helper-1.0-py3-none-any.whl")
    kept = world.builder.build(sdist, world.needs, Platform.AMD64, kept=first.built_from).wheel
    assert kept == first
    assert world.builds == 2


def test_what_another_python_was_given_is_not_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    sdist = source(tmp_path, "tool", "1.0", backend_source("tool", "1.0"))
    first = world.builder.build(sdist, world.needs, Platform.AMD64).wheel.built_from
    assert first is not None
    make_wheel(tmp_path / "wheels", "helper", "1.0")
    odd = replace(first, python="3.5", requires=(world.requirement("helper"),))
    built = world.builder.build(sdist, world.needs, Platform.AMD64, kept=odd).wheel.built_from
    assert built == first


def test_a_lock_s_requirements_are_taken_as_they_are(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "helper", "1.0")
    files = backend_source("tool", "1.0", build_requires=("helper",), wanted=("something-else",))
    world = World(tmp_path)
    ready = world.builder.build_with(
        source(tmp_path, "tool", "1.0", files), [world.requirement("helper")], Platform.AMD64
    )
    assert ready.wheel.built_from is not None
    assert [each.name for each in ready.wheel.built_from.requires] == ["helper"]
    assert not world.asked


def failure(tmp_path: Path, files: dict[str, str]) -> EnvlockError:
    world = World(tmp_path)
    with pytest.raises((Unsatisfiable, FaultyInput)) as caught:
        world.builder.build(source(tmp_path, "tool", "1.0", files), world.needs, Platform.AMD64)
    return caught.value


def test_machine_code_is_refused_by_name(tmp_path: Path) -> None:
    fault = failure(tmp_path, backend_source("tool", "1.0", tag="cp311-cp311-linux_x86_64"))
    assert fault.code == "needs-compiler"
    assert "tool (tool-1.0.tar.gz)" in fault.message
    assert "cp311-cp311-linux_x86_64" in fault.message


def test_a_build_that_calls_a_compiler_is_told_apart(tmp_path: Path) -> None:
    before = "import subprocess; subprocess.run([os.environ['CC'], '-c', 'x.c'], check=True)"
    fault = failure(tmp_path, backend_source("tool", "1.0", before=before))
    assert fault.code == "needs-compiler"


def test_a_build_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    fault = failure(tmp_path, backend_source("tool", "1.0", before="raise RuntimeError('no torch here')"))
    assert fault.code == "build-failed"
    assert "RuntimeError: no torch here" in fault.message
    assert "tool!=" in fault.hint or "name!=version" in fault.hint


@pytest.mark.parametrize(
    "files",
    [
        {"README": "nothing"},
        {"pyproject.toml": "not toml ["},
        {"pyproject.toml": "[build-system]\n"},
        {"pyproject.toml": '[build-system]\nrequires = ["!!"]\n'},
        {"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "nowhere"\n'},
    ],
)
def test_sources_that_are_none_are_told(files: dict[str, str], tmp_path: Path) -> None:
    fault = failure(tmp_path, files)
    assert fault.code == "build-failed"
    assert "tool-1.0.tar.gz" in fault.message


def test_a_source_of_another_name_is_told(tmp_path: Path) -> None:
    fault = failure(tmp_path, backend_source("other", "1.0"))
    assert "builds other, not tool" in fault.message


def world_seen(tmp_path: Path, question: str) -> str:
    """What a build sees, by way of a module in its wheel."""
    before = f"open('seen.py', 'w').write(repr({question}))"
    world = World(tmp_path, dict(os.environ) | {"PIP_INDEX_URL": "x", "MY_SECRET": "s"})
    sdist = source(tmp_path, "tool", "1.0", backend_source("tool", "1.0", before=before))
    ready = world.builder.build(sdist, world.needs, Platform.AMD64)
    contents = read_wheel(ready.path, ready.wheel.file).contents
    return next(content.data.decode() for content in contents if content.path == "seen.py")


def test_a_build_sees_a_fixed_world_and_no_secrets(tmp_path: Path) -> None:
    seen = world_seen(tmp_path, "dict(os.environ)")
    for text in ("'SOURCE_DATE_EPOCH': '946684800'", "'PYTHONHASHSEED': '0'", "'TZ': 'UTC'", "'LC_ALL': 'C.UTF-8'"):
        assert text in seen
    assert "MY_SECRET" not in seen
    assert "PIP_INDEX_URL" not in seen


def test_a_build_has_no_network_where_it_can_be_cut(tmp_path: Path) -> None:
    if not cuts_network(os.environ["PATH"]):
        assert "'http_proxy': 'http://127.0.0.1:9'" in world_seen(tmp_path, "dict(os.environ)")
        return
    names = "[name for _, name in __import__('socket').if_nameindex()]"
    assert world_seen(tmp_path, names) == "['lo']"


def test_a_machine_without_the_means_says_that_it_cannot_cut_the_network(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    world = World(tmp_path, {"PATH": str(programs)})
    world.builder.build(source(tmp_path, "tool", "1.0", backend_source("tool", "1.0")), world.needs, Platform.AMD64)
    assert any("cannot cut" in line for line in world.talk.lines)


def test_a_wheel_that_is_not_what_its_hash_says_is_never_installed(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "helper", "1.0")
    room = BuildRoom(tmp_path / "room", HERE, os.environ)
    with pytest.raises(MachineLacks, match="Hash mismatch"):
        room.furnish([WheelAtHand(wheel.name, wheel, "0" * 64)])
