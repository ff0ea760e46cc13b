from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fetch_server import CERTIFICATE, Reply, Server, quick_http

from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.fetch.http import back_off
from envlock.fetch.proxies import proxies_for
from envlock.fetch.urls import file_name, host_key, local_path, mask, mask_text, split_credentials


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    file.write_text(CERTIFICATE)
    return file


def failure(url: str, **settings: object) -> EnvlockError:
    with quick_http(**settings) as http, pytest.raises(EnvlockError) as caught:  # type: ignore[arg-type]  # by name
        http.get(url)
    return caught.value


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_a_body_is_read_whole_and_decoded(server: Server) -> None:
    with quick_http(user_agent="envlock/9") as http:
        assert http.get(server.serve("/x", b"hello")).content == b"hello"
    assert server.asked[0].headers["user-agent"] == "envlock/9"


def test_a_stream_is_left_to_its_reader(server: Server) -> None:
    with quick_http() as http, http.get(server.serve("/x", b"hello"), stream=True) as response:
        assert response.raw.read(3) == b"hel"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_busy_servers_are_asked_again(server: Server, status: int) -> None:
    waits: list[float] = []
    with quick_http(waits=waits, first_wait=1.0) as http:
        url = server.serve("/x", Reply(status=status), Reply(status=status), b"ok")
        assert http.get(url).content == b"ok"
    first, second = waits
    assert 0.5 <= first <= 1.0
    assert 1.0 <= second <= 2.0


def test_a_server_that_stays_busy_is_given_up(server: Server) -> None:
    fault = failure(server.serve("/x", Reply(status=503)), attempts=3)
    assert isinstance(fault, MachineLacks)
    assert fault.code == "server-busy"
    assert len(server.asked) == 3


def test_a_cut_body_is_asked_for_again(server: Server) -> None:
    with quick_http() as http:
        assert http.get(server.serve("/x", Reply(body=b"12345678", cut_after=4), b"12345678")).content == b"12345678"


def test_retry_after_is_honoured_in_seconds_and_as_a_date(server: Server) -> None:
    waits: list[float] = []
    date = "Tue, 01 Dec 2099 00:00:30 GMT"
    with quick_http(waits=waits) as http:
        http._clock = lambda: 4099766400.0  # thirty seconds before that date
        server.serve(
            "/x",
            Reply(status=429, headers={"Retry-After": "7"}),
            Reply(status=503, headers={"Retry-After": date}),
            Reply(status=503, headers={"Retry-After": "nonsense"}),
            Reply(status=503, headers={"Retry-After": "\u00b2"}),  # a digit, and no number
            b"ok",
        )
        http.get(server.url("/x"))
    assert waits[:2] == [7.0, 30.0]
    assert max(waits[2:]) < 1


def test_a_server_that_asks_for_an_hour_is_not_waited_for(server: Server) -> None:
    assert failure(server.serve("/x", Reply(status=429, headers={"Retry-After": "3600"}))).code == "server-busy"
    assert len(server.asked) == 1


def test_back_off_doubles_with_jitter_up_to_a_limit() -> None:
    assert {back_off(20, 0.5) <= 15.0 for _ in range(50)} == {True}
    assert len({back_off(3, 0.5) for _ in range(50)}) > 10
    assert all(1.0 <= back_off(3, 0.5) <= 2.0 for _ in range(50))


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorised", MachineLacks),
        (403, "unauthorised", MachineLacks),
        (404, "not-found", FaultyInput),
        (410, "not-found", FaultyInput),
        (407, "proxy", MachineLacks),
        (400, "server-refuses", FaultyInput),
    ],
)
def test_other_statuses_are_told_at_once(server: Server, status: int, code: str, kind: type[EnvlockError]) -> None:
    fault = failure(server.serve("/x", Reply(status=status)))
    assert (fault.code, type(fault)) == (code, kind)
    assert str(status) in fault.message
    assert fault.hint
    assert len(server.asked) == 1


def test_allowed_statuses_come_back(server: Server) -> None:
    with quick_http() as http:
        assert http.get(server.url("/none"), allow=frozenset({404})).status_code == 404


