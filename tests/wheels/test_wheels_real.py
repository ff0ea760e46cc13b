"""The real index of this machine's own configuration, and real packages."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from packaging.version import Version
from wheels_kit import constraint, request

from envlock.digest import Digest
from envlock.fetch.http import Http
from envlock.fetch.http_settings import read_http_settings
from envlock.fetch.simple import IndexClient
from envlock.fetch.sources import read_index_settings
from envlock.fetch.store import Store
from envlock.lock.model import LockedWheel
from envlock.lock.wheels.resolve import Resolution, WheelResolver

pytestmark = pytest.mark.index

STACK = ("torch", "transformers", "peft", "accelerate", "bitsandbytes", "trl", "datasets")
SOURCES = ("jieba", "pathtools", "transformers-stream-generator", "antlr4-python3-runtime==4.9.3")
TRIXIE = {"python": "3.13", "python_full": "3.13.5", "glibc": "2.41"}


def real(folder: Path, **environ: str) -> WheelResolver:
    home = Path(os.environ.get("HOME", "/"))
    settings = read_index_settings(os.environ, home)
    store = Store(folder)
    client = IndexClient(Http(read_http_settings(os.environ, home, indexes=settings)), store)
    return WheelResolver(client=client, store=store, indexes=settings.places, environ=dict(os.environ) | environ)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that keeps pages and metadata between tests."""
    return Path(tmp_path_factory.mktemp("store"))


def by_name(resolution: Resolution) -> dict[str, LockedWheel]:
    return {wheel.name: wheel for wheel in resolution.wheels}


def test_the_real_stack_is_resolved_in_seconds(shared: Path) -> None:
    started = time.monotonic()
    found = by_name(real(shared).resolve(request(*STACK, **TRIXIE)))
    seconds = time.monotonic() - started
    assert 60 <= len(found) <= 90
    assert Version(found["torch"].version) >= Version("2.15.0")
    assert set(STACK) == {name for name, wheel in found.items() if wheel.requested}
    assert "torch" in found["peft"].requires
    assert all(wheel.size > 0 for wheel in found.values())
    assert seconds < 60, "a network as slow as that says nothing about envlock, but look"


def test_bounds_on_cuda_give_the_newest_torch_before_cuda_13(shared: Path) -> None:
    bounds = (constraint("cuda-toolkit<13"), constraint("nvidia-cuda-runtime<13"))
    found = by_name(real(shared).resolve(request(*STACK, constraints=bounds, **TRIXIE)))
    assert found["torch"].version == "2.10.0"
    assert found["nvidia-cuda-runtime-cu12"].version.startswith("12.8")


def test_uv_and_pip_tools_lock_the_same_today(shared: Path) -> None:
    wanted = (*STACK, "requests[socks]", "pathtools")
    locks = [
        real(shared).resolve(request(*wanted, resolver=name, allow_sdist=frozenset({"pathtools"}))).wheels
        for name in ("uv", "pip-tools")
    ]
    assert locks[0] == locks[1]
    assert {*STACK, "requests", "pysocks", "pathtools", "markupsafe"} <= {wheel.name for wheel in locks[0]}


def test_real_source_only_packages_are_built_to_the_same_bytes_twice(shared: Path, tmp_path: Path) -> None:
    names = frozenset(name.partition("==")[0] for name in SOURCES)
    before = os.umask(0o077)
    try:
        first = by_name(real(shared).resolve(request(*SOURCES, allow_sdist=names, **TRIXIE)))
    finally:
        os.umask(before)
    other = real(tmp_path / "another" / "machine", PYTHONHASHSEED="77", TZ="Asia/Shanghai", LC_ALL="C")
    for name in sorted(names):
        built = first[name].built_from
        assert built is not None
        assert [each.name for each in built.requires] == ["setuptools"]
        assert Digest.of_file(other.rebuild(first[name])) == first[name].sha256
