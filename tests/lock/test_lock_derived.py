from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from platform import machine

import pytest
from lock_samples import BOTH, built, contract, from_git, lock, sha, wheel

from envlock.digest import Digest
from envlock.lock.codec import dumps
from envlock.lock.derived import derived_files, requirements_txt
from envlock.lock.model import Lock, LockedWheel
from envlock.platforms import Platform

HERE = next(platform for platform in Platform if platform.machine == machine())
ARM = (Platform.ARM64,)


def both(*wheels: LockedWheel) -> Lock:
    return lock(*wheels, platforms=BOTH, contracts=(contract(), contract(Platform.ARM64)))


def body(made: Lock) -> list[str]:
    """The text after the header, a line for each requirement or comment."""
    return requirements_txt(made).split("\n\n", 1)[1].replace(" \\\n    ", " ").splitlines()


def test_a_wheel_is_a_pin_with_its_hash() -> None:
    one = wheel("a", "1.0")
    assert body(lock(one)) == [f"a==1.0 --hash=sha256:{one.sha256.hex}"]


def test_the_header_says_what_it_is_derived_from() -> None:
    made = lock(wheel("a"))
    header = requirements_txt(made).split("\n\n", maxsplit=1)[0]
    assert f"sample.lock ({Digest.of(dumps(made).encode())}); do not edit" in header
    assert "CPython 3.13 on linux/amd64" in header
    assert "pip install --require-hashes --no-deps -r sample.requirements.txt" in header
    assert derived_files(made) == {"sample.requirements.txt": requirements_txt(made)}


def test_it_is_a_pure_function_of_the_lock() -> None:
    made = both(wheel("b", platforms=BOTH), wheel("a", platforms=ARM), built("c", platforms=BOTH))
    assert requirements_txt(made) == requirements_txt(replace(made))


def test_two_platforms_with_one_version_share_a_line_with_both_hashes() -> None:
    here = wheel("a", tags="cp313-cp313-manylinux_2_28_x86_64")
    there = wheel("a", tags="cp313-cp313-manylinux_2_28_aarch64", platforms=ARM)
    first, second = sorted((here.sha256.hex, there.sha256.hex))
    assert body(both(here, there)) == [f"a==1.0 --hash=sha256:{first} --hash=sha256:{second}"]


def test_what_one_platform_has_alone_has_a_marker() -> None:
    assert body(both(wheel("a", "1.0"), wheel("a", "2.0", platforms=ARM))) == [
        f'a==1.0 ; platform_machine == "x86_64" --hash=sha256:{wheel("a", "1.0").sha256.hex}',
        f'a==2.0 ; platform_machine == "aarch64" --hash=sha256:{wheel("a", "2.0").sha256.hex}',
    ]


def test_a_direct_wheel_keeps_its_place() -> None:
    direct = wheel("a", index="direct", direct_url="https://host.example/a-1.0-py3-none-any.whl")
    (line,) = body(lock(direct))
    assert line == f"a @ https://host.example/a-1.0-py3-none-any.whl --hash=sha256:{direct.sha256.hex}"


def test_a_local_wheel_is_relative_to_the_specification() -> None:
    below = wheel("a", index="local", path="wheels/a-1.0-py3-none-any.whl")
    beside = wheel("b", index="local", path="../b-1.0-py3-none-any.whl")
    lines = body(lock(below, beside))
    assert lines[0].startswith("./wheels/a-1.0-py3-none-any.whl --hash=")
    assert lines[1].startswith("../b-1.0-py3-none-any.whl --hash=")
    assert "in the folder of envlock.toml" in requirements_txt(lock(below))


def test_a_wheel_of_another_index_says_which() -> None:
    made = lock(wheel("a", index="torch-cu126"))
    assert body(made)[0] == "# from the index torch-cu126"
    assert "# with --extra-index-url or --find-links for what comes from: torch-cu126" in requirements_txt(made)


def test_a_built_wheel_has_the_hash_of_its_source_too() -> None:
    one = built("a")
    note, line = body(lock(one))
    assert "pip builds one too" in note
    assert one.sha256.hex in line
    assert sha("a-1.0.tar.gz").hex in line


