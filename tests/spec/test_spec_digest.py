"""What makes a lock stale, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from specs import SMALLEST, spec_of, touch_wheel

from envlock.digest import Digest

WHEEL = "ours-1.0-py3-none-any.whl"
TEXT = """\
[env]
name = "small"
[python]
requirements = ["numpy>=2,<3", "./wheels/ours-1.0-py3-none-any.whl", "-r more.txt"]
constraints = ["a<1", "b<1"]
[[index]]
name = "extra"
url = "wheels"
packages = ["x", "y"]
[base]
packages = ["git", "tmux"]
"""


def digest(folder: Path, text: str = TEXT, *, wheel: bytes = b"wheel", more: str = "click\n") -> Digest:
    touch_wheel(folder / "wheels", WHEEL, wheel)
    (folder / "more.txt").write_text(more)
    return spec_of(folder, text).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "small"', "# a comment\nname   =   'small'"),
        ('packages = ["git", "tmux"]', 'packages = ["tmux", "git"]'),
        ('packages = ["git", "tmux"]', 'mirror = "http://mirror.example"\npackages = ["git", "tmux"]'),
        ('packages = ["x", "y"]', 'packages = ["Y", "x"]'),
        ('["a<1", "b<1"]', '["b<1", "a<1"]'),
        ("numpy>=2,<3", "NumPy <3, >=2"),
        ('name = "small"', 'name = "small"\npython = "3.13"\nplatforms = ["linux/amd64"]'),
        ('url = "wheels"', 'url = "./wheels/"'),
        ("[base]", '[image]\nprefix = "/env"\n[[data]]\npath = "/data"\nkind = "cache"\npurpose = "x"\n[base]'),
        ("[base]", '[[source]]\nname = "x"\nkind = "model"\n[base]'),
        ('"-r more.txt"', '"click"'),
    ],
)
def test_the_digest_stays_the_same(tmp_path: Path, old: str, new: str) -> None:
    assert old in TEXT
    assert digest(tmp_path, TEXT.replace(old, new)) == digest(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "small"', 'name = "other"'),
        ("numpy>=2,<3", "numpy>=2"),
        ('"b<1"', '"b<2"'),
        ('name = "extra"', 'name = "other"'),
        ('url = "wheels"', 'url = "https://wheels.example"'),
        ('packages = ["x", "y"]', 'packages = ["x"]'),
        ('"tmux"', '"screen"'),
        ("[base]", '[base]\ndebian = "bookworm"'),
        ("[base]", '[target]\ndriver = ">=535"\n[base]'),
        ("[base]", '[target]\ngpus = ["T4"]\n[base]'),
        ("[base]", '[target]\ncuda = "cpu"\n[base]'),
        ("[base]", "[access]\nssh = true\n[base]"),
        ("constraints", 'resolver = "pip-tools"\nconstraints'),
        ("constraints", 'allow-sdist = "pure"\nconstraints'),
        ("constraints", "exclude-newer = 2026-11-30\nconstraints"),
        ('name = "small"', 'name = "small"\nplatforms = ["linux/arm64"]'),
    ],
)
def test_the_digest_changes(tmp_path: Path, old: str, new: str) -> None:
    assert old in TEXT
    assert digest(tmp_path, TEXT.replace(old, new)) != digest(tmp_path)


def test_contents_of_named_files_count(tmp_path: Path) -> None:
    before = digest(tmp_path)
    assert digest(tmp_path, wheel=b"another") != before
    assert digest(tmp_path, more="click<9\n") != before
    assert digest(tmp_path, more="# more\n\nclick # ok\n") == before


def test_the_place_of_the_folder_does_not_count(tmp_path: Path) -> None:
    assert digest(tmp_path / "one") == digest(tmp_path / "far" / "away")


def test_the_canonical_form_is_the_same_as_ever(tmp_path: Path) -> None:
    """A change here makes every lock out there stale: then raise the form's version."""
    assert str(spec_of(tmp_path, SMALLEST).digest) == (
        "sha256:22347c21d92b560b060f6cca915cbd45b359cdfd30122e66ff27cb07ad711f98"
    )