def test_credentials_of_a_url_are_sent_remembered_and_never_shown(server: Server) -> None:
    server.auth = "alice:p@ss/w"
    server.serve("/x", b"ok")
    url = server.url("/x").replace("//", "//alice:p%40ss%2Fw@")
    with quick_http() as http:
        assert http.get(url).content == b"ok"
        assert http.get(server.url("/x")).content == b"ok"
        assert http.knows(server.url("/other"))
        with pytest.raises(FaultyInput) as caught:
            http.get(url.replace("/x", "/gone"))
    assert "p%40ss" not in caught.value.message + caught.value.hint
    wrong = failure(url.replace("p%40ss", "wr0ng"))
    assert wrong.code == "unauthorised"
    assert "refused" in wrong.hint
    assert "wr0ng" not in wrong.message
    assert "netrc" in failure(server.url("/x")).hint


@pytest.mark.parametrize("key", ["{host}", "127.0.0.1"])
def test_credentials_of_the_settings_are_sent_by_host(server: Server, key: str) -> None:
    server.auth = "bob:x"
    server.serve("/x", b"ok")
    with quick_http(credentials={key.format(host=server.host): ("bob", "x")}) as http:
        assert http.get(server.url("/x")).content == b"ok"


def test_redirects_are_followed_but_not_for_ever_nor_into_files(server: Server) -> None:
    server.serve("/a", Reply(status=301, headers={"Location": "b"}))
    server.serve("/b", b"here")
    server.serve("/loop", Reply(status=302, headers={"Location": "/loop"}))
    server.serve("/file", Reply(status=302, headers={"Location": "file:///etc/passwd"}))
    with quick_http() as http:
        response = http.get(server.url("/a"))
    assert (response.content, response.url) == (b"here", server.url("/b"))
    assert failure(server.url("/loop")).code == "bad-url"
    assert failure(server.url("/file")).code == "bad-url"


def test_a_body_beyond_the_limit_is_refused(server: Server) -> None:
    with quick_http() as http, pytest.raises(FaultyInput, match="more than 100,000 bytes") as caught:
        http.get(server.serve("/x", bytes(1_000_000)), limit=100_000)
    assert caught.value.code == "too-large"


def test_a_compressed_body_is_limited_by_what_comes_out_of_it(server: Server) -> None:
    bomb = Reply(body=gzip.compress(bytes(10_000_000)), headers={"Content-Encoding": "gzip"})
    with quick_http() as http, pytest.raises(FaultyInput) as caught:
        http.get(server.serve("/x", bomb), limit=1_000_000)
    assert caught.value.code == "too-large"


def test_offline_asks_nobody(server: Server) -> None:
    fault = failure(server.serve("/x", b"ok"), offline=True)
    assert (fault.code, server.asked) == ("offline", [])


def test_an_unknown_host_is_told_as_that() -> None:
    fault = failure("http://no-such-host.invalid/x")
    assert fault.code == "dns"
    assert "offline" in fault.hint


def test_a_closed_port_is_told_as_that() -> None:
    fault = failure(f"http://127.0.0.1:{closed_port()}/x")
    assert fault.code == "unreachable"
    assert "refused" in fault.message


def test_a_server_that_does_not_answer_is_told_as_slow(server: Server) -> None:
    started = time.monotonic()
    fault = failure(server.serve("/x", Reply(delay=1.0)), read_timeout=0.2, attempts=2)
    assert fault.code == "timeout"
    assert "in time" in fault.message
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/x", "nonsense", "http://", "http://[::1", "http://h:99999/", "http://a..b/x"]
)
def test_bad_urls_are_told_as_that(url: str) -> None:
    assert failure(url).code in {"bad-url", "dns"}


def test_a_certificate_that_is_not_trusted_is_told_with_the_way_out(certificate: Path) -> None:
    with Server(certificate=certificate) as server:
        fault = failure(server.serve("/x", b"ok"))
    assert fault.code == "tls"
    assert "self-signed" in fault.message
    assert "corporate CA" in fault.hint


