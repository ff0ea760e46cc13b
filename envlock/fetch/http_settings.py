"""How this machine reaches servers: proxies, certificates and credentials from environment and configuration."""

from __future__ import annotations

import netrc
from collections.abc import Mapping
from pathlib import Path

from envlock import __version__
from envlock.errors import FaultyInput
from envlock.fetch.apt import AptSettings
from envlock.fetch.model import HttpSettings
from envlock.fetch.sources import IndexSettings
from envlock.fetch.urls import Credentials, host_key, split_credentials

__all__ = ["read_http_settings"]


def read_http_settings(
    environ: Mapping[str, str],
    home: Path,
    *,
    indexes: IndexSettings,
    apt: AptSettings | None = None,
    offline: bool = False,
) -> HttpSettings:
    """Put together what the environment, ~/.netrc, pip, uv and apt say; raises FaultyInput "netrc-faulty".

    pip's own proxy goes before HTTPS_PROXY and the like; apt's proxy serves the hosts of the archives only.
    """
    proxies = _environment_proxies(environ)
    if indexes.proxy:
        proxies = {"http": indexes.proxy, "https": indexes.proxy}
    if apt is not None:
        proxies |= _archive_proxies(apt)
    credentials = _netrc(environ, home)
    if apt is not None:
        credentials |= apt.credentials
    for place in indexes.places:
        plain, own = split_credentials(place.url)
        if own is not None:
            credentials[host_key(plain)] = own
    return HttpSettings(
        user_agent=f"envlock/{__version__}",
        proxies=proxies,
        no_proxy=tuple(_variable(environ, "no_proxy").replace(",", " ").split()),
        ca_file=indexes.cert,
        ca_origin=indexes.cert_origin,
        client_cert=indexes.client_cert,
        trusted_hosts=indexes.trusted_hosts,
        credentials=credentials,
        read_timeout=indexes.timeout or HttpSettings().read_timeout,
        offline=offline,
    )


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _environment_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    schemes = {"http": "http_proxy", "https": "https_proxy", "all": "all_proxy"}
    return {scheme: value for scheme, name in schemes.items() if (value := _variable(environ, name))}


def _archive_proxies(apt: AptSettings) -> dict[str, str]:
    """The proxies of apt, narrowed to the hosts that apt would use them for."""
    proxies: dict[str, str] = {}
    for url in (url for urls in apt.archives.values() for url in urls):
        scheme, _, rest = split_credentials(url)[0].partition("://")
        host = rest.partition("/")[0].partition(":")[0]
        proxy = apt.proxies.get(f"{scheme}://{host}", apt.proxies.get(scheme))
        if proxy:
            proxies[f"{scheme}://{host}"] = proxy
    return proxies


def _netrc(environ: Mapping[str, str], home: Path) -> dict[str, Credentials]:
    """Credentials by "host", whatever the port; ~/.netrc, ~/_netrc or the file that NETRC names."""
    places = [Path(environ["NETRC"])] if environ.get("NETRC") else [home / ".netrc", home / "_netrc"]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        return {}
    try:
        hosts = netrc.netrc(str(file)).hosts
    except PermissionError:  # another user's, as pip has it too
        return {}
    except (netrc.NetrcParseError, UnicodeDecodeError, OSError) as exc:
        raise FaultyInput(
            f"{file} cannot be read: {exc}", hint="Correct it, or set NETRC to another file.", code="netrc-faulty"
        ) from exc
    found: dict[str, Credentials] = {}
    for host, (login, account, password) in hosts.items():
        if host != "default":
            found[host.lower()] = (login or account or "", password or "")
    return found
