"""Where Debian's archives are, by the user's own apt configuration, the spec's mirror or a flag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from envlock.errors import MachineLacks
from envlock.fetch.apt_conf import settings
from envlock.fetch.apt_files import AptSource, read_sources
from envlock.fetch.urls import Credentials, host_key

__all__ = ["MAIN", "SECURITY", "AptSettings", "read_apt_archives"]

MAIN = "debian"
SECURITY = "debian-security"

_SUITES = frozenset(
    {"oldoldstable", "oldstable", "stable", "testing", "unstable", "sid"}
    | {"stretch", "buster", "bullseye", "bookworm", "trixie", "forky", "duke"}
)
_KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")
_PROXY = re.compile(r"acquire::(https?)::proxy(?:::(.+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class AptSettings:
    """Roots of the archives by name ("debian", "debian-security"), best candidate first, and who may sign them.

    `keyrings` are files that exist, `keys` armoured keys that stand in the sources themselves. `proxies` (by
    "http", "https", "http://host") and `credentials` (by "host:port") are those of apt's own configuration.
    """

    archives: Mapping[str, tuple[str, ...]]
    keyrings: tuple[Path, ...] = ()
    keys: tuple[str, ...] = ()
    proxies: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Credentials] = field(default_factory=dict)

    def urls(self, archive: str) -> tuple[str, ...]:
        """The archive's roots, without a slash at the end; raises MachineLacks "no-debian-mirror" without any."""
        if urls := self.archives.get(archive, ()):
            return urls
        raise MachineLacks(
            f"apt's configuration on this machine names no mirror of the {archive} archive",
            hint='Write mirror = "URL" under [base] in the spec, or give --debian-mirror.',
            code="no-debian-mirror",
        )


def read_apt_archives(
    environ: Mapping[str, str],
    root: Path = Path("/"),
    *,
    mirror: str | None = None,
) -> AptSettings:
    """Read sources.list, sources.list.d, apt.conf's proxies, auth.conf and keyrings below `root`.

    The suites of the user's sources only tell which archive is Debian's: another suite of it may be locked. A
    `mirror` is followed before them; its security archive is its sibling MIRROR-security.
    `environ` is read for APT_CONFIG, a further configuration file.
    """
    sources = read_sources(root)
    chosen = {name: _best(sources, name) for name in (MAIN, SECURITY)}
    archives = {name: [source.uri for source in found] for name, found in chosen.items()}
    if mirror:
        archives[MAIN] = [mirror.rstrip("/")]
        # Signatures tell whether a mirror's security archive is Debian's, so the user's own ones may follow it.
        archives[SECURITY] = [f"{mirror.rstrip('/')}-security", *archives[SECURITY]]
    elif not archives[SECURITY]:
        archives[SECURITY] = [f"{url}-security" for url in archives[MAIN] if url.endswith(f"/{MAIN}")]
    used = [*chosen[MAIN], *chosen[SECURITY]]
    return AptSettings(
        archives={name: tuple(dict.fromkeys(urls)) for name, urls in archives.items()},
        keyrings=_keyrings(used, root),
        keys=tuple(dict.fromkeys(key for source in used for key in source.keys)),
        proxies=_proxies(root, environ),
        credentials=_credentials(root),
    )


def _best(sources: Sequence[AptSource], archive: str) -> list[AptSource]:
    """The sources that are Debian's archive of that name, as far as their configuration tells.

    Third parties use Debian's suite names too. So what Debian's own keyring signs goes before what names no key
    and that before other keys, and among those what looks like the archive (by path, or by having updates as well)
    before what does not; the best kind found is all that counts.
    """
    ranked = [(_rank(source, archive), source) for source in sources if _serves(source, archive)]
    best = min((rank for rank, _ in ranked), default=(0, 0))
    if best[0] == _OTHER_KEY and best[1] > 0:
        return []
    return [source for rank, source in ranked if rank == best]


_DEBIAN_KEY, _NO_KEY, _OTHER_KEY = 0, 1, 2


