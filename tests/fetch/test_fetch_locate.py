from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fetch_server import Reply, Server, quick_http, wheel_bytes

from envlock.digest import Digest
from envlock.errors import MachineLacks
from envlock.fetch.download import Downloader, Want
from envlock.fetch.http import Http
from envlock.fetch.http_settings import read_http_settings
from envlock.fetch.locate import wheel_urls
from envlock.fetch.model import IndexUrl
from envlock.fetch.simple import IndexClient
from envlock.fetch.sources import read_index_settings
from envlock.fetch.store import Store

WHEEL = "demo-1.0-py3-none-any.whl"
BODY = wheel_bytes()
DIGEST = Digest.of(BODY)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[IndexClient]:
    with quick_http() as http:
        yield IndexClient(http, Store(tmp_path / "store"))


def has(server: Server, index: str, *, sha256: str | None = DIGEST.hex, file: str = WHEEL) -> IndexUrl:
    hashes = {"sha256": sha256} if sha256 else {}
    page = {"meta": {"api-version": "1.0"}, "files": [{"filename": file, "url": file, "hashes": hashes}]}
    headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    server.serve(f"/{index}/demo/", Reply(body=json.dumps(page).encode(), headers=headers))
    return IndexUrl(name=index, url=server.url(f"/{index}"))


def test_the_locks_index_is_asked_first(server: Server, client: IndexClient) -> None:
    indexes = [has(server, "default"), has(server, "torch", sha256=None), IndexUrl(name="x", url=server.url("/x"))]
    urls = list(wheel_urls(WHEEL, "demo", indexes, client, sha256=DIGEST, index="torch"))
    assert urls == [server.url(f"/torch/demo/{WHEEL}"), server.url(f"/default/demo/{WHEEL}")]


def test_a_page_that_states_another_hash_is_passed_over_and_told(server: Server, client: IndexClient) -> None:
    said: list[str] = []
    indexes = [has(server, "bad", sha256="f" * 64), has(server, "good")]
    urls = list(wheel_urls(WHEEL, "demo", indexes, client, sha256=DIGEST, say=said.append))
    assert urls == [server.url(f"/good/demo/{WHEEL}")]
    assert "states sha256:fff" in said[0]


def test_a_kept_page_that_lacks_the_file_is_asked_for_anew(server: Server, tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = has(server, "default", file="demo-0.9-py3-none-any.whl")
    with quick_http() as http:
        assert list(wheel_urls(WHEEL, "demo", [old], IndexClient(http, store))) == []
        assert len(server.asked) == 1
        has(server, "default")
        assert len(list(wheel_urls(WHEEL, "demo", [old], IndexClient(http, store)))) == 1
        assert len(server.asked) == 2


def test_an_index_that_fails_matters_only_if_no_other_has_the_file(server: Server, client: IndexClient) -> None:
    said: list[str] = []
    server.serve("/down/demo/", Reply(status=503))
    down = IndexUrl(name="down", url=server.url("/down"))
    assert len(list(wheel_urls(WHEEL, "demo", [down, has(server, "good")], client, say=said.append))) == 1
    assert "503" in said[0]
    with pytest.raises(MachineLacks) as caught:
        list(wheel_urls(WHEEL, "demo", [down], client))
    assert caught.value.code == "server-busy"


def test_a_locked_wheel_from_index_to_store(server: Server, client: IndexClient, tmp_path: Path) -> None:
    indexes = [has(server, "default")]
    server.serve(f"/default/demo/{WHEEL}", BODY)
    store = Store(tmp_path / "store")
    want = Want(
        label=WHEEL,
        sha256=DIGEST,
        size=len(BODY),
        urls=lambda: wheel_urls(WHEEL, "demo", indexes, client, sha256=DIGEST),
    )
    Downloader(store, client.http).fetch([want])
    assert store.find(DIGEST, len(BODY)) is not None


@pytest.mark.index
def test_a_real_wheel_through_the_users_own_configuration(tmp_path: Path) -> None:
    settings = read_index_settings(os.environ, Path.home(), prefix=Path(sys.prefix))
    store = Store(tmp_path)
    with Http(read_http_settings(os.environ, Path.home(), indexes=settings)) as http:
        client = IndexClient(http, store)
        place = next(place for place in settings.places if client.files("iniconfig", place))
        file = next(
            file for file in client.files("iniconfig", place) if file.file == "iniconfig-2.0.0-py3-none-any.whl"
        )
        assert file.requires_python == ">=3.7"
        assert b"Name: iniconfig" in client.wheel_metadata(file)
        whole = client.whole(file)
        assert file.sha256 in {None, whole.sha256}
        want = Want(
            label=file.file,
            sha256=whole.sha256,
            size=whole.size,
            urls=lambda: wheel_urls(file.file, "iniconfig", settings.places, client, sha256=whole.sha256),
        )
        other = Store(tmp_path / "other")
        report = Downloader(other, http).fetch([want])
    assert report.bytes_fetched == whole.size
    assert other.find(whole.sha256, whole.size) is not None
