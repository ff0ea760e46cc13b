"""The entry point of images with [access], run with programs that only say how they were called."""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

SCRIPT = files("envlock.image.layers").joinpath("entrypoint.sh").read_text()
KEY = "ssh-ed25519 AAAAC3Nz me@home"


class Container:
    """A folder that stands for the container: its programs, its home and its settings."""

    def __init__(self, folder: Path, access: str, *, uid: int = 0) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.programs = folder / "bin"
        self.programs.mkdir()
        (folder / "access").write_text(f"{access}\n")
        for name in ("sshd", "ssh-keygen", "jupyter"):
            self.program(name, f'echo "{name} $*" >> {folder}/calls')
        self.program("id", f"echo {uid}")
        self.program("getent", f'echo "me:x:{uid}:{uid}::{self.home}:/bin/sh"')
        self.script = folder / "entrypoint"
        replaced = SCRIPT.replace("/etc/envlock/access", str(folder / "access"))
        self.script.write_text(replaced.replace("/run/sshd", str(folder / "run")))

    def program(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.programs}:{os.environ['PATH']}"} | variables
        call = ["/bin/sh", str(self.script), *command]
        return subprocess.run(call, env=environment, capture_output=True, text=True, check=True, timeout=20)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    @property
    def keys(self) -> str:
        return (self.home / ".ssh" / "authorized_keys").read_text()


def test_root_listens_on_22_with_host_keys_made_at_the_start(tmp_path: Path) -> None:
    container = Container(tmp_path, "ssh")
    container.run(PUBLIC_KEY=KEY)
    assert container.calls == ["ssh-keygen -A", "sshd -D -e -p 22"]
    assert container.keys == f"{KEY}\n"
    assert (container.home / ".ssh").stat().st_mode & 0o777 == 0o700
    assert (container.home / ".ssh" / "authorized_keys").stat().st_mode & 0o777 == 0o600


def test_others_listen_on_2222_with_a_host_key_of_their_own(tmp_path: Path) -> None:
    container = Container(tmp_path, "ssh", uid=1000)
    container.run(SSH_PUBLIC_KEY=KEY)
    key = container.home / ".ssh" / "host_ed25519_key"
    assert container.calls == [
        f"ssh-keygen -q -t ed25519 -N  -f {key}",
        f"sshd -D -e -p 2222 -h {key} -o UsePAM=no -o PidFile=none",
    ]


def test_keys_are_added_once_and_mounted_ones_stay(tmp_path: Path) -> None:
    container = Container(tmp_path, "ssh")
    (container.home / ".ssh").mkdir()
    (container.home / ".ssh" / "authorized_keys").write_text("mounted\n")
    for _ in range(2):
        container.run(AUTHORIZED_KEYS=f"# mine\n{KEY}\n\nother", PUBLIC_KEY=KEY, SSH_PORT="2200")
    assert container.keys == f"mounted\n{KEY}\nother\n"
    assert container.calls[-1] == "sshd -D -e -p 2200"


def test_a_start_without_any_key_says_so(tmp_path: Path) -> None:
    assert "no key may log in yet" in Container(tmp_path, "ssh").run().stderr


def test_jupyter_alone_takes_the_place_of_the_script(tmp_path: Path) -> None:
    container = Container(tmp_path, "jupyter", uid=1000)
    container.run(JUPYTER_PORT="9999")
    assert container.calls == ["jupyter lab --ip=0.0.0.0 --port=9999 --no-browser"]


def test_both_services_start_and_the_last_one_stays(tmp_path: Path) -> None:
    container = Container(tmp_path, "ssh jupyter")
    container.run(PUBLIC_KEY=KEY)
    assert container.calls == [
        "ssh-keygen -A",
        "sshd -p 22",
        "jupyter lab --ip=0.0.0.0 --port=8888 --no-browser --allow-root",
    ]


@pytest.mark.parametrize("access", ["ssh", "jupyter", "ssh jupyter"])
def test_a_command_runs_beside_the_services_with_its_own_status(tmp_path: Path, access: str) -> None:
    container = Container(tmp_path, access)
    container.program("jupyter", "exit 0")
    with pytest.raises(subprocess.CalledProcessError) as ended:
        container.run("/bin/sh", "-c", "echo here; exit 7", PUBLIC_KEY=KEY)
    assert (ended.value.returncode, ended.value.stdout) == (7, "here\n")
