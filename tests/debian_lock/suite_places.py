"""A signed suite on a mirror of its own, and how it is opened: fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from signed_archive import Archive, Mirror, SigningKey, serve, signing_key, stanza

from envlock.fetch.apt import AptSettings
from envlock.fetch.http import Http
from envlock.fetch.model import HttpSettings
from envlock.fetch.store import Store
from envlock.lock.debian.suite import DebianSuite, open_suite
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def key(program: Callable[..., str]) -> Iterator[SigningKey]:
    program("gpg", package="gnupg")
    program("gpgv")
    with signing_key() as made:
        yield made


@pytest.fixture
def http() -> Iterator[Http]:
    with Http(HttpSettings(attempts=1)) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


class Place:
    """Two archives that a mirror serves, and a way to open a suite of them."""

    def __init__(self, root: Path, key: SigningKey, mirror: Mirror, http: Http, store: Store) -> None:
        self.main = Archive(root / "debian", key)
        self.security = Archive(root / "debian-security", key)
        self.mirror = mirror
        self.http = http
        self.store = store
        self.settings = AptSettings(
            archives={"debian": (f"{mirror.url}/debian",), "debian-security": (f"{mirror.url}/debian-security",)},
            keyrings=(key.keyring,),
        )

    def write(self, *stanzas: str, updates: tuple[str, ...] = (), security: tuple[str, ...] = ()) -> None:
        """Write a whole suite `trixie` for amd64, with what every base needs."""
        base = (
            stanza("libc6", "2.41-12", arch="amd64", essential="yes"),
            stanza("python3", "3.13.5-1", arch="amd64", depends="python3.13 (>= 3.13.5-1~)", multi_arch="allowed"),
            stanza("python3.13", "3.13.5-2+deb13u1", arch="amd64", depends="libc6 (>= 2.38)"),
        )
        self.main.write_suite("trixie", {"amd64": [*base, *stanzas]})
        self.main.write_suite("trixie-updates", {"amd64": updates})
        self.security.write_suite("trixie-security", {"amd64": security})

    def open(
        self, suite: str = "trixie", *, now: datetime = NOW, platforms: tuple[Platform, ...] = (Platform.AMD64,)
    ) -> DebianSuite:
        return open_suite(
            suite,
            platforms,
            archives=self.settings,
            http=self.http,
            store=self.store,
            progress=NO_PROGRESS,
            now=now,
        )


@pytest.fixture
def place(tmp_path: Path, key: SigningKey, http: Http, store: Store) -> Iterator[Place]:
    root = tmp_path / "mirror"
    root.mkdir()
    with serve(root) as mirror:
        yield Place(root, key, mirror, http, store)
