"""The real archive of this machine's own apt configuration: signatures, speed, and the same answer as apt's."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from envlock.fetch.apt import AptSettings, read_apt_archives
from envlock.fetch.http import Http
from envlock.fetch.model import HttpSettings
from envlock.fetch.store import Store
from envlock.lock.debian.suite import DebianSuite, open_suite
from envlock.lock.debian.version import Version
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS

pytestmark = pytest.mark.index

PLATFORMS = (Platform.AMD64, Platform.ARM64)
WANTED = ("python3", "python3-venv", "gcc", "python3-dev", "git", "openssh-server", "ca-certificates")


@pytest.fixture(scope="module")
def archives(program: Callable[..., str]) -> AptSettings:
    program("gpgv")
    return read_apt_archives(os.environ)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(Path(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def opened(archives: AptSettings, shared_store: Store) -> Iterator[Callable[[str], DebianSuite]]:
    with Http(HttpSettings()) as http:

        def open_one(suite: str) -> DebianSuite:
            return open_suite(
                suite,
                PLATFORMS,
                archives=archives,
                http=http,
                store=shared_store,
                progress=NO_PROGRESS,
                now=datetime.now(UTC),
            )

        yield open_one


@pytest.mark.parametrize(("name", "python", "glibc"), [("trixie", "3.13", "2.41"), ("bookworm", "3.11", "2.36")])
def test_a_suite_is_verified_and_closed_for_two_platforms_at_once(
    opened: Callable[[str], DebianSuite], name: str, python: str, glibc: str
) -> None:
    opened(name)
    begun = time.monotonic()
    suite = opened(name)
    facts = suite.facts()
    asked = "apt ca-certificates gcc git libc6-dev libpython3-dev libstdc++6 openssh-server python3 python3-venv"
    wanted = dict.fromkeys(asked.split(), "spec")
    debs = suite.close(wanted)
    spent = time.monotonic() - begun
    assert (facts.python, facts.glibc) == (python, glibc)
    assert facts.python_full.startswith(f"{python}.")
    for platform in PLATFORMS:
        names = {deb.name for deb in debs if platform in deb.platforms}
        assert set(wanted) | {"libc6", "dpkg", "bash", f"libpython{python}-dev"} <= names
        assert not names & {"usrmerge", "systemd"}
        assert 150 < len(names) < 230
    assert any(len(deb.platforms) == 2 for deb in debs)
    assert suite.close(wanted, pins=debs) == debs
    assert spent < 3, f"with the index cached it took {spent:.1f} s"


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_apt_chooses_the_same_packages(
    program: Callable[..., str],
    opened: Callable[[str], DebianSuite],
    archives: AptSettings,
    tmp_path: Path,
    architecture: str,
) -> None:
    program("apt-get", package="apt")
    suite = opened("trixie")
    platform = Platform(f"linux/{architecture}")
    ours = {deb.name: deb.version for deb in suite.close(dict.fromkeys(WANTED, "spec")) if platform in deb.platforms}
    # apt does not know that scripts are never run here, so what takes systemd's place is named to it.
    named = [*WANTED, "systemd-standalone-sysusers"]
    named += [deb.name for deb in suite.close({}) if deb.requested == "essential" and platform in deb.platforms]
    assert apt_install(tmp_path, archives, architecture, named) == ours


def apt_install(root: Path, archives: AptSettings, architecture: str, names: list[str]) -> dict[str, str]:
    """What apt would install into an empty root: package -> version."""
    for folder in (
        "etc/apt/apt.conf.d",
        "etc/apt/preferences.d",
        "state/lists/partial",
        "cache/archives/partial",
        "dpkg",
    ):
        (root / folder).mkdir(parents=True)
    (root / "status").touch()
    signed = f"[signed-by={','.join(str(keyring) for keyring in archives.keyrings)}]"
    lines = [
        f"deb {signed} {archives.urls(archive)[0]} {suite} main"
        for archive, suite in (
            ("debian", "trixie"),
            ("debian", "trixie-updates"),
            ("debian-security", "trixie-security"),
        )
    ]
    (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    options = {
        "Dir::Etc": f"{root}/etc/apt",
        "Dir::State": f"{root}/state",
        "Dir::State::status": f"{root}/status",
        "Dir::Cache": f"{root}/cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "-q", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    subprocess.run([*apt, "update"], check=True, capture_output=True, timeout=300)
    done = subprocess.run([*apt, "--simulate", "install", *names], check=True, capture_output=True, text=True)
    installed = [line.split() for line in done.stdout.splitlines() if line.startswith("Inst ")]
    return {words[1].partition(":")[0]: words[2].lstrip("(") for words in installed}


def test_versions_of_the_real_index_are_all_readable(opened: Callable[[str], DebianSuite]) -> None:
    debs = opened("trixie").close(dict.fromkeys(["gnome-core", "texlive-latex-base", "nodejs"], "spec"))
    assert len(debs) > 1000
    assert all(Version.parse(deb.version).text == deb.version and deb.size > 0 for deb in debs)