def _rank(source: AptSource, archive: str) -> tuple[int, int]:
    if any(keyring.name.startswith("debian-archive") for keyring in source.signed_by):
        key = _DEBIAN_KEY
    else:
        key = _OTHER_KEY if source.signed_by or source.keys else _NO_KEY
    by_path = urlsplit(source.uri).path.rstrip("/").endswith(f"/{archive}")
    return key, 0 if by_path or any(suite.endswith("-updates") for suite in source.suites) else 1


def _serves(source: AptSource, archive: str) -> bool:
    if not any(component.rpartition("/")[2] == "main" for component in source.components):
        return False
    return any(_archive_of(suite) == archive for suite in source.suites)


def _archive_of(suite: str) -> str | None:
    """The archive that a suite of Debian's lies in; None for a suite of someone else."""
    name = suite.strip("/")
    for ending, archive in (("-security", SECURITY), ("/updates", SECURITY), ("-updates", MAIN), ("", MAIN)):
        if name.endswith(ending) and name.removesuffix(ending) in _SUITES:
            return archive
    return None


def _keyrings(used: Iterable[AptSource], root: Path) -> tuple[Path, ...]:
    """Keyrings that exist: the sources' own, Debian's, and apt's trusted ones where a source names no key."""
    paths = [keyring for source in used for keyring in source.signed_by]
    paths += [root / "usr" / "share" / "keyrings" / name for name in _KEYRINGS]
    if any(not source.signed_by and not source.keys for source in used) or not any(path.is_file() for path in paths):
        trusted = root / "etc" / "apt" / "trusted.gpg.d"
        if trusted.is_dir():
            paths += sorted(file for file in trusted.iterdir() if file.suffix in {".gpg", ".asc"})
        paths.append(root / "etc" / "apt" / "trusted.gpg")
    return tuple(path for path in dict.fromkeys(paths) if path.is_file() and path.stat().st_size > 0)


def _proxies(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The `Acquire::http::Proxy` settings of apt, also per host; "DIRECT" and scripts are left out."""
    proxies: dict[str, str] = {}
    for file in _configuration(root, environ):
        for name, value in settings(file.read_text(encoding="utf-8", errors="replace")):
            match = _PROXY.fullmatch(name)
            if match is not None and "://" in value:
                proxies[f"{match[1]}://{match[2]}" if match[2] else match[1]] = value
    return proxies


def _configuration(root: Path, environ: Mapping[str, str]) -> list[Path]:
    parts = root / "etc" / "apt" / "apt.conf.d"
    files = sorted(file for file in parts.iterdir() if file.suffix in {"", ".conf"}) if parts.is_dir() else []
    files.append(root / "etc" / "apt" / "apt.conf")
    if chosen := environ.get("APT_CONFIG"):
        files.append(Path(chosen))
    return [file for file in files if file.is_file()]


def _credentials(root: Path) -> dict[str, Credentials]:
    """User and password by "host:port" from auth.conf and auth.conf.d, whose format is netrc's."""
    folder = root / "etc" / "apt"
    parts = folder / "auth.conf.d"
    files = [folder / "auth.conf", *(sorted(parts.glob("*.conf")) if parts.is_dir() else [])]
    found: dict[str, Credentials] = {}
    for file in files:
        try:
            words = file.read_text(encoding="utf-8", errors="replace").split()
        except OSError:  # absent, or for root's eyes only
            continue
        for machine, login, password in _logins(words):
            found[_host_key(machine)] = (login, password)
    return found


def _logins(words: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    entry: dict[str, str] = {}
    for name, value in pairwise(words):
        if name == "machine":
            entry = {"machine": value}
        elif name in {"login", "password"} and entry:
            entry[name] = value
            if len(entry) == 3:  # noqa: PLR2004 (machine, login and password)
                yield entry["machine"], entry["login"], entry["password"]


def _host_key(machine: str) -> str:
    """Where an entry holds: over https only, unless it names another scheme; its path is not looked at."""
    return host_key(machine if "://" in machine else f"https://{machine}")
