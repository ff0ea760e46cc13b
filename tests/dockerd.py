"""A Docker engine for tests: the one that answers already, else a private one, started and ended here."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.errors import DockerException
from programs import ProgramMissingError, require

__all__ = ["EngineUnavailableError", "engine"]

_START_LIMIT = 60.0  # seconds


class EngineUnavailableError(Exception):
    """No engine answers, and none can be started here; says why."""


@contextmanager
def engine(folder: Path) -> Iterator[str]:
    """The base URL of a Docker engine that lives as long as the context; `folder` takes a private one's files."""
    ready = _answering(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    if ready is not None:
        yield ready
        return
    if os.geteuid() != 0:
        raise EngineUnavailableError("no Docker engine answers, and only root can start one")
    try:
        require("dockerd", package="docker.io")
    except ProgramMissingError as missing:
        raise EngineUnavailableError(str(missing)) from missing
    yield from _private_engine(folder)


def _answering(url: str) -> str | None:
    if url.startswith("unix://") and not _listens(url.removeprefix("unix://")):
        return None
    try:
        client = docker.DockerClient(base_url=url, timeout=5)
    except (DockerException, OSError):
        return None
    client.close()
    return url


def _listens(path: str) -> bool:
    """Whether something accepts connections there; the client would leak a socket finding that out."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def _private_engine(folder: Path) -> Iterator[str]:
    address = folder / "docker.sock"
    log = folder / "dockerd.log"
    command = [
        "dockerd",
        f"--host=unix://{address}",
        f"--data-root={folder / 'data'}",
        f"--exec-root={folder / 'exec'}",
        f"--pidfile={folder / 'docker.pid'}",
        "--bridge=none",
        "--iptables=false",
    ]
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _START_LIMIT
        while _answering(f"unix://{address}") is None:
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise EngineUnavailableError(f"dockerd did not start: {log.read_text()[-800:]}")
            time.sleep(0.2)
        yield f"unix://{address}"
    finally:
        daemon.terminate()
        daemon.wait(timeout=60)
