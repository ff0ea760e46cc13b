from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fetch_server import CERTIFICATE, Reply, Server, quick_http, wheel_bytes

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.fetch.http import Http
from envlock.fetch.model import IndexFile, IndexUrl
from envlock.fetch.pages import belongs
from envlock.fetch.simple import IndexClient
from envlock.fetch.store import Store

JSON = "application/vnd.pypi.simple.v1+json"
SHA = "a" * 64
WHEEL = "demo-1.0-py3-none-any.whl"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def http() -> Iterator[Http]:
    with quick_http() as http:
        yield http


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def index(server: Server) -> IndexUrl:
    return IndexUrl(name="default", url=server.url("/simple"))


def json_page(*files: dict[str, object], version: str = "1.1", **headers: str) -> Reply:
    body = json.dumps({"meta": {"api-version": version}, "name": "demo", "files": files}).encode()
    return Reply(body=body, headers={"Content-Type": JSON, **headers})


def html_page(text: str, kind: str = "text/html; charset=utf-8") -> Reply:
    return Reply(body=f"<!DOCTYPE html><html>{text}</html>".encode(), headers={"Content-Type": kind})


def one(url: str = WHEEL) -> dict[str, object]:
    return {"filename": WHEEL, "url": url, "hashes": {"sha256": SHA}}


def test_a_json_page(server: Server, http: Http, store: Store) -> None:
    server.serve(
        "/simple/demo-pkg/",
        json_page(
            {
                "filename": "demo_pkg-1.0-py3-none-any.whl",
                "url": "../../files/demo_pkg-1.0-py3-none-any.whl#sha256=ignored",
                "hashes": {"md5": "x", "sha256": SHA},
                "size": 123,
                "requires-python": ">=3.9",
                "yanked": "broken",
                "upload-time": "2026-01-02T03:04:05Z",
                "core-metadata": {"sha256": "b" * 64},
            },
            {
                "filename": "demo-pkg-1.0.tar.gz",
                "url": "https://files.example/x.tar.gz",
                "hashes": {},
                "yanked": True,
            },
            {"filename": "demo_pkg-2-py3-none-any.whl", "url": "a", "hashes": {}, "dist-info-metadata": True},
        ),
    )
    wheel, sdist, bare = IndexClient(http, store).files("Demo.Pkg", index(server))
    assert wheel == IndexFile(
        file="demo_pkg-1.0-py3-none-any.whl",
        url=server.url("/files/demo_pkg-1.0-py3-none-any.whl"),
        sha256=Digest(SHA),
        size=123,
        requires_python=">=3.9",
        yanked="broken",
        upload_time="2026-01-02T03:04:05Z",
        metadata_sha256=Digest("b" * 64),
        has_metadata=True,
    )
    assert (sdist.yanked, sdist.sha256, sdist.url) == ("", None, "https://files.example/x.tar.gz")
    assert (bare.has_metadata, bare.metadata_sha256, bare.yanked) == (True, None, None)
    assert server.asked[0].headers["accept"].startswith(JSON)


def test_an_html_page(server: Server, http: Http, store: Store) -> None:
    server.serve(
        "/simple/demo/",
        html_page(
            f"""<head><meta name="pypi:repository-version" content="1.3"><base href="/files/"></head>
            <a href="{WHEEL}#sha256={SHA}" data-requires-python="&gt;=3.9,&lt;4"
                data-core-metadata="sha256={"b" * 64}">x</a>
            <A HREF="demo-2.0+cu128-py3-none-any.whl#md5=1" data-yanked data-dist-info-metadata="true">y</A>
            <a href="demo-3.0%2Bcpu-py3-none-any.whl" data-yanked="bad&amp;worse" data-core-metadata="false">z</a>
            <a>no link</a> <a href="../">up</a>"""
        ),
    )
    one, two, three = IndexClient(http, store).files("demo", index(server))
    assert one.url == server.url(f"/files/{WHEEL}")
    assert (one.sha256, one.requires_python, one.metadata_sha256) == (Digest(SHA), ">=3.9,<4", Digest("b" * 64))
    assert (two.file, two.yanked, two.sha256) == ("demo-2.0+cu128-py3-none-any.whl", "", None)
    assert (two.has_metadata, two.metadata_sha256) == (True, None)
    assert (three.file, three.yanked, three.has_metadata) == ("demo-3.0+cpu-py3-none-any.whl", "bad&worse", False)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/demo-1.0-py3-none-any.whl",
        "ftp://x.example/demo-1.0-py3-none-any.whl",
        "data:text/plain,demo-1.0-py3-none-any.whl",
        "http://[::1/demo-1.0-py3-none-any.whl",
        "http://h:99999/demo-1.0-py3-none-any.whl",
    ],
)
def test_links_that_must_not_be_followed_are_not_there(server: Server, http: Http, store: Store, url: str) -> None:
    server.serve("/simple/demo/", json_page(one(url)), html_page(f'<a href="{url}">x</a>'))
    assert IndexClient(http, store).files("demo", index(server)) == ()
    assert IndexClient(http, store).files("demo", index(server), fresh=True) == ()


