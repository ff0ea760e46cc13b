"""Where the user's own configuration of pip and uv says that packages are.

For each setting (the default index, further indexes, find-links, certificate, proxy, ...) the first of these that
says something is followed:

1. the flag of envlock's own command line, for the default index;
2. uv's variables (UV_DEFAULT_INDEX before UV_INDEX_URL; UV_INDEX and UV_EXTRA_INDEX_URL; UV_FIND_LINKS);
3. pip's variables (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, PIP_CERT, PIP_PROXY, PIP_TRUSTED_HOST);
4. for the certificate bundle: SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE;
5. uv.toml, the user's, then the system's (or the one of UV_CONFIG_FILE);
6. pip's files together, by pip's own rules of which file and section wins (or with PIP_CONFIG_FILE);
7. for the default index: pip's built-in one, asked of the installed pip.

Indexes are tried in order and the first that has a project is the project's: uv's further indexes come before the
default one, as uv has it; pip's come after it, where a name that someone else registers cannot shadow the default's.
find-links come last. pip's and uv's constraints are left alone on purpose: what is locked follows from the spec.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlock.fetch.config_layers import Layer, as_place, first
from envlock.fetch.model import IndexUrl
from envlock.fetch.pip_config import ask_pip_for_its_index, pip_layers
from envlock.fetch.urls import split_credentials
from envlock.fetch.uv_config import uv_layers

__all__ = ["IndexSettings", "read_index_settings"]

_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """The user's index configuration.

    `indexes` are tried in order, then `find_links`; all are named "default", as a lock names them together.
    `origin` says who named the default index. `timeout` is in seconds.
    """

    indexes: tuple[IndexUrl, ...]
    find_links: tuple[IndexUrl, ...] = ()
    origin: str = ""
    cert: Path | None = None
    cert_origin: str = ""
    client_cert: Path | None = None
    proxy: str | None = None
    trusted_hosts: frozenset[str] = frozenset()
    timeout: float | None = None

    @property
    def places(self) -> tuple[IndexUrl, ...]:
        """Every place in the order in which they are tried."""
        return self.indexes + self.find_links


def read_index_settings(
    environ: Mapping[str, str],
    home: Path,
    *,
    index_url: str | None = None,
    root: Path = Path("/"),
    prefix: Path = Path(sys.prefix),
    cwd: Path | None = None,
    python: str = sys.executable,
) -> IndexSettings:
    """Read the flag, variables and files; the module's docstring says which wins.

    Relative paths in variables and pip's files count from `cwd` (`home` without one). `prefix` is where the
    installed pip's site configuration is, `python` the interpreter whose pip is asked for its default index.
    Raises FaultyInput "pip-config-faulty" or "uv-config-faulty", MachineLacks "no-index".
    """
    base = cwd or home
    flags = Layer(origin="the command line", index_url=as_place(index_url, base, home) if index_url else None)
    uv_variables, *uv_files = uv_layers(environ, home, root=root, cwd=base)
    pip_variables, pip_files = pip_layers(environ, home, root=root, prefix=prefix, cwd=base)
    layers = (flags, uv_variables, pip_variables, *_ca_layers(environ), *uv_files, pip_files)
    return _merge(layers, python)


def _ca_layers(environ: Mapping[str, str]) -> list[Layer]:
    return [Layer(origin=name, cert=Path(environ[name])) for name in _CA_VARIABLES if environ.get(name)]


def _merge(layers: Sequence[Layer], python: str) -> IndexSettings:
    url, named_by = first(layers, "index_url", str)
    extra, extra_layer = first(layers, "extra", tuple)
    find_links, _ = first(layers, "find_links", tuple)
    cert, cert_layer = first(layers, "cert", Path)
    no_index, _ = first(layers, "no_index", bool)
    urls: list[str] = []
    if not no_index:
        default = url or ask_pip_for_its_index(python)
        before = extra_layer is not None and extra_layer.extra_first
        urls = [*(extra or ()), default] if before else [default, *(extra or ())]
    return IndexSettings(
        indexes=tuple(IndexUrl(name="default", url=url) for url in _once(urls)),
        find_links=tuple(IndexUrl(name="default", url=url, links=True) for url in _once(find_links or ())),
        origin=named_by.origin if named_by else "pip's own default",
        cert=cert,
        cert_origin=cert_layer.origin if cert_layer else "",
        client_cert=first(layers, "client_cert", Path)[0],
        proxy=first(layers, "proxy", str)[0],
        trusted_hosts=frozenset(first(layers, "trusted_hosts", tuple)[0] or ()),
        timeout=first(layers, "timeout", float)[0],
    )


def _once(urls: Sequence[str]) -> list[str]:
    """The URLs without repeats; the same one with and without a slash at its end, or credentials, is one."""
    seen: dict[str, str] = {}
    for url in urls:
        seen.setdefault(split_credentials(url)[0].rstrip("/"), url)
    return list(seen.values())