def test_a_private_ca_is_trusted_when_named_by_file_or_switched_off_for_a_host(certificate: Path) -> None:
    with Server(certificate=certificate) as server:
        url = server.serve("/x", b"ok")
        with quick_http(ca_file=certificate) as http:
            assert http.get(url).content == b"ok"
        for host in ("127.0.0.1", server.host):
            with quick_http(trusted_hosts=frozenset({host})) as http:
                assert http.get(url).content == b"ok"
        assert failure(url, trusted_hosts=frozenset({"localhost"})).code == "tls"


def test_plain_http_on_a_tls_port_is_told(server: Server) -> None:
    assert failure(server.url("/x").replace("http:", "https:")).code == "tls"


def test_a_ca_bundle_that_cannot_be_read_names_who_named_it(tmp_path: Path) -> None:
    with (
        pytest.raises(FaultyInput, match=r"none\.pem named by PIP_CERT") as caught,
        quick_http(ca_file=tmp_path / "none.pem", ca_origin="PIP_CERT"),
    ):
        pass
    assert caught.value.code == "ca-bundle"


def test_a_client_certificate_is_loaded(certificate: Path, tmp_path: Path) -> None:
    with quick_http(client_cert=certificate):
        pass
    with pytest.raises(FaultyInput), quick_http(client_cert=tmp_path / "none.pem"):
        pass


def test_requests_go_through_a_proxy_but_not_for_no_proxy(server: Server) -> None:
    server.serve("http://far.invalid/x", b"through")
    server.serve("/near", b"direct")
    with quick_http(proxies={"http": server.url()}, no_proxy=("127.0.0.1",)) as http:
        assert http.get("http://far.invalid/x").content == b"through"
        assert http.get(server.url("/near")).content == b"direct"


def test_a_proxy_for_one_host_serves_that_host(server: Server) -> None:
    server.serve("http://far.invalid/x", b"through")
    with quick_http(proxies={"http://far.invalid": server.url()}) as http:
        assert http.get("http://far.invalid/x").content == b"through"
    assert failure("http://other.invalid/x", proxies={"http://far.invalid": server.url()}).code == "dns"


def test_a_proxy_that_does_not_work_is_told_without_its_password(server: Server) -> None:
    dead = f"http://user:s3cret@127.0.0.1:{closed_port()}"
    fault = failure("http://far.invalid/x", proxies={"http": dead})
    assert fault.code == "proxy"
    assert "s3cret" not in fault.message
    asks = failure("https://far.invalid/x", proxies={"https": server.url()})
    assert asks.code == "proxy"


@pytest.mark.parametrize(
    ("entry", "url", "direct"),
    [
        ("*", "http://a.example/x", True),
        ("example", "http://a.example/x", True),
        (".example", "http://a.example/x", True),
        ("*.example", "http://a.example/x", True),
        ("ample", "http://a.example/x", False),
        ("a.example:8080", "http://a.example/x", False),
        ("a.example:8080", "http://a.example:8080/x", True),
        ("10.0.0.0/8", "http://10.1.2.3/x", True),
        ("10.0.0.0/8", "http://11.1.2.3/x", False),
        ("::1", "http://[::1]:80/x", True),
        ("", "http://a.example/x", False),
    ],
)
def test_no_proxy_entries(entry: str, url: str, *, direct: bool) -> None:
    assert (proxies_for(url, {"http": "p"}, (entry,)) == {}) is direct


def test_urls_are_masked() -> None:
    assert mask("https://u:p@h/x?sig=1") == "https://***@h/x?***"
    assert mask("https://u:p@ss@h/x") == "https://***@h/x"
    assert mask_text("see http://u@h/ and 'https://h/y?t=1'") == "see http://***@h/ and 'https://h/y?***'"


def test_urls_are_taken_apart() -> None:
    assert split_credentials("https://u%40:p%3A@h:1/x") == ("https://h:1/x", ("u@", "p:"))
    assert split_credentials("https://h/x") == ("https://h/x", None)
    assert host_key("HTTPS://H.example/x") == "h.example:443"
    assert local_path("file:///a%20b") == Path("/a b")
    assert local_path("file://host/a") is None
    assert local_path("/a/b") == Path("/a/b")
    assert local_path("https://h/x") is None
    assert file_name("https://h/a/b%2Bc.whl?x#y") == "b+c.whl"
    assert file_name("https://h/a/..%2Fb.whl") == ""