@pytest.mark.parametrize(
    "name",
    [
        "../demo-1.0-py3-none-any.whl",
        "demo\\x-1.0.whl",
        "/demo-1.0.whl",
        "demo-1.0.exe",
        "demo-\n1.whl",
        f"demo-{9:05000}-py3-none-any.whl",
        7,
        None,
    ],
)
def test_names_that_are_not_plain_are_not_there(server: Server, http: Http, store: Store, name: object) -> None:
    server.serve("/simple/demo/", json_page(one() | {"filename": name}))
    assert IndexClient(http, store).files("demo", index(server)) == ()


def test_an_encoded_slash_in_a_link_is_not_followed(server: Server, http: Http, store: Store) -> None:
    server.serve("/simple/demo/", html_page('<a href="..%2f..%2fdemo-1.0-py3-none-any.whl">x</a>'))
    assert IndexClient(http, store).files("demo", index(server)) == ()


def test_files_of_other_projects_are_not_there(server: Server, http: Http, store: Store) -> None:
    server.serve("/simple/demo/", json_page(one(), one() | {"filename": "other-1.0-py3-none-any.whl"}))
    assert [file.file for file in IndexClient(http, store).files("demo", index(server))] == [WHEEL]


def test_wrongly_typed_values_count_as_not_given(server: Server, http: Http, store: Store) -> None:
    odd = one() | {
        "hashes": ["x"],
        "size": -1,
        "requires-python": 3,
        "upload-time": 4,
        "yanked": None,
        "core-metadata": 5,
    }
    worse = one() | {"hashes": {"sha256": "zz"}, "size": True, "core-metadata": {"sha256": 9}}
    server.serve("/simple/demo/", json_page(odd, worse, "not a file", {"filename": WHEEL}))  # type: ignore[arg-type]
    first, second = IndexClient(http, store).files("demo", index(server))
    assert first == IndexFile(file=WHEEL, url=server.url(f"/simple/demo/{WHEEL}"))
    assert (second.sha256, second.size, second.has_metadata) == (None, None, True)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(body=b"{", headers={"Content-Type": JSON}), "not JSON"),
        (Reply(body=b"[]", headers={"Content-Type": JSON}), "no list of files"),
        (Reply(body=b"[" * 200_000, headers={"Content-Type": JSON}), "not JSON"),
        (json_page(version="2.0"), "API version"),
        (Reply(body=b"PK", headers={"Content-Type": "application/zip"}), "content type"),
        (Reply(body=b"PK"), "content type"),
        (html_page('<meta name="pypi:repository-version" content="2.0">'), "repository version"),
        (html_page('<base href="file:///etc/">'), "base"),
    ],
)
def test_what_is_no_index_page_is_told(server: Server, http: Http, store: Store, reply: Reply, why: str) -> None:
    server.serve("/simple/demo/", reply)
    with pytest.raises(FaultyInput, match=why) as caught:
        IndexClient(http, store).files("demo", index(server))
    assert caught.value.code == "index-page-faulty"
    assert server.host in caught.value.message


def test_an_unknown_project_has_no_files(server: Server, http: Http, store: Store) -> None:
    assert IndexClient(http, store).files("demo", index(server)) == ()


