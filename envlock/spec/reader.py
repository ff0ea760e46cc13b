"""`read_spec`: an envlock.toml as an EnvSpec, or all its faults at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.spec.clashes import find_clashes
from envlock.spec.conda import read_conda
from envlock.spec.data import read_data
from envlock.spec.disk import is_folder
from envlock.spec.document import read_document
from envlock.spec.faults import Faults
from envlock.spec.fingerprint import fingerprint
from envlock.spec.image import read_image
from envlock.spec.model import EnvSpec
from envlock.spec.python import read_python
from envlock.spec.sections import read_access, read_base, read_env, read_index, read_source, read_target
from envlock.spec.table import Node, Table
from envlock.spec.values import text

__all__ = ["FILE_NAME", "read_spec"]

FILE_NAME = "envlock.toml"


def read_spec(path: Path, *, home: Path | None = None) -> EnvSpec:
    """Read a specification: `path` is its file, or the folder that holds an envlock.toml.

    `home` is the user's home, which is never copied whole. Raise FaultyInput: "spec-faulty" with every fault of the
    file and of the requirements files it names, each with file, line and key; "spec-missing" where there is no file.
    """
    file = (path / FILE_NAME if is_folder(path) else path).absolute()
    document = read_document(_read(file), file.name)
    faults = Faults(file.name, document.lines)
    root = Table(Node(document.values, (), faults), "")
    spec = _read_tables(root, file, home)
    find_clashes(faults, image=spec.image, data=spec.data, indexes=spec.indexes, sources=spec.sources)
    faults.raise_any()
    written_urls = tuple(table.take("url", text, "") for table in root.tables("index"))
    return replace(spec, digest=fingerprint(spec, written_urls=written_urls))


def _read_tables(root: Table, file: Path, home: Path | None) -> EnvSpec:
    folder = file.parent
    base = read_base(root.table("base"))
    conda = read_conda(root.table("conda"), folder) if root.has("conda") else None
    env = read_env(root.table("env"), base.debian, conda.python if conda else None)
    return EnvSpec(
        file=file,
        name=env.name,
        python_version=env.python,
        platforms=env.platforms,
        python=read_python(root.table("python"), folder, conda),
        indexes=tuple(read_index(table, folder) for table in root.tables("index")),
        target=read_target(root.table("target")),
        base=base,
        image=read_image(root.table("image"), folder, home),
        data=tuple(read_data(table) for table in root.tables("data")),
        access=read_access(root.table("access")),
        sources=tuple(read_source(table) for table in root.tables("source")),
        digest=Digest.of(b""),  # until all else is known to be right
        conda=conda.spec if conda else None,
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FaultyInput(
            f"{file}: {error.strerror}",
            hint=f"Name a folder that holds {FILE_NAME}, or the file itself; docs/spec.md tells how to write one.",
            code="spec-missing",
        ) from error
