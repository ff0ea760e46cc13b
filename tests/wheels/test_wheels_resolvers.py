from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from packaging.version import Version
from wheels_kit import HOST

from envlock.errors import MachineLacks
from envlock.lock.wheels.interpreter import ask_interpreter
from envlock.lock.wheels.local_index import LocalIndex
from envlock.lock.wheels.pip_tools import PipTools
from envlock.lock.wheels.resolver import NoAnswer, Question, Resolver, clean_environment, read_pins
from envlock.lock.wheels.target import Target
from envlock.lock.wheels.uv import Uv

HERE = ask_interpreter(Path(sys.executable), os.environ)


class Shelf:
    """Projects with versions and what each of these requires."""

    def __init__(self, projects: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        self.projects = projects

    def versions(self, name: str) -> Sequence[Version] | None:
        return tuple(Version(text) for text in self.projects[name]) if name in self.projects else None

    def metadata(self, name: str, version: Version) -> bytes:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        requires = self.projects[name][str(version)]
        lines += [f"Requires-Dist: {each}" for each in requires]
        lines += ["Provides-Extra: gpu"] if any("extra" in each for each in requires) else []
        return "\n".join(lines).encode()


SHELF = Shelf(
    {
        "app": {"1.0": ["lib>=1", 'torch>=2; extra == "gpu"'], "2.0": ["lib>=2", 'torch>=2; extra == "gpu"']},
        "lib": {"1.0": [], "1.5": [], "2.0": ["deep"], "2.1": ["deep", "pip", "setuptools>=1"]},
        "deep": {"0.1": []},
        "torch": {"2.0": [], "2.1+cu128": []},
        "pip": {"99": []},
        "setuptools": {"98": []},
        "wheelless": {},
        "clash": {"1.0": ["lib<2"]},
    }
)


def uv() -> Resolver:
    return Uv(os.environ)


def pip_tools() -> Resolver:
    return PipTools(os.environ, HERE)


def ask(
    resolver: Resolver,
    folder: Path,
    *requirements: str,
    constraints: Sequence[str] = (),
    pins: Mapping[str, str] | None = None,
    target: Target = HERE.target,
) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    with LocalIndex(SHELF) as index:
        question = Question(
            requirements=requirements,
            constraints=constraints,
            pins=pins or {},
            index_url=index.url,
            target=target,
            folder=folder,
            stop=index.failed,
            timeout=60,
        )
        return {name: str(version) for name, version in resolver.resolve(question).items()}


both = pytest.mark.parametrize("make", [uv, pip_tools])


@both
def test_the_newest_versions_are_chosen(make: type[Resolver], tmp_path: Path) -> None:
    chosen = ask(make(), tmp_path, "app[gpu]")
    assert chosen == {
        "app": "2.0",
        "deep": "0.1",
        "lib": "2.1",
        "pip": "99",
        "setuptools": "98",
        "torch": "2.1+cu128",
    }


@both
def test_constraints_hold(make: type[Resolver], tmp_path: Path) -> None:
    assert ask(make(), tmp_path, "app", constraints=["lib<2", "torch<1"]) == {"app": "1.0", "lib": "1.5"}


@both
def test_pins_are_kept_as_far_as_requirements_let_them(make: type[Resolver], tmp_path: Path) -> None:
    pins = {"app": "1.0", "lib": "1.0"}
    assert ask(make(), tmp_path / "a", "app", pins=pins) == {"app": "1.0", "lib": "1.0"}
    assert ask(make(), tmp_path / "b", "app>1", pins=pins) == {
        "app": "2.0",
        "deep": "0.1",
        "lib": "2.1",
        "pip": "99",
        "setuptools": "98",
    }


@both
def test_the_reasons_of_a_conflict_are_told(make: type[Resolver], tmp_path: Path) -> None:
    with pytest.raises(NoAnswer) as caught:
        ask(make(), tmp_path, "app>=2", "clash")
    words = caught.value.words
    assert "app" in words
    assert "clash" in words
    assert "Traceback" not in words
    assert str(tmp_path) not in words


@both
@pytest.mark.parametrize("name", ["wheelless", "unheard-of"])
def test_a_project_with_nothing_to_choose_is_named(make: type[Resolver], name: str, tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match=name):
        ask(make(), tmp_path, name)


@both
def test_this_machine_s_configuration_does_not_matter(
    make: type[Resolver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for place in (home / ".config" / "pip", home / ".config" / "uv", home / ".pip"):
        place.mkdir(parents=True)
    constraints = tmp_path / "bad.txt"
    constraints.write_text("lib<1.1\n")
    for file in (home / ".config" / "pip" / "pip.conf", home / ".pip" / "pip.conf"):
        file.write_text(f"[global]\nconstraint = {constraints}\nindex-url = http://127.0.0.1:1/\nno-index = true\n")
    (home / ".config" / "uv" / "uv.toml").write_text('[pip]\nresolution = "lowest"\nno-index = true\n')
    for name, value in {
        "HOME": str(home),
        "HTTP_PROXY": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",
        "ALL_PROXY": "http://127.0.0.1:1",
        "PIP_CONSTRAINT": str(constraints),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": str(home / ".pip" / "pip.conf"),
        "UV_CONSTRAINT": str(constraints),
        "UV_RESOLUTION": "lowest",
        "UV_INDEX_URL": "http://127.0.0.1:1/",
        "UV_OFFLINE": "1",
        "PIP_TOOLS_CACHE_DIR": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    assert ask(make(), tmp_path / "work", "lib")["lib"] == "2.1"


def test_uv_resolves_for_any_target(tmp_path: Path) -> None:
    shelf = Shelf(
        {"app": {"1.0": ['arm; platform_machine == "aarch64" and python_version == "3.14"']}, "arm": {"1": []}}
    )
    target = Target(python="3.14", python_full="3.14.2", machine="aarch64", glibc="2.41")
    with LocalIndex(shelf) as index:
        question = Question(
            requirements=["app"], constraints=[], pins={}, index_url=index.url, target=target, folder=tmp_path
        )
        assert sorted(Uv(os.environ).resolve(question)) == ["app", "arm"]


def test_pip_tools_says_that_it_needs_a_host_like_the_target(tmp_path: Path) -> None:
    target = Target(python="3.99", python_full="3.99.0", machine="x86_64", glibc="2.41")
    with pytest.raises(MachineLacks) as caught:
        ask(pip_tools(), tmp_path, "app", target=target)
    assert caught.value.code == "resolver-unfit"
    assert f"CPython {HOST}" in caught.value.message
    assert "uv" in caught.value.hint


def test_a_resolver_is_stopped_when_its_index_fails(tmp_path: Path) -> None:
    class Slow(Shelf):
        def metadata(self, name: str, version: Version) -> bytes:
            if name == "lib":
                raise OSError("no network")
            time.sleep(30)
            return super().metadata(name, version)

    started = time.monotonic()
    with LocalIndex(Slow(SHELF.projects)) as index:
        question = Question(
            requirements=["app", "lib"],
            constraints=[],
            pins={},
            index_url=index.url,
            target=HERE.target,
            folder=tmp_path,
            stop=index.failed,
        )
        with pytest.raises(NoAnswer):
            uv().resolve(question)
        assert isinstance(index.fault, OSError)
    assert time.monotonic() - started < 15


def test_a_resolver_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    class Asleep(Shelf):
        def metadata(self, name: str, version: Version) -> bytes:
            threading.Event().wait(20)
            return super().metadata(name, version)

    with LocalIndex(Asleep(SHELF.projects)) as index:
        question = Question(
            requirements=["app"],
            constraints=[],
            pins={},
            index_url=index.url,
            target=HERE.target,
            folder=tmp_path,
            timeout=1.0,
        )
        with pytest.raises(MachineLacks) as caught:
            uv().resolve(question)
    assert caught.value.code == "resolver-slow"


def test_pins_are_read_with_their_comments() -> None:
    text = "# by hand\n\nMy.Tool==1.0  # via app\nother==2.0+cu128 ; python_version > '3'\n"
    assert read_pins(text) == {"my-tool": Version("1.0"), "other": Version("2.0+cu128")}
    for faulty in ("tool>=1\n", "tool==one\n"):
        with pytest.raises(NoAnswer):
            read_pins(faulty)


def test_nothing_of_pip_s_or_uv_s_variables_is_passed_on(tmp_path: Path) -> None:
    environment = clean_environment(
        {"PATH": "/bin", "PIP_INDEX_URL": "x", "UV_INDEX": "y", "https_proxy": "z"}, tmp_path
    )
    assert "PIP_INDEX_URL" not in environment
    assert "UV_INDEX" not in environment
    assert "https_proxy" not in environment
    assert environment["PATH"] == "/bin"


def test_versions_of_the_programs_are_known() -> None:
    assert Version(uv().version) >= Version("0.9")
    assert Version(pip_tools().version) >= Version("7.5")