def test_a_bucket_that_answers_403_does_not_know_the_project_unless_credentials_were_sent(
    server: Server, store: Store
) -> None:
    server.serve("/simple/demo/", Reply(status=403))
    with quick_http() as http:
        assert IndexClient(http, store).files("demo", index(server)) == ()
    secret = IndexUrl(name="x", url=server.url("/simple").replace("//", "//u:p@"))
    with quick_http() as http, pytest.raises(MachineLacks) as caught:
        IndexClient(http, store).files("demo", secret, fresh=True)
    assert caught.value.code == "unauthorised"


def test_credentials_of_an_index_serve_its_files_and_stay_out_of_their_urls(server: Server, store: Store) -> None:
    server.auth = "u:p"
    server.serve("/simple/demo/", json_page(one()))
    with quick_http() as http:
        place = IndexUrl(name="x", url=server.url("/simple/").replace("//", "//u:p@", 1))
        (file,) = IndexClient(http, store).files("demo", place)
    assert "u:p" not in file.url + repr(place) + str(place)
    assert not any(b"u:p" in path.read_bytes() for path in store.root.rglob("*") if path.is_file())
    with quick_http() as http:  # another run, which has the page already, can still get the file
        client = IndexClient(http, store)
        client.files("demo", place)
        assert http.knows(file.url)


def test_a_page_is_believed_for_a_while_then_asked_for_with_its_etag(
    server: Server, http: Http, store: Store
) -> None:
    clock = Clock()
    headers = {"ETag": '"1"', "Last-Modified": "Tue, 01 Dec 2026 00:00:00 GMT"}
    server.serve("/simple/demo/", json_page(one(), **headers), Reply(status=304), json_page(ETag='"2"'))

    def ask() -> int:
        return len(IndexClient(http, store, clock=clock).files("demo", index(server)))

    assert (ask(), ask(), len(server.asked)) == (1, 1, 1)
    clock.now += 601
    assert (ask(), ask(), len(server.asked)) == (1, 1, 2)
    assert server.asked[1].headers["if-none-match"] == '"1"'
    assert server.asked[1].headers["if-modified-since"] == headers["Last-Modified"]
    clock.now += 601
    assert (ask(), len(server.asked)) == (0, 3)


@pytest.mark.parametrize(
    ("control", "good_for"), [("max-age=60", 60), ("no-cache", 0), ("max-age=99999", 600), ("", 600)]
)
def test_the_server_says_how_long_a_page_is_good(
    server: Server, http: Http, store: Store, control: str, good_for: int
) -> None:
    clock = Clock()
    page = json_page(one(), **({"Cache-Control": control} if control else {}))
    server.serve("/simple/demo/", page)
    IndexClient(http, store, clock=clock).files("demo", index(server))
    clock.now += good_for - 1
    IndexClient(http, store, clock=clock).files("demo", index(server))
    assert len(server.asked) == (1 if good_for else 2)
    clock.now += 2
    IndexClient(http, store, clock=clock).files("demo", index(server))
    assert len(server.asked) == (2 if good_for else 3)


def test_one_client_reads_a_page_once_and_fresh_asks_anew_once(server: Server, http: Http, store: Store) -> None:
    server.serve("/simple/demo/", json_page(one(), **{"Cache-Control": "no-cache"}))
    IndexClient(http, store).files("demo", index(server))
    client = IndexClient(http, store)
    for _ in range(3):
        client.files("demo", index(server), fresh=True)
    assert len(server.asked) == 2


def test_a_kept_page_serves_offline_whatever_its_age(server: Server, http: Http, store: Store) -> None:
    clock = Clock()
    server.serve("/simple/demo/", json_page(one()))
    IndexClient(http, store, clock=clock).files("demo", index(server))
    clock.now += 1e9
    with quick_http(offline=True) as offline:
        client = IndexClient(offline, store, clock=clock)
        assert len(client.files("demo", index(server), fresh=True)) == 1
        with pytest.raises(MachineLacks) as caught:
            client.files("other", index(server))
    assert caught.value.code == "offline"


