"""What all tests share: the Docker engine, and the rule about skips."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dockerd import EngineUnavailableError, engine
from programs import ProgramMissingError, require

pytest_plugins = ["suite_places"]  # fixtures of tests/debian_lock: one conftest alone, or mypy finds two of a name


@pytest.fixture(scope="session")
def docker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a Docker engine. Tests that use it are marked `engine`, so that one worker runs them all."""
    folder = Path(tmp_path_factory.mktemp("docker"))
    try:
        with engine(folder) as url:
            yield url
    except EngineUnavailableError as unavailable:
        pytest.skip(f"Docker engine: {unavailable}")


@pytest.fixture(scope="session")
def program() -> Callable[..., str]:
    """`program("skopeo")` is its path; the test is skipped where it can be neither found nor installed."""

    def find(name: str, *, package: str | None = None) -> str:
        try:
            return require(name, package=package)
        except ProgramMissingError as missing:
            pytest.skip(str(missing))

    return find


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep engine tests on one worker: a private engine is started once."""
    for item in items:
        if item.get_closest_marker("engine"):
            item.add_marker(pytest.mark.xdist_group("engine"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where skips are forbidden (CI), a run with one has failed; the reasons stand in the summary."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("ENVLOCK_FORBID_SKIPS") != "1":
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{len(skipped)} skipped, and skips are forbidden here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
