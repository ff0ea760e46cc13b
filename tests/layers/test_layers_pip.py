"""What is installed is what pip installs, up to the differences that docs/layer-format.md states."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from reading import Layer, layer_of
from wheels_in_code import WheelKit

from envlock.image.layers.wheel import Scheme, WheelInstall, wheel_entries

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ISOLATED = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


class ByPip:
    """A venv into which pip installs wheels."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.scheme = Scheme(str(prefix)[1:], PYTHON)
        subprocess.run((sys.executable, "-m", "venv", "--without-pip", prefix), check=True)
        self.before = set(prefix.rglob("*"))

    def install(self, wheel: Path) -> None:
        pip = (sys.executable, "-m", "pip", "--python", self.prefix / "bin/python", "install", "-q", "--no-compile")
        subprocess.run(
            (*pip, "--no-deps", "--no-index", "--root-user-action=ignore", wheel), check=True, env=ISOLATED
        )

    def files(self) -> dict[str, Path]:
        """What came with the wheels, by path relative to the root."""
        new = set(self.prefix.rglob("*")) - self.before
        return {str(path)[1:]: path for path in new if not path.is_dir()}


@pytest.fixture
def by_pip(tmp_path: Path) -> Iterator[ByPip]:
    umask = os.umask(0o022)
    yield ByPip(tmp_path / "env")
    os.umask(umask)


def compare(by_pip: ByPip, install: WheelInstall) -> None:
    """Files, bytes, modes and RECORD are the same, apart from the differences that are stated."""
    own = f"/site-packages/{install.file.split('-')[0]}-{install.file.split('-')[1]}.dist-info"
    by_pip.install(install.path)
    layer = layer_of(wheel_entries(install, by_pip.scheme, compiler=None))
    theirs, ours, modes = by_pip.files(), layer.files(), layer.modes()
    theirs = {path: file for path, file in theirs.items() if not path.endswith((".dist-info/direct_url.json",))}
    assert sorted(ours) == sorted(theirs)
    for path, file in theirs.items():
        assert modes[path] == file.stat().st_mode & 0o7777, path
        if path.endswith(f"{own}/RECORD"):
            assert rows(ours[path].decode()) == rows(file.read_text())
        elif path.endswith(f"{own}/INSTALLER"):
            assert (ours[path], file.read_bytes()) == (b"envlock\n", b"pip\n")
        else:
            assert plain(ours[path]) == plain(file.read_bytes()), path


def rows(text: str) -> list[list[str]]:
    """RECORD's rows, without hash and size for those files that differ."""
    found = []
    for path, hash_, size in csv.reader(text.splitlines()):
        stated = path.startswith("../../../bin/") or (path.endswith(".dist-info/INSTALLER") and path.count("/") == 1)
        if not path.endswith(".dist-info/direct_url.json"):
            there = path.replace("../../../lib64/", "../../")
            found.append([there, "", ""] if stated else [there, hash_, size])
    return sorted(found)


def plain(script: bytes) -> bytes:
    """A script without what pip writes otherwise: quotes, a line for Windows, the interpreter's name."""
    if not script.startswith(b"#!"):
        return script
    lines = script.replace(b"bin/python" + PYTHON.encode(), b"bin/python").splitlines()
    return b"\n".join(line.replace(b"'", b'"') for line in lines if b"sys.argv[0] = " not in line)