def test_a_damaged_entry_of_the_cache_is_as_good_as_none(server: Server, http: Http, store: Store) -> None:
    server.serve("/simple/demo/", json_page(one()))
    IndexClient(http, store).files("demo", index(server))
    (entry,) = (store.root / "index" / "pages").rglob("*.json")
    for damage in (b"", b"{}", b"[]", b'{"format":1,"url":1}', entry.read_bytes()[:-9]):
        entry.write_bytes(damage)
        assert len(IndexClient(http, store).files("demo", index(server))) == 1


def test_an_index_that_leads_from_https_to_http_is_refused(server: Server, store: Store, tmp_path: Path) -> None:
    certificate = tmp_path / "ca.pem"
    certificate.write_text(CERTIFICATE)
    plain = server.serve("/simple/demo/", json_page(one()))
    with Server(certificate=certificate) as safe, quick_http(ca_file=certificate) as http:
        safe.serve("/simple/demo/", Reply(status=302, headers={"Location": plain}))
        with pytest.raises(FaultyInput) as caught:
            IndexClient(http, store).files("demo", index(safe))
    assert caught.value.code == "index-downgraded"


def test_a_page_of_links(server: Server, http: Http, store: Store) -> None:
    links = "".join(f'<a href="w/{name}-1.0-py3-none-any.whl">x</a>' for name in ("demo", "other"))
    url = server.serve("/links.html", html_page(links))
    place = IndexUrl(name="default", url=url, links=True)
    client = IndexClient(http, store)
    assert [file.url for file in client.files("demo", place)] == [server.url("/w/demo-1.0-py3-none-any.whl")]
    assert len(client.files("other", place)) == 1
    assert client.files("third", place) == ()
    assert len(server.asked) == 1


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("as_url", [True, False])
def test_a_folder_of_files(tmp_path: Path, http: Http, store: Store, *, links: bool, as_url: bool) -> None:
    folder = tmp_path / "my wheels"
    (folder / "demo-9.0-py3-none-any.whl").mkdir(parents=True)
    for name in (WHEEL, "demo-1.0.tar.gz", "demo_more-1.0-py3-none-any.whl", "notes.txt"):
        (folder / name).write_bytes(b"12345")
    place = IndexUrl(name="local", url=folder.as_uri() if as_url else str(folder), links=links)
    wheel, sdist = IndexClient(http, store).files("demo", place)
    assert (wheel.file, wheel.size, wheel.sha256) == (WHEEL, 5, None)
    assert wheel.url == (folder / WHEEL).as_uri()
    assert sdist.file == "demo-1.0.tar.gz"


def test_a_tree_of_folders_on_disk(tmp_path: Path, http: Http, store: Store) -> None:
    with_page, without = tmp_path / "simple" / "demo", tmp_path / "simple" / "other"
    with_page.mkdir(parents=True)
    without.mkdir()
    (with_page / "index.html").write_text(
        f'<a href="../../files/{WHEEL}#sha256={SHA}">x</a><a href="https://far.example/demo-2.0-py3-none-any.whl">y</a>'
    )
    (without / "other-1.0-py3-none-any.whl").touch()
    place = IndexUrl(name="default", url=(tmp_path / "simple").as_uri())
    client = IndexClient(http, store)
    near, far = client.files("demo", place)
    assert near.url == (tmp_path / "files" / WHEEL).as_uri()
    assert near.sha256 == Digest(SHA)
    assert far.url == "https://far.example/demo-2.0-py3-none-any.whl"
    assert [file.file for file in client.files("other", place)] == ["other-1.0-py3-none-any.whl"]
    assert client.files("third", place) == ()


def test_a_folder_that_is_missing_is_an_error_for_an_index_and_a_word_for_find_links(
    tmp_path: Path, http: Http, store: Store
) -> None:
    said: list[str] = []
    client = IndexClient(http, store, say=said.append)
    place = IndexUrl(name="default", url=str(tmp_path / "none"), links=True)
    assert (client.files("demo", place), client.files("other", place)) == ((), ())
    assert len(said) == 1
    with pytest.raises(FaultyInput) as caught:
        client.files("demo", IndexUrl(name="mine", url=str(tmp_path / "none")))
    assert caught.value.code == "index-missing"


