"""Real packages, from the mirror of this machine's own apt configuration."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from envlock.fetch.apt import read_apt_archives
from envlock.fetch.download import Downloader, Want
from envlock.fetch.http import Http
from envlock.fetch.locate import deb_urls
from envlock.fetch.model import HttpSettings
from envlock.fetch.store import Store
from envlock.image.layers.bytecode import Compiler
from envlock.image.layers.debian import (
    DebFile,
    base_entries,
    deb_entries,
    interpreter,
    interpreter_debs,
    stdlib_bytecode_entries,
    undone,
    unpack_root,
)
from envlock.image.layers.entries import Directory, Entry, File, Symlink
from envlock.image.layers.writer import write_layer
from envlock.lock.debian.suite import open_suite
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS

pytestmark = pytest.mark.index

HERE = Platform.ARM64 if platform.machine() in {"aarch64", "arm64"} else Platform.AMD64
WANTED = ("apt", "ca-certificates", "libstdc++6", "openssh-server", "python3", "python3-venv")
IMPORTS = "import bz2, ctypes, hashlib, lzma, marshal, sqlite3, ssl, sys, zlib; print(sys.version); print(sys.path)"


@pytest.fixture(scope="module")
def debs(program: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[DebFile, ...]:
    """The packages of a small base of trixie, as the lock would name them."""
    program("gpgv")
    store = Store(Path(tmp_path_factory.mktemp("store")))
    archives = read_apt_archives(os.environ)
    with Http(HttpSettings()) as http:
        suite = open_suite(
            "trixie",
            [HERE],
            archives=archives,
            http=http,
            store=store,
            progress=NO_PROGRESS,
            now=datetime.now(UTC),
        )
        locked = suite.close(dict.fromkeys(WANTED, "spec"))
        wants = [
            Want(
                label=deb.name,
                sha256=deb.sha256,
                size=deb.size,
                urls=lambda deb=deb: deb_urls(deb.pool, deb.archive, archives),  # type: ignore[misc]  # bound early
            )
            for deb in locked
        ]
        Downloader(store, http, workers=4, progress=NO_PROGRESS).fetch(wants)
    return tuple(DebFile(store.path(deb.sha256), deb.name, deb.version, deb.architecture) for deb in locked)


def test_the_bases_python_runs_on_this_machine(debs: Sequence[DebFile], tmp_path: Path) -> None:
    begun = time.monotonic()
    unpack_root(interpreter_debs(debs), tmp_path / "root")
    spent = time.monotonic() - begun
    command, environment = interpreter(tmp_path / "root", HERE, "3.13")
    done = subprocess.run(
        [*command, "-c", IMPORTS], env=environment, check=True, capture_output=True, text=True, cwd=tmp_path
    )
    version, path = done.stdout.splitlines()
    assert version.startswith("3.13.")
    assert sys.prefix not in path
    assert done.stderr == ""
    assert spent < 20, f"unpacking took {spent:.1f} s"


def test_the_bases_own_bytecode_is_what_its_python_loads(debs: Sequence[DebFile], tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpack_root(interpreter_debs(debs), root)
    command, environment = interpreter(root, HERE, "3.13")
    with Compiler(command, environment) as compiler:
        entries = list(stdlib_bytecode_entries(debs, compiler))
        assert entries == list(stdlib_bytecode_entries(debs[::-1], compiler))
    for entry in entries:
        if isinstance(entry, File) and isinstance(entry.body, bytes):
            (root / entry.path).parent.mkdir(parents=True, exist_ok=True)
            (root / entry.path).write_bytes(entry.body)
    told = subprocess.run(
        [*command, "-v", "-c", "import json.decoder, sysconfig; sysconfig.get_config_vars()"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    ).stderr
    assert "json/__pycache__/decoder.cpython-313.pyc matches" in told
    assert f"_sysconfigdata__linux_{HERE.multiarch}.cpython-313.pyc matches" in told


def test_packages_and_base_make_one_tree(debs: Sequence[DebFile]) -> None:
    tree: dict[str, Entry] = {}
    owner: dict[str, str] = {}
    named = [(deb.name, deb_entries(deb)) for deb in debs]
    for name, entries in [*named, ("base", base_entries(debs))]:
        for entry in entries:
            before = tree.get(entry.path, entry)
            assert isinstance(entry, Directory) == isinstance(before, Directory), f"{entry.path}: {name}"
            same = entry == before if isinstance(entry, Directory) else entry.path not in tree
            assert same, f"{entry.path}: {owner.get(entry.path)}, {name}"
            tree[entry.path], owner[entry.path] = entry, name
    for path in tree:
        parent = path.rpartition("/")[0]
        assert not parent or isinstance(tree[parent], Directory), path
    assert {"usr/bin/perl", "etc/ssl/certs/ca-certificates.crt"} <= tree.keys()
    assert isinstance(tree["bin"], Symlink)
    status = tree["var/lib/dpkg/status"]
    assert isinstance(status, File)
    assert isinstance(status.body, bytes)
    assert status.body.count(b"\nStatus: install ok installed\n") == len(debs)


def test_nothing_that_scripts_do_was_overlooked(debs: Sequence[DebFile]) -> None:
    assert undone(debs) == ()


def test_a_hard_link_keeps_the_mode_of_its_file_in_the_layer(debs: Sequence[DebFile]) -> None:
    perl = next(deb for deb in debs if deb.name == "perl-base")
    out = io.BytesIO()
    write_layer(deb_entries(perl), out)
    out.seek(0)
    with tarfile.open(fileobj=out, mode="r:gz") as tar:
        members = {member.name: member for member in tar}
    names = [name for name in members if name.startswith("usr/bin/perl")]
    assert any(members[name].islnk() for name in names)
    assert {members[name].mode for name in names} == {0o755}