AWKWARD = {
    "plain": WheelKit(),
    "console and gui scripts": WheelKit(
        entry_points="[console_scripts]\nrun = sample.cli:main\nsub = sample:App.start\nwith.dot = sample:x\n"
        "[gui_scripts]\nwindow = sample:gui\n"
    ),
    "entry points with extras and other groups": WheelKit(
        entry_points="[console_scripts]\nrun = sample.cli:main [extra]\n\n[sample.plugins]\na = sample:b\n"
    ),
    "data": WheelKit(
        files={
            "sample.py": b"",
            "sample-1.0.data/data/share/x/y.txt": b"data",
            "sample-1.0.data/data/lib64/z.txt": b"through the link",
            "sample-1.0.data/data/etc/with space": b"",
        }
    ),
    "scripts": WheelKit(
        files={
            "sample-1.0.data/scripts/tool": b"#!python\nprint(1)\n",
            "sample-1.0.data/scripts/plain": b"#!python\nprint(1)\n",
            "sample-1.0.data/scripts/tool.sh": b"#!/bin/sh\n",
            "sample-1.0.data/scripts/binary": bytes(range(256)),
            "sample-1.0.data/scripts/run": b"#!python\nwraps\n",
            "sample-1.0.data/scripts/run-script.py": b"#!python\nwraps\n",
        },
        modes={"sample-1.0.data/scripts/tool": 0o100755, "sample-1.0.data/scripts/binary": 0o100755},
        entry_points="[console_scripts]\nother = sample:main\n",
    ),
    "headers": WheelKit(name="Sample_Headers", files={"Sample_Headers-1.0.data/headers/sub/x.h": b"int x;\n"}),
    "purelib and platlib": WheelKit(
        files={"sample-1.0.data/purelib/pure/a.py": b"", "sample-1.0.data/platlib/plat/b.so": b"elf"},
        modes={"sample-1.0.data/platlib/plat/b.so": 0o100755},
    ),
    "a namespace": WheelKit(files={"space/part/__init__.py": b"", "space/part/data.json": b"{}"}),
    "names": WheelKit(
        files={
            name: name.encode()
            for name in ("p/ünï.py", "p/with space.py", "p/名.txt", "p/a,b.py", 'p/"q".py', "P/A.py")
        }
    ),
    "a long path": WheelKit(files={"deep/" * 60 + "x.py": b"1", "y" * 200 + ".py": b"2"}),
    "empty and stored": WheelKit(
        files={"a/__init__.py": b"", "a/b.py": b"x = 1\n" * 5000, "a/empty": b""},
        stored=frozenset({"a/b.py", "a/empty"}),
    ),
    "modes": WheelKit(
        files=dict.fromkeys(("m/a", "m/b", "m/c", "m/d"), b"x"),
        modes={"m/a": 0o100777, "m/b": 0o100600, "m/c": 0o100011, "m/d": 0o755},
    ),
    "signed": WheelKit(files={"sample.py": b"", "sample-1.0.dist-info/RECORD.jws": b"signature"}),
    "bytecode of its own": WheelKit(
        files={"s/__init__.py": b"", f"s/__pycache__/x.cpython-{PYTHON[2:]}.pyc": b"pyc"}
    ),
}


@pytest.mark.parametrize("kind", AWKWARD)
def test_a_wheel_is_installed_as_pip_installs_it(tmp_path: Path, by_pip: ByPip, kind: str) -> None:
    install = AWKWARD[kind].write(tmp_path)
    compare(by_pip, replace(install, requested=True))


REAL = [
    "greenlet",
    "libclang",
    "jupyterlab-widgets",
    "pytz",
    "docutils",
    "google-auth",
    "pywin32-ctypes",
    "setuptools",
]


@pytest.mark.index
@pytest.mark.parametrize("project", REAL)
def test_a_real_wheel_is_installed_as_pip_installs_it(tmp_path: Path, by_pip: ByPip, project: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}
    pip = (
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        tmp_path / "got",
    )
    subprocess.run((*pip, project), check=True, env=environment)
    (path,) = (tmp_path / "got").iterdir()
    name, version = path.name.split("-")[:2]
    compare(by_pip, WheelInstall(path=path, file=path.name, name=name, version=version, requested=True))


def test_layers_hold_nothing_but_what_pip_would_have_made(tmp_path: Path, by_pip: ByPip) -> None:
    layer: Layer = layer_of(wheel_entries(WheelKit().write(tmp_path), by_pip.scheme, compiler=None))
    assert all(member.name.startswith(by_pip.scheme.prefix) for member in layer.members())
