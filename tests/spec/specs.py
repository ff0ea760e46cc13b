"""Specifications for tests: folders made in code, and how their faults are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlock.errors import FaultyInput
from envlock.spec.model import EnvSpec
from envlock.spec.reader import read_spec

DOCS = Path(__file__).parents[2] / "docs" / "spec.md"
SMALLEST = '[env]\nname = "small"\n[python]\nrequirements = []\n'


def spec_of(folder: Path, text: str = SMALLEST) -> EnvSpec:
    """The specification that this text is, read from a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "envlock.toml").write_text(text)
    return read_spec(folder)


def faults_of(folder: Path, text: str = SMALLEST) -> list[str]:
    """The lines that tell what is wrong with it."""
    with pytest.raises(FaultyInput) as fault:
        spec_of(folder, text)
    assert fault.value.code == "spec-faulty"
    return fault.value.message.splitlines()


def requirements(*entries: str) -> str:
    """A specification with these requirements, each on a line of its own from the fifth on."""
    return (
        '[env]\nname = "small"\n[python]\nrequirements = [\n' + "".join(f"{entry!r},\n" for entry in entries) + "]\n"
    )


def touch_wheel(folder: Path, file: str, content: bytes = b"wheel") -> Path:
    """A file with a wheel's name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_bytes(content)
    return path
