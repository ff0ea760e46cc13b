from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packaging.version import Version
from wheels_kit import TARGET, index_file

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.fetch.model import IndexFile, IndexUrl
from envlock.fetch.streams import Fetched
from envlock.lock.model import LockedWheel
from envlock.lock.wheels.catalogue import Catalogue, Ready, Routes
from envlock.lock.wheels.offers import Offer, Rules
from envlock.lock.wheels.tags import Fit
from envlock.platforms import Platform

ONE = Digest(hashlib.sha256(b"one").hexdigest())
TWO = Digest(hashlib.sha256(b"two").hexdigest())
FIRST, SECOND, TORCH = (
    IndexUrl(name=name, url=f"https://{name}.example/simple") for name in ("default", "more", "cu")
)


class Pages:
    """Indexes with fixed pages; counts what is asked."""

    def __init__(self, pages: dict[tuple[str, str], tuple[IndexFile, ...]]) -> None:
        self.pages = pages
        self.asked: Counter[tuple[str, str]] = Counter()
        self.got: list[str] = []

    def files(self, project: str, index: IndexUrl) -> tuple[IndexFile, ...]:
        self.asked[index.name, project] += 1
        return self.pages.get((index.name, project), ())

    def wheel_metadata(self, file: IndexFile) -> bytes:
        return f"metadata of {file.file}".encode()

    def whole(self, file: IndexFile) -> Fetched:
        self.got.append(file.file)
        return Fetched(path=Path("/store") / file.file, sha256=TWO, size=222)


def wheel(**more: object) -> LockedWheel:
    values: dict[str, object] = {
        "name": "tool",
        "version": "1.0",
        "file": "tool-1.0-py3-none-any.whl",
        "size": 11,
        "sha256": ONE,
        "index": "default",
        "platforms": (Platform.AMD64,),
    }
    return LockedWheel(**values | more)  # type: ignore[arg-type]  # field names


def catalogue(pages: Pages, **more: object) -> Catalogue:
    def build(name: str, offer: Offer) -> Ready:
        pages.got.append(f"built {offer.file.file}")
        return Ready(wheel(name=name, index="built"), Path("/built"), b"metadata of the built")

    values: dict[str, object] = {
        "client": pages,
        "routes": Routes(indexes=(FIRST, SECOND), alone={"torch": TORCH}),
        "rules": Rules(all_sources=True),
        "fit": Fit(TARGET),
        "direct": {},
        "build": build,
        "size_of": lambda _: None,
    }
    return Catalogue(**values | more)  # type: ignore[arg-type]  # parameter names


def test_the_first_index_that_has_a_project_has_it_alone() -> None:
    pages = Pages(
        {
            ("default", "tool"): (index_file("tool-1.0-py3-none-any.whl"),),
            ("more", "tool"): (index_file("tool-9.0-py3-none-any.whl"),),
            ("more", "other"): (index_file("other-2.0-py3-none-any.whl"),),
        }
    )
    shown = catalogue(pages)
    assert shown.versions("tool") == (Version("1.0"),)
    assert shown.versions("other") == (Version("2.0"),)
    assert shown.versions("unknown") is None
    assert pages.asked["more", "tool"] == 0


def test_a_project_on_the_first_index_that_fits_nowhere_is_not_sought_elsewhere() -> None:
    pages = Pages(
        {
            ("default", "tool"): (index_file("tool-1.0-cp27-none-win32.whl"),),
            ("more", "tool"): (index_file("tool-9.0-py3-none-any.whl"),),
        }
    )
    assert catalogue(pages).versions("tool") == ()


def test_a_project_that_the_spec_routes_comes_from_there_alone() -> None:
    pages = Pages({("default", "torch"): (index_file("torch-9.0-py3-none-any.whl"),)})
    assert catalogue(pages).versions("torch") is None
    assert pages.asked == {("cu", "torch"): 1}


def test_a_project_is_read_once_by_however_many() -> None:
    pages = Pages({("default", "tool"): (index_file("tool-1.0-py3-none-any.whl"),)})
    shown = catalogue(pages)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(shown.versions, ["tool"] * 32))
    assert pages.asked["default", "tool"] == 1
    assert [project.name for project in shown.asked] == ["tool"]


def test_a_choice_has_the_hash_and_size_of_its_index() -> None:
    pages = Pages({("default", "tool"): (index_file("tool-1.0-py3-none-any.whl", sha256=ONE, size=11),)})
    picked = catalogue(pages).pick("tool", Version("1.0"), Platform.AMD64)
    assert picked == wheel()
    assert not pages.got


def test_where_the_index_gives_no_hash_it_is_computed_once() -> None:
    pages = Pages({("default", "tool"): (index_file("tool-1.0-py3-none-any.whl"),)})
    picked = catalogue(pages).pick("tool", Version("1.0"), Platform.AMD64)
    assert (picked.sha256, picked.size, picked.hash_source) == (TWO, 222, "computed")
    known = catalogue(pages, known=[wheel(hash_source="computed")]).pick("tool", Version("1.0"), Platform.AMD64)
    assert (known.sha256, known.size, known.hash_source) == (ONE, 11, "computed")
    assert len(pages.got) == 1


def test_a_hash_is_not_believed_of_a_file_that_may_have_changed() -> None:
    local = IndexFile(file="tool-1.0-py3-none-any.whl", url="file:///wheels/tool-1.0-py3-none-any.whl")
    pages = Pages({("default", "tool"): (local,)})
    picked = catalogue(pages, known=[wheel()]).pick("tool", Version("1.0"), Platform.AMD64)
    assert picked.sha256 == TWO


def test_where_the_index_gives_no_size_it_is_asked_for_or_counted() -> None:
    pages = Pages({("default", "tool"): (index_file("tool-1.0-py3-none-any.whl", sha256=ONE),)})
    assert catalogue(pages, size_of=lambda _: 77).pick("tool", Version("1.0"), Platform.AMD64).size == 77
    assert catalogue(pages).pick("tool", Version("1.0"), Platform.AMD64).size == 222


def test_a_source_is_built_once_when_its_metadata_is_asked_for() -> None:
    pages = Pages({("default", "tool"): (index_file("tool-1.0.tar.gz"),)})
    shown = catalogue(pages)
    assert shown.versions("tool") == (Version("1.0"),)
    assert not pages.got
    assert shown.metadata("tool", Version("1.0")) == b"metadata of the built"
    assert shown.pick("tool", Version("1.0"), Platform.AMD64).index == "built"
    assert pages.got == ["built tool-1.0.tar.gz"]


def test_a_direct_wheel_is_all_there_is_of_its_project() -> None:
    pages = Pages({("default", "tool"): (index_file("tool-9.0-py3-none-any.whl"),)})
    ready = Ready(wheel(index="direct"), Path("/direct"), b"metadata of the direct one")
    shown = catalogue(pages, direct={"tool": ready})
    assert shown.versions("tool") == (Version("1.0"),)
    assert shown.metadata("tool", Version("1.0")) == b"metadata of the direct one"
    assert shown.pick("tool", Version("1.0"), Platform.AMD64) is ready.wheel
    assert not pages.asked


def test_a_version_that_was_never_offered_cannot_be_chosen() -> None:
    pages = Pages({("default", "tool"): (index_file("tool-1.0-py3-none-any.whl"),)})
    with pytest.raises(FaultyInput) as caught:
        catalogue(pages).pick("tool", Version("3.0"), Platform.AMD64)
    assert caught.value.code == "resolver-faulty"
