"""The signed head of a suite: InRelease, fetched, verified, and checked to be the one that was asked for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol, cast

import requests

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput, Unsatisfiable
from envlock.fetch.store import Store
from envlock.fetch.urls import local_path
from envlock.lock.debian.signature import Trust, verified_text

__all__ = [
    "Listed",
    "Release",
    "Source",
    "Web",
    "read_release",
    "require_architectures",
]

_LARGEST_RELEASE = 16 << 20  # bytes; Debian's are 40 to 150 kB
_NOT_MODIFIED = 304
_NOT_FOUND = frozenset({404, 410})
_LISTED = re.compile(r"^ ([0-9a-f]{64}) +([0-9]{1,12}) +(\S+)$", re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z0-9-]+):[ \t]*(.*)$", re.MULTILINE)


class Web(Protocol):
    """What this room needs of envlock.fetch.http.Http."""

    @property
    def offline(self) -> bool:
        """Whether no network is to be used."""

    def get(
        self, url: str, *, headers: Mapping[str, str] | None = ..., allow: frozenset[int] = ..., limit: int = ...
    ) -> requests.Response:
        """Get a URL; statuses of 400 and more are errors unless in `allow`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One suite of one archive: `archive` is its name in locks, `url` the archive's root, `suite` what is below."""

    archive: str
    url: str
    suite: str
    trust: Trust

    @property
    def origin(self) -> str:
        """How messages call it."""
        return f"Debian suite {self.suite} of the archive {self.archive!r}"

    def address(self, path: str) -> str:
        """The URL of a file below this suite's folder."""
        return f"{self.url.rstrip('/')}/dists/{self.suite}/{path}"


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that a release lists."""

    sha256: Digest
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What an InRelease says. `files` maps paths below the suite's folder to their digests and sizes."""

    suite: str
    codename: str
    valid_until: datetime | None
    by_hash: bool
    architectures: frozenset[str]
    separate_all: bool  # packages of architecture "all" have an index of their own
    files: Mapping[str, Listed]


def read_release(source: Source, *, web: Web, store: Store, now: datetime) -> Release:
    """Fetch, verify and check a suite's InRelease; an unchanged one is not sent twice.

    Raises FaultyInput "unknown-suite", "debian-release-faulty", "debian-release-expired" or what `verified_text`
    raises.
    """
    place = store.area("debian") / f"inrelease-{hashlib.sha256(source.address('').encode()).hexdigest()[:32]}"
    kept = _Kept.read(place)
    if kept is not None:
        fetched = kept if web.offline else _fetch(source, web, kept)
        if fetched is kept:
            try:
                return _accept(source, kept.signed, now)
            except EnvlockError:
                if web.offline:
                    raise
                fetched = _fetch(source, web, None)  # what is kept may be damaged or outdated: ask anew
    else:
        fetched = _fetch(source, web, None)
    release = _accept(source, fetched.signed, now)
    # Only what was found good is kept, so that a bad one is never confirmed by "not modified".
    store.write(place, fetched.dump())
    return release


@dataclass(frozen=True, slots=True)
class _Kept:
    """An InRelease with the headers that let a server say that it has not changed."""

    signed: bytes
    validators: dict[str, str]

    @classmethod
    def read(cls, place: Path) -> _Kept | None:
        try:
            head, _, signed = place.read_bytes().partition(b"\n")
            validators = json.loads(head)
        except (OSError, ValueError):
            return None
        return cls(signed, cast("dict[str, str]", validators)) if isinstance(validators, dict) else None

    def dump(self) -> bytes:
        return json.dumps(self.validators, sort_keys=True).encode() + b"\n" + self.signed


def _fetch(source: Source, web: Web, kept: _Kept | None) -> _Kept:
    url = source.address("InRelease")
    local = local_path(url)
    if local is not None:
        return _Kept(_read_local(source, local), {})
    response = web.get(url, headers=kept.validators if kept else None, allow=_NOT_FOUND, limit=_LARGEST_RELEASE)
    if response.status_code in _NOT_FOUND:
        raise _unknown_suite(source)
    if response.status_code == _NOT_MODIFIED and kept is not None:
        return kept
    validators = {
        asked: response.headers[said]
        for asked, said in (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified"))
        if said in response.headers
    }
    return _Kept(response.content, validators)


def _read_local(source: Source, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise _unknown_suite(source) from exc


def _unknown_suite(source: Source) -> EnvlockError:
    return FaultyInput(
        f"{source.origin}: the mirror has no such suite",
        hint="See how the suite is spelt (trixie, bookworm), and whether the mirror still carries it.",
        code="unknown-suite",
    )


def _accept(source: Source, signed: bytes, now: datetime) -> Release:
    """The release in this signed text, if it is genuine, the one that was asked for, and still valid."""
    release = _parse_release(verified_text(signed, source.trust, origin=source.origin), origin=source.origin)
    if source.suite not in (release.suite, release.codename):
        raise _faulty(source.origin, f"what is signed there is {release.codename!r} ({release.suite!r})")
    if release.valid_until is not None and release.valid_until < now:
        raise FaultyInput(
            f"{source.origin}: its index was valid until {release.valid_until:%Y-%m-%d %H:%M} UTC, and it is "
            f"{now.astimezone(UTC):%Y-%m-%d %H:%M} now",
            hint="The mirror is not kept up to date: use another one. If this machine's clock is wrong, set it.",
            code="debian-release-expired",
        )
    return release


def _parse_release(text: str, *, origin: str) -> Release:
    """Read a release's text; raise FaultyInput "debian-release-faulty" where it is not one."""
    fields = {key.lower(): value.strip() for key, value in _FIELD.findall(text)}
    missing = [name for name in ("Suite", "Codename", "Architectures", "SHA256") if name.lower() not in fields]
    if missing:
        raise _faulty(origin, f"it has no {', '.join(missing)}")
    architectures = frozenset(fields["architectures"].split())
    return Release(
        suite=fields["suite"],
        codename=fields["codename"],
        valid_until=_moment(fields["valid-until"], origin) if "valid-until" in fields else None,
        by_hash=fields.get("acquire-by-hash") == "yes",
        architectures=architectures,
        separate_all="all" in architectures
        and "Packages" not in fields.get("no-support-for-architecture-all", "").split(),
        files={path: Listed(Digest(digest), int(size)) for digest, size, path in _LISTED.findall(text)},
    )


def require_architectures(release: Release, source: Source, architectures: Iterable[str]) -> None:
    """Raise Unsatisfiable "debian-architecture-missing" if the suite lacks one of these."""
    missing = sorted(set(architectures) - release.architectures)
    if missing:
        raise Unsatisfiable(
            f"{source.origin} has nothing for {', '.join(missing)}",
            hint="Take the platform out of env.platforms, or choose another suite.",
            code="debian-architecture-missing",
        )


def _moment(text: str, origin: str) -> datetime:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError as exc:
        raise _faulty(origin, f"Valid-Until is no date: {text[:80]!r}") from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _faulty(origin: str, why: str) -> EnvlockError:
    return FaultyInput(
        f"{origin}: its InRelease is not usable: {why}",
        hint="Use another mirror, or see whether the mirror's URL is the archive's root.",
        code="debian-release-faulty",
    )