def test_which_names_belong_to_a_project() -> None:
    assert belongs("Foo_Bar-1.0-py3-none-any.whl", "foo-bar")
    assert belongs("foo-bar-1.0.tar.gz", "foo-bar")
    assert belongs("foo.bar-1.0-2.zip", "foo-bar")
    assert not belongs("foo_bar_more-1.0-py3-none-any.whl", "foo-bar")
    assert not belongs("foobar.tar.gz", "foobar")
    assert not belongs("foo-bar-1.0.egg", "foo-bar")


def served_wheel(server: Server, body: bytes, *, replies: tuple[Reply, ...] = (), **more: object) -> IndexFile:
    url = server.serve(f"/{WHEEL}", *(replies or (Reply(body=body),)))
    return IndexFile(file=WHEEL, url=url, **{"sha256": Digest.of(body), "size": len(body), **more})  # type: ignore[arg-type]


def test_metadata_that_the_index_serves_is_verified_and_kept(server: Server, http: Http, store: Store) -> None:
    text = b"Name: demo\n"
    server.serve(f"/{WHEEL}.metadata", text)
    file = served_wheel(server, b"", has_metadata=True, metadata_sha256=Digest.of(text))
    client = IndexClient(http, store)
    assert client.metadata(file) == client.metadata(file) == client.wheel_metadata(file) == text
    assert len(server.asked) == 1
    wrong = served_wheel(server, b"", has_metadata=True, metadata_sha256=Digest(SHA))
    with pytest.raises(FaultyInput, match=r"the metadata of demo.*expected sha256:aaa") as caught:
        client.metadata(wrong)
    assert caught.value.code == "hash-mismatch"


def test_metadata_that_is_not_served_is_none(server: Server, http: Http, store: Store) -> None:
    client = IndexClient(http, store)
    assert client.metadata(served_wheel(server, b"")) is None
    assert server.asked == []
    assert client.metadata(served_wheel(server, b"", has_metadata=True)) is None


def test_metadata_is_read_out_of_a_big_wheel_by_a_range(server: Server, http: Http, store: Store) -> None:
    body = wheel_bytes(ballast=5_000_000)
    file = served_wheel(server, body)
    client = IndexClient(http, store)
    assert client.wheel_metadata(file).startswith(b"Metadata-Version: 2.1\nName: demo\n")
    assert server.ranges(f"/{WHEEL}") == [f"bytes={len(body) - 131072}-{len(body) - 1}"]
    assert IndexClient(http, store).wheel_metadata(file) == client.wheel_metadata(file)
    assert len(server.asked) == 1
    assert store.find(Digest.of(body)) is None


def test_a_big_wheel_of_unknown_size_is_read_from_its_end(server: Server, http: Http, store: Store) -> None:
    file = served_wheel(server, wheel_bytes(ballast=2_000_000), size=None)
    assert b"Name: demo" in IndexClient(http, store).wheel_metadata(file)
    assert server.ranges(f"/{WHEEL}") == ["bytes=-131072"]


@pytest.mark.parametrize(
    "broken",
    [{"ranges": False}, {"lie_range": "bytes 0-9/10"}, {"lie_range": "nonsense"}],
    ids=["none", "other", "odd"],
)
def test_without_ranges_the_wheel_is_got_whole_and_kept(
    server: Server, http: Http, store: Store, broken: dict[str, object]
) -> None:
    body = wheel_bytes(ballast=2_000_000)
    reply = Reply(body=body, **broken)  # type: ignore[arg-type]  # by name
    file = served_wheel(server, body, replies=(reply, Reply(body=body)))
    said: list[str] = []
    assert b"Name: demo" in IndexClient(http, store, say=said.append).wheel_metadata(file)
    assert server.ranges(f"/{WHEEL}")[-1] == ""
    assert store.find(Digest.of(body)) is not None
    assert "serves no ranges" in said[0]


