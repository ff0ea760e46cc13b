"""Locking the conda side: solver, channels, conda-lock.yml, pins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from channel import Channel, Package
from conda_world import CondaRoom, publish, served, spec_text, versions
from fetch_server import Reply, Server
from lock_stock import FakeSuite, Stock

from envlock.errors import EnvlockError, FaultyInput, MachineLacks, Unsatisfiable
from envlock.fetch.conda_config import read_conda_settings
from envlock.lock.codec import dumps, loads
from envlock.lock.conda.locking import CondaKept
from envlock.lock.conda.outer import CondaLock
from envlock.lock.conda.sides import CondaSide
from envlock.lock.derived import derived_files
from envlock.lock.locking import Upgrade, lock_environment
from envlock.lock.model import Lock
from envlock.lock.stale import differences
from envlock.platforms import Platform

PYTHON = Package(name="python", version="3.12.7", build="h1_0")
BASICS = (
    PYTHON,
    Package(name="ffmpeg", version="7.1", depends=("x264 >=1.0", "__glibc >=2.17")),
    Package(name="ffmpeg", version="6.0", suffix=".tar.bz2"),
    Package(name="x264", version="1.1", build="h5_2"),
    Package(name="x264", version="1.0", build="h5_1"),
    Package(name="six", version="1.17.0", subdir="noarch", noarch="python", depends=("python >=3.9",)),
    Package(name="cuda-tool", version="13.0", build="h_0", depends=("__cuda >=13.0",)),
    Package(name="cuda-tool", version="12.2", build="h_0", depends=("__cuda >=12.2",)),
    Package(name="needs-new", depends=("__glibc >=2.99",)),
)


@pytest.fixture
def channel() -> Channel:
    return Channel(packages=list(BASICS))


@pytest.fixture
def room(tmp_path: Path) -> CondaRoom:
    return CondaRoom(folder=tmp_path)


def locked(room: CondaRoom, side: CondaSide, previous: Lock | None = None, wheels: Stock | None = None) -> Lock:
    spec = room.spec((room.folder / "envlock.toml").read_text())
    made = lock_environment(
        spec,
        previous,
        wheels=(wheels or Stock({"six": {"1.17.0": [], "1.16.0": []}})).resolve,
        suite=FakeSuite(platforms=spec.platforms),
        upgrade=Upgrade(),
        made_by="0.1.0",
        conda=side,
    )
    assert loads(dumps(made), "x") == made
    return made


def test_packages_are_chosen_for_the_target_and_written_as_conda_lock_reads_them(
    channel: Channel, room: CondaRoom
) -> None:
    with served(channel) as (_, url):
        side = room.lock(spec_text(url, "ffmpeg"))
    assert versions(side) == {"ffmpeg": "7.1 h0_0", "x264": "1.1 h5_2"}
    lock = locked(room, side)
    assert lock.conda == side.locked
    (room.folder / "conda-lock.yml").write_text(side.text)
    command = [sys.executable, "-m", "conda_lock", "render", "-k", "explicit", "-p", "linux-64", "conda-lock.yml"]
    done = subprocess.run(command, cwd=room.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{url}/linux-64/ffmpeg-7.1-h0_0.conda" in (room.folder / "conda-linux-64.lock").read_text()


def test_the_targets_driver_decides_on_cuda_packages(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (_, url):
        new = room.lock(spec_text(url, "cuda-tool"))
        old = room.lock(spec_text(url, "cuda-tool", more='[target]\ndriver = ">=535.54.03"'))
        with pytest.raises(Unsatisfiable) as caught:
            room.lock(spec_text(url, "cuda-tool", more='[target]\ncuda = "cpu"'))
    assert versions(new) == {"cuda-tool": "13.0 h_0"}
    assert versions(old) == {"cuda-tool": "12.2 h_0"}
    assert caught.value.code == "conda-no-solution"
    assert "__cuda" in caught.value.message
    assert "[target]" in caught.value.hint


def test_a_refusal_is_told_in_the_solvers_words_with_what_to_loosen(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (_, url), pytest.raises(Unsatisfiable) as caught:
        room.lock(spec_text(url, "needs-new"))
    assert "needs-new" in caught.value.message
    assert "__glibc 2.41" in caught.value.message
    assert "[base]" in caught.value.hint.lower()


def test_pins_are_kept_until_they_are_let_go(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (server, url):
        text = spec_text(url, "x264")
        before = locked(room, room.lock(text))
        kept = CondaKept(lock=before, text=room.lock(text).text)
        channel.add(Package(name="x264", version="2.0", build="h9_0"))
        publish(server, channel)
        assert versions(room.lock(text, kept)) == {"x264": "1.1 h5_2"}
        assert room.lock(text, kept).locked == before.conda
        for let_go in (None, frozenset({"x264"})):
            assert versions(room.lock(text, replace(kept, let_go=let_go))) == {"x264": "2.0 h9_0"}


def test_a_lock_does_not_change_as_a_channel_amends_its_repodata(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (server, url):
        text = spec_text(url, "ffmpeg")
        side = room.lock(text)
        before = locked(room, side)
        channel.patch = lambda file, record: record.update(depends=["x264 >=1.1"]) if "ffmpeg" in file else None
        publish(server, channel)
        again = room.lock(text, CondaKept(lock=before, text=side.text))
        anew = room.lock(text)
    assert again.locked == side.locked
    assert again.text == side.text
    assert anew.text != side.text


def test_a_yanked_package_is_not_locked(channel: Channel, room: CondaRoom) -> None:
    channel.removed = ["x264-1.1-h5_2.conda"]
    with served(channel) as (_, url):
        assert versions(room.lock(spec_text(url, "x264"))) == {"x264": "1.0 h5_1"}


def test_condas_interpreter_is_what_wheels_are_chosen_for(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (_, url):
        side = room.lock(spec_text(url, "python 3.12.*"))
    stock = Stock({})
    lock = locked(room, side, wheels=stock)
    assert (lock.python, lock.python_full) == ("3.12", "3.12.7")
    assert [(request.python, request.python_full) for request in stock.requests] == [("3.12", "3.12.7")]


def test_an_interpreter_that_was_not_asked_for_is_refused(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (_, url), pytest.raises(Unsatisfiable) as caught:
        room.lock(spec_text(url, "six"))
    assert caught.value.code == "conda-python-unasked"
    assert "python 3.12.*" in caught.value.hint


def test_a_project_on_both_sides_is_refused_unless_one_wins(channel: Channel, room: CondaRoom) -> None:
    def text(more: str = "") -> str:
        return spec_text(url, "python 3.12.*", "six", more=more).replace(
            "requirements = []", 'requirements = ["six"]'
        )

    stock = Stock({"six": {"1.17.0": [], "1.16.0": []}})
    with served(channel) as (_, url):
        with pytest.raises(Unsatisfiable) as caught:
            locked(room, room.lock(text()), wheels=stock)
        assert "six: the wheel 1.17.0, and conda's package 1.17.0" in caught.value.message
        conda = locked(room, room.lock(text('wins = { six = "conda" }')), wheels=stock)
        wheel = locked(room, room.lock(text('wins = { six = "wheel" }')), wheels=stock)
    assert conda.wheels == ()
    assert "six" in [each.name for each in conda.conda_for(Platform.AMD64)]
    assert [each.name for each in wheel.wheels] == ["six"]
    assert "six" not in [each.name for each in wheel.conda_for(Platform.AMD64)]


def test_a_lock_that_was_just_written_is_not_stale_and_an_edited_one_is(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (_, url):
        side = room.lock(spec_text(url, "ffmpeg >=7"))
        lock = locked(room, side)

        def told(text: str, spec: str | None = None) -> tuple[str, ...]:
            beside = {**derived_files(lock), side.locked.file: text}
            read = room.spec(spec or (room.folder / "envlock.toml").read_text())
            return differences(read, lock, text=dumps(lock), derived=beside)

        assert told(side.text) == ()
        assert "edited" in told(side.text.replace("7.1", "7.2"))[0]
        (line,) = told(side.text, spec_text(url, "ffmpeg <7"))
        assert "ffmpeg <7, and ffmpeg 7.1 h0_0 is locked" in line
        (line,) = told(side.text, spec_text(url, "ffmpeg >=7", "lame"))
        assert "lame is not locked" in line


def test_a_lock_names_channels_and_holds_neither_mirror_nor_token(
    channel: Channel, room: CondaRoom, tmp_path: Path
) -> None:
    with served(channel, "/t/hush-hush/own") as (server, _):
        (tmp_path / ".condarc").write_text("channel_alias: " + server.url("/t/$WORD") + "\n")
        settings = read_conda_settings({"WORD": "hush-hush"}, tmp_path)
        side = replace(room, settings=settings).lock(spec_text("own", "x264"))
        made = dumps(locked(room, side))
        with pytest.raises(MachineLacks) as caught:
            replace(room, settings=read_conda_settings({"WORD": "wrong-word"}, tmp_path)).lock(
                spec_text("own", "ffmpeg")
            )
    for text in (side.text, made, caught.value.message):
        assert "hush-hush" not in text
        assert "wrong-word" not in text
    assert server.host not in side.text + made
    assert 'channel = "own"' in made


def test_mirrors_are_asked_in_turn(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (server, url):
        more = f'mirrors = {{ own = ["{server.url("/gone")}", "{url}"] }}'
        side = room.lock(spec_text("own", "x264", more=more))
    assert versions(side) == {"x264": "1.1 h5_2"}
    assert url not in side.text


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (lambda s: s.serve("/chan/linux-64/repodata.json", b"<html>"), "conda-channel"),
        (lambda s: s.serve("/chan/linux-64/repodata.json", Reply(status=404)), "conda-no-solution"),
        (lambda s: s.serve("/chan/linux-64/repodata.json", Reply(status=500)), "conda-channel"),
        (lambda s: s.serve("/chan/linux-64/repodata.json", Reply(body=b"{" * 9000, cut_after=90)), "conda-channel"),
        (
            lambda s: s.serve("/chan/linux-64/repodata.json", Reply(body=b" " * 10**6, pace=0.1, block=1)),
            "conda-channel",
        ),
    ],
    ids=["no-json", "missing", "broken", "cut-off", "endless"],
)
def test_a_channel_that_gives_no_usable_repodata(
    break_it: Callable[[Server], object], code: str, channel: Channel, room: CondaRoom
) -> None:
    with served(channel) as (server, url):
        break_it(server)
        with pytest.raises(EnvlockError) as caught:
            replace(room, patience=2).lock(spec_text(url, "x264"))
    assert caught.value.code == code


def test_repodata_without_hashes_cannot_be_locked(channel: Channel, room: CondaRoom) -> None:
    channel.patch = lambda _, record: record.pop("sha256")
    with served(channel) as (_, url), pytest.raises(FaultyInput) as caught:
        room.lock(spec_text(url, "x264"))
    assert caught.value.code == "conda-repodata"
    assert "x264-1.1-h5_2.conda" in caught.value.message


def test_an_existing_conda_lock_is_taken_and_its_faults_told(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (_, url):
        side = room.lock(spec_text(url, "ffmpeg"))
        taken = '[env]\nname = "mixed"\n[conda]\nlock = "theirs.yml"\n'
        theirs = room.folder / "theirs.yml"
        theirs.write_text(side.text)
        again = room.lock(taken)
        assert versions(again) == versions(side)
        assert again.text == side.text
        for old, new, code in (
            ("version: 1\n", "version: 9\n", "conda-lock-version"),
            ("linux-64", "osx-64", "conda-lock-platforms"),
            (side.locked.packages[0].sha256.hex, "0" * 64, "conda-lock-faulty"),
            ("manager: conda", "manager: npm", "conda-lock-faulty"),
            ("package:", "package: [", "conda-lock-faulty"),
        ):
            theirs.write_text(side.text.replace(old, new))
            with pytest.raises(FaultyInput) as caught:
                room.lock(taken)
            assert caught.value.code == code, new
            assert "theirs.yml" in caught.value.message


def test_without_a_conda_the_other_solver_is_named(channel: Channel, room: CondaRoom) -> None:
    with served(channel) as (_, url), pytest.raises(MachineLacks) as caught:
        replace(room, outer=CondaLock({"PATH": ""}).lock).lock(spec_text(url, "x264", more='solver = "conda-lock"'))
    assert caught.value.code == "no-conda"
    assert "py-rattler" in caught.value.hint
