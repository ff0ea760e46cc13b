from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from debs_in_code import Item, Package, deb_of

from envlock.image.layers.debian import stdlib_bytecode_entries
from envlock.image.layers.entries import File

MINIMAL = Package(name="python3.13-minimal")
LIBRARY = Package(
    name="libpython3.13-stdlib",
    items=[
        Item(path="./usr/lib/python3.13/os.py", body=b"os"),
        Item(path="./usr/lib/python3.13/json/__init__.py", body=b"json"),
        Item(path="./usr/lib/python3.13/bad.py", body=b"bad"),
        Item(path="./usr/lib/python3.13/data.txt", body=b"data"),
        Item(path="./usr/share/doc/x/example.py", body=b"example"),
    ],
)


class Echo:
    """Stands in for the compiler: bytecode is the path and the source; what is `bad` does not compile."""

    def compile(self, sources: Sequence[tuple[str, bytes]]) -> list[bytes | None]:
        return [None if source == b"bad" else path.encode() + b"=" + source for path, source in sources]


@pytest.mark.parametrize("md5sums", [True, False])
def test_each_source_gets_its_bytecode_beside_it(tmp_path: Path, *, md5sums: bool) -> None:
    library = Package(name=LIBRARY.name, items=LIBRARY.items, md5sums=md5sums)
    debs = [deb_of(tmp_path, package) for package in (MINIMAL, library)]
    entries = list(stdlib_bytecode_entries(debs, Echo()))
    assert [(entry.path, entry.body) for entry in entries if isinstance(entry, File)] == [
        (
            "usr/lib/python3.13/__pycache__/os.cpython-313.pyc",
            b"/usr/lib/python3.13/os.py=os",
        ),
        (
            "usr/lib/python3.13/json/__pycache__/__init__.cpython-313.pyc",
            b"/usr/lib/python3.13/json/__init__.py=json",
        ),
    ]
    assert [entry.path for entry in entries][:3] == ["usr", "usr/lib", "usr/lib/python3.13"]


def test_a_base_without_python_has_none(tmp_path: Path) -> None:
    assert list(stdlib_bytecode_entries([deb_of(tmp_path, Package())], Echo())) == []


def test_links_have_bytecode_too_unless_they_lead_to_what_may_be_edited(tmp_path: Path) -> None:
    library = Package(
        items=[
            Item(path="./etc/python3.13/sitecustomize.py", body=b"site"),
            Item(path="./usr/lib/python3.13/sitecustomize.py", symlink="/etc/python3.13/sitecustomize.py"),
            Item(path="./usr/lib/python3.13/one.py", body=b"one"),
            Item(path="./usr/lib/python3.13/two.py", symlink="one.py"),
            Item(path="./usr/lib/python3.13/sub/three.py", symlink="/usr/lib/python3.13/one.py"),
        ]
    )
    debs = [deb_of(tmp_path, package) for package in (MINIMAL, library)]
    assert [entry.body for entry in stdlib_bytecode_entries(debs, Echo()) if isinstance(entry, File)] == [
        b"/usr/lib/python3.13/one.py=one",
        b"/usr/lib/python3.13/two.py=one",
        b"/usr/lib/python3.13/sub/three.py=one",
    ]