def test_a_small_wheel_is_got_whole_at_once(server: Server, http: Http, store: Store) -> None:
    body = wheel_bytes()
    assert b"Name: demo" in IndexClient(http, store).wheel_metadata(served_wheel(server, body))
    assert server.ranges(f"/{WHEEL}") == [""]
    assert store.find(Digest.of(body)) is not None


def test_metadata_of_a_wheel_in_the_store_or_on_disk_needs_no_network(tmp_path: Path, store: Store) -> None:
    body = wheel_bytes(ballast=2_000_000)
    store.put(body)
    local = tmp_path / WHEEL
    local.write_bytes(body)
    with quick_http(offline=True) as http:
        client = IndexClient(http, store)
        kept = IndexFile(file=WHEEL, url="https://far.example/x", sha256=Digest.of(body), size=len(body))
        assert b"Name: demo" in client.wheel_metadata(kept)
        assert b"Name: demo" in client.wheel_metadata(IndexFile(file=WHEEL, url=local.as_uri()))


def test_a_wheel_may_carry_another_ones_metadata_along(server: Server, http: Http, store: Store) -> None:
    buffer = io.BytesIO(wheel_bytes())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("vendored-2.0.dist-info/METADATA", "Name: vendored\n")
    assert b"Name: demo" in IndexClient(http, store).wheel_metadata(served_wheel(server, buffer.getvalue()))


def damaged_wheel() -> bytes:
    data = wheel_bytes()
    start = data.index(b"/METADATA") + len(b"/METADATA")
    return data[:start] + b"\xff" + data[start + 1 :]


@pytest.mark.parametrize("body", [b"no zip at all", b"PK\x05\x06" + bytes(18), wheel_bytes()[:-30], damaged_wheel()])
def test_a_wheel_that_is_none_is_told(server: Server, http: Http, store: Store, body: bytes) -> None:
    with pytest.raises(FaultyInput, match="not a sound wheel") as caught:
        IndexClient(http, store).wheel_metadata(served_wheel(server, body))
    assert caught.value.code == "wheel-faulty"


def test_a_file_without_a_hash_is_got_once_and_its_digest_remembered(
    server: Server, http: Http, store: Store
) -> None:
    body = wheel_bytes()
    file = served_wheel(server, body, sha256=None, size=None)
    first = IndexClient(http, store).whole(file)
    assert (first.sha256, first.size, first.path.read_bytes()) == (Digest.of(body), len(body), body)
    assert IndexClient(http, store).whole(file) == first
    assert len(server.asked) == 1
    first.path.unlink()
    assert IndexClient(http, store).whole(file) == first
    assert len(server.asked) == 2


def test_a_whole_file_is_checked_and_a_cut_is_got_over(server: Server, http: Http, store: Store) -> None:
    body = wheel_bytes(ballast=300_000)
    cut = Reply(body=body, cut_after=100_000)
    good = served_wheel(server, body, replies=(cut, Reply(body=body)))
    assert IndexClient(http, store).whole(good).size == len(body)
    wrong = served_wheel(server, body, sha256=Digest(SHA))
    with pytest.raises(FaultyInput) as caught:
        IndexClient(http, store).whole(wrong)
    assert caught.value.code == "hash-mismatch"
    assert store.find(Digest(SHA)) is None


def test_a_local_file_is_hashed_where_it_lies(tmp_path: Path, http: Http, store: Store) -> None:
    path = tmp_path / WHEEL
    path.write_bytes(wheel_bytes())
    whole = IndexClient(http, store).whole(IndexFile(file=WHEEL, url=path.as_uri()))
    assert (whole.path, whole.sha256) == (path, Digest.of_file(path))
    with pytest.raises(EnvlockError):
        IndexClient(http, store).whole(IndexFile(file=WHEEL, url=path.as_uri(), sha256=Digest(SHA)))


def test_a_store_that_cannot_be_written_to_keeps_no_page_but_gives_it(
    server: Server, http: Http, tmp_path: Path
) -> None:
    class ReadOnly(Store):
        def _sync(self, descriptor: int) -> None:
            raise PermissionError(13, os.strerror(13), descriptor)

    server.serve("/simple/demo/", json_page(one()))
    assert len(IndexClient(http, ReadOnly(tmp_path)).files("demo", index(server))) == 1