def test_a_source_at_a_place_of_its_own_keeps_it() -> None:
    one = built("a")
    assert one.built_from is not None
    url = "https://host.example/a-1.0.tar.gz"
    placed = replace(one, direct_url=url, built_from=replace(one.built_from, index="direct", url=url))
    assert body(lock(placed))[1] == f"a @ {url} --hash=sha256:{sha('a-1.0.tar.gz').hex}"


def test_what_is_built_from_git_asks_for_its_wheel() -> None:
    one = from_git("a")
    note, line = body(lock(one))
    assert f"https://git.example/x.git at {'a' * 40}, python" in note
    assert line == f"a==1.0 --hash=sha256:{one.sha256.hex}"


def write_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    info = f"{name}-{version}.dist-info"
    members = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(text)}\n"
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in {**members, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return file


BACKEND = """
import shutil, pathlib
def build_wheel(folder, config_settings=None, metadata_directory=None):
    (ready,) = pathlib.Path(__file__).parent.glob("*.whl")
    shutil.copy(ready, folder)
    return ready.name
"""


def write_sdist(folder: Path, name: str) -> Path:
    """A source distribution that brings its own backend, so that building it needs nothing."""
    inner = write_wheel(folder, name)
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"pyproject.toml": project.encode(), "backend.py": BACKEND.encode(), inner.name: inner.read_bytes()}
    files["PKG-INFO"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
    path = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, data in files.items():
            member = tarfile.TarInfo(f"{name}-1.0/{file}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    inner.unlink()
    return path


def located(name: str, file: Path, **changes: object) -> LockedWheel:
    one = wheel(name, platforms=(HERE,), size=file.stat().st_size, sha256=Digest.of_file(file))
    return replace(one, **changes)  # type: ignore[arg-type] # a test names its fields


def install(made: Lock, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "requirements.txt").write_text(requirements_txt(made))
    command = [sys.executable, "-m", "pip", "install", "--isolated", "--require-hashes", "--no-deps", "--no-index"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--find-links", str(folder / "index")]
    command += ["--target", str(folder / "out"), "-r", "requirements.txt"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index").mkdir()
    (tmp_path / "wheels").mkdir()
    (tmp_path / "host").mkdir()
    return tmp_path


def test_pip_installs_all_of_it(folder: Path) -> None:
    plain = located("plain", write_wheel(folder / "index", "plain"))
    local_file = write_wheel(folder / "wheels", "local")
    local = located("local", local_file, index="local", path=f"wheels/{local_file.name}")
    direct_file = write_wheel(folder / "host", "direct")
    direct = located("direct", direct_file, index="direct", direct_url=direct_file.as_uri())
    sdist = write_sdist(folder / "index", "sourced")
    sourced = built("sourced", platforms=(HERE,))
    assert sourced.built_from is not None
    source = replace(sourced.built_from, sha256=Digest.of_file(sdist), size=sdist.stat().st_size)
    there = next(platform for platform in Platform if platform is not HERE)
    elsewhere = wheel("elsewhere", platforms=(there,))
    made = both(plain, local, direct, replace(sourced, built_from=source), elsewhere)
    done = install(made, folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "out").glob("*.py")) == [
        "direct.py",
        "local.py",
        "plain.py",
        "sourced.py",
    ]


def test_pip_refuses_other_bytes(folder: Path) -> None:
    plain = located("plain", write_wheel(folder / "index", "plain"))
    done = install(both(replace(plain, sha256=sha("other"))), folder)
    assert done.returncode != 0
    assert "DO NOT MATCH" in done.stderr


def test_pip_asks_for_what_was_built_from_git(folder: Path) -> None:
    git = replace(from_git("own"), platforms=(HERE,))
    done = install(both(git), folder)
    assert done.returncode != 0
    assert "own==1.0" in done.stderr
    file = write_wheel(folder / "index", "own")
    done = install(both(replace(git, sha256=Digest.of_file(file))), folder)
    assert done.returncode == 0, done.stderr
