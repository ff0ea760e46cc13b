from __future__ import annotations

import io
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence

import pytest
from packaging.version import Version

from envlock.lock.wheels.local_index import LocalIndex


class Shelf:
    """Two projects, one of which breaks."""

    def versions(self, name: str) -> Sequence[Version] | None:
        if name == "broken":
            raise RuntimeError("the mirror is on fire")
        return {"my-tool": (Version("1.0"), Version("2.0+cu128")), "empty": ()}.get(name)

    def metadata(self, name: str, version: Version) -> bytes:
        return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()


def get(url: str, accept: str = "application/vnd.pypi.simple.v1+json") -> tuple[str, bytes]:
    assert url.startswith("http://127.0.0.1:")
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 (seen just above)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as response:
        return response.headers["Content-Type"], response.read()


def test_a_page_lists_one_wheel_for_each_version_that_fits_everywhere() -> None:
    with LocalIndex(Shelf()) as index:
        kind, page = get(f"{index.url}my-tool/")
        assert kind == "application/vnd.pypi.simple.v1+json"
        assert b"my_tool-1.0-py3-none-any.whl" in page
        assert b"my_tool-2.0+cu128-py3-none-any.whl" in page
        assert page.count(b'"core-metadata": true') == 2
        assert get(f"{index.url}My_Tool/")[1] == page


def test_a_page_is_had_as_html_too() -> None:
    with LocalIndex(Shelf()) as index:
        kind, page = get(f"{index.url}my-tool/", "text/html")
        assert kind.startswith("text/html")
        assert b"my_tool-1.0-py3-none-any.whl" in page
        assert b"data-core-metadata" in page


def test_metadata_is_served_beside_the_wheel_and_within_it() -> None:
    with LocalIndex(Shelf()) as index:
        place = index.url.removesuffix("simple/") + "files/my-tool/1.0/my_tool-1.0-py3-none-any.whl"
        _, metadata = get(f"{place}.metadata")
        assert metadata.startswith(b"Metadata-Version: 2.1\nName: my-tool")
        with zipfile.ZipFile(io.BytesIO(get(place)[1])) as archive:
            assert archive.read("my_tool-1.0.dist-info/METADATA") == metadata


@pytest.mark.parametrize(
    "path", ["simple/unknown/", "simple/", "files/my-tool/3.0/x.whl", "files/my-tool/one/x.whl", "elsewhere"]
)
def test_what_is_not_there_is_not_found(path: str) -> None:
    with LocalIndex(Shelf()) as index:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(index.url.removesuffix("simple/") + path)
        assert index.fault is None


def test_an_empty_project_has_an_empty_page() -> None:
    with LocalIndex(Shelf()) as index:
        assert b'"files": []' in get(f"{index.url}empty/")[1]


def test_nobody_gets_in_without_the_word() -> None:
    with LocalIndex(Shelf()) as index, pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"http://127.0.0.1:{index.url.split(':')[2].partition('/')[0]}/simple/my-tool/")


def test_what_breaks_is_kept_for_the_caller() -> None:
    with LocalIndex(Shelf()) as index:
        with pytest.raises(urllib.error.HTTPError, match="502"):
            get(f"{index.url}broken/")
        assert index.failed.is_set()
        assert str(index.fault) == "the mirror is on fire"


def test_each_project_is_noticed_once() -> None:
    noticed: list[str] = []
    with LocalIndex(Shelf(), noticed=noticed.append) as index:
        for _ in range(2):
            get(f"{index.url}my-tool/")
    assert noticed == ["my-tool"]


def test_it_is_gone_when_it_is_closed() -> None:
    with LocalIndex(Shelf()) as index:
        url = index.url
    with pytest.raises(urllib.error.URLError):
        get(f"{url}my-tool/")
