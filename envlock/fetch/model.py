"""The data that this room passes on: how to reach servers, where indexes are, and the files they list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envlock.digest import Digest
from envlock.fetch.urls import Credentials, local_path, mask

__all__ = ["HttpSettings", "IndexFile", "IndexUrl"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IndexUrl:
    """Where packages are listed.

    `name` is "default" for the user's own configuration, or the name of an [[index]]. `url` is an http(s) or file
    URL or an absolute folder path, and may hold credentials: it is shown masked. With `links` it is one page or
    folder of files (pip's find-links), else a simple index with a page per project. A local folder is read both
    ways, whatever `links` says.
    """

    name: str
    url: str
    links: bool = False

    @property
    def folder(self) -> Path | None:
        """The folder (or single page) on this machine that it names, if it names one."""
        return local_path(self.url)

    def __str__(self) -> str:
        return mask(self.url)

    def __repr__(self) -> str:
        return f"IndexUrl(name={self.name!r}, url={mask(self.url)!r}, links={self.links})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One file of a project, as an index lists it.

    `url` is absolute (http, https or file) and without credentials. `yanked` is None for a file that is not
    yanked, else the reason, which may be "". `upload_time` is the index's own RFC 3339 text. `has_metadata` says
    that `url + ".metadata"` is served; `metadata_sha256` may still be None then.
    """

    file: str
    url: str
    sha256: Digest | None = None
    size: int | None = None
    requires_python: str | None = None
    yanked: str | None = None
    upload_time: str | None = None
    metadata_sha256: Digest | None = None
    has_metadata: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How to reach servers from this machine.

    `proxies` maps "http", "https", "all" or "https://host" to a proxy's URL. `ca_file` replaces the trusted
    certificates; without it those of the system (or certifi's) are trusted. `trusted_hosts` ("host" or
    "host:port") are not verified at all. `credentials` maps "host:port", or "host" for any port, to user and
    password. Seconds are for connecting, for the silence between two reads, and for the wait before the second of
    `attempts`, which doubles from then on.
    """

    user_agent: str = "envlock"
    proxies: Mapping[str, str] = field(default_factory=dict)
    no_proxy: tuple[str, ...] = ()
    ca_file: Path | None = None
    ca_origin: str = "the configuration"
    client_cert: Path | None = None
    trusted_hosts: frozenset[str] = frozenset()
    credentials: Mapping[str, Credentials] = field(default_factory=dict)
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    attempts: int = 5
    first_wait: float = 0.5
    connections: int = 32
    offline: bool = False
