"""Which proxy a URL goes through."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

__all__ = ["proxies_for"]


def proxies_for(url: str, proxies: Mapping[str, str], no_proxy: tuple[str, ...]) -> dict[str, str]:
    """The proxies that `requests` may use for this URL; empty where it is to be reached directly.

    `no_proxy` entries are "*", host names (which stand for their subdomains too, with or without a leading dot),
    addresses or networks ("10.0.0.0/8"), each with an optional ":port".
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {} if any(_covers(entry, host, port) for entry in no_proxy) else dict(proxies)


def _covers(entry: str, host: str, port: int) -> bool:
    entry = entry.strip().lower()
    if entry == "*":
        return True
    if not entry:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # one of the two is a name, or the entry has a port
    name, colon, wanted_port = entry.rpartition(":")
    if colon and wanted_port.isdigit():
        if int(wanted_port) != port:
            return False
        entry = name.strip("[]")
    entry = entry.removeprefix("*").lstrip(".")
    return host == entry or host.endswith(f".{entry}")
