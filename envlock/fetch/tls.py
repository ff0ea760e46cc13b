"""Whom to trust: the connections' TLS contexts, each made once, and the session that uses them."""

from __future__ import annotations

import ssl
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

from envlock.errors import FaultyInput
from envlock.fetch.model import HttpSettings

__all__ = ["make_session"]


def make_session(settings: HttpSettings) -> requests.Session:
    """A session that takes nothing from the environment, keeps no cookies and trusts whom the settings say."""
    session = requests.Session()
    session.trust_env = False  # the world is passed in
    session.headers.update({"User-Agent": settings.user_agent})
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # threads share this session
    context = _trusting_context(settings.ca_file, settings.ca_origin, settings.client_cert)
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Adapter(context, settings.connections))
    if settings.trusted_hosts:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the user asked for just that
        trusting = _Adapter(_open_context(settings.client_cert), settings.connections)
        for host in settings.trusted_hosts:
            session.mount(f"https://{host}/", trusting)
            if ":" not in host:
                session.mount(f"https://{host}:", trusting)
    return session


class _Adapter(HTTPAdapter):
    """An adapter whose connections share one TLS context, so the CA bundle is read once and not per connection."""

    def __init__(self, context: ssl.SSLContext, connections: int) -> None:
        self._context = context
        super().__init__(pool_connections=connections, pool_maxsize=connections, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **kwargs)

    def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
        host, pool = super().build_connection_pool_key_attributes(*args, **kwargs)
        # The context holds all of that; named here they would be read anew for each connection.
        kept = {key: value for key, value in pool.items() if key not in {"ca_certs", "ca_cert_dir", "cert_reqs"}}
        return host, kept

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Leave the connection as it is: the context decides."""


def _trusting_context(ca_file: Path | None, origin: str, client_cert: Path | None) -> ssl.SSLContext:
    """A context that verifies servers against `ca_file` (a bundle, or a folder of hashed certificates).

    Without one the system's certificates count (a company's CA is there), or those of certifi where the system has
    no bundle. Raises FaultyInput "ca-bundle" for a bundle that cannot be read;
    `origin` says who named it.
    """
    context = create_urllib3_context()
    try:
        if ca_file is None:
            context.load_default_certs()
            if not context.cert_store_stats()["x509_ca"]:  # a slim container has no bundle of its own
                context.load_verify_locations(cafile=requests.utils.DEFAULT_CA_BUNDLE_PATH)
        elif ca_file.is_dir():
            context.load_verify_locations(capath=str(ca_file))
        else:
            context.load_verify_locations(cafile=str(ca_file))
    except OSError as exc:  # ssl.SSLError is one
        raise FaultyInput(
            f"the certificate bundle {ca_file} named by {origin} cannot be read: {exc.strerror or exc}",
            hint="Name a file of PEM certificates there, or unset it to trust the system's.",
            code="ca-bundle",
        ) from exc
    _identify(context, client_cert)
    return context


def _open_context(client_cert: Path | None) -> ssl.SSLContext:
    """A context that verifies nothing, for hosts that the user trusts by name."""
    context = create_urllib3_context(cert_reqs=ssl.CERT_NONE)
    _identify(context, client_cert)
    return context


def _identify(context: ssl.SSLContext, client_cert: Path | None) -> None:
    if client_cert is None:
        return
    try:
        context.load_cert_chain(str(client_cert))
    except OSError as exc:
        raise FaultyInput(
            f"the client certificate {client_cert} cannot be read: {exc.strerror or exc}",
            hint="It must hold a PEM certificate and its private key, without a passphrase.",
            code="client-cert",
        ) from exc
