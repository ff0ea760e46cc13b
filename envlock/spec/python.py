"""`[python]`: requirements, constraints and how they are resolved."""

from __future__ import annotations

from pathlib import Path

from envlock.spec.conda import CondaTable
from envlock.spec.model import RESOLVERS, PythonSpec
from envlock.spec.requirements_files import RequirementsReader
from envlock.spec.table import Node, Table
from envlock.spec.values import choice, distinct, moment, project_name

__all__ = ["read_python"]

_RESOLVER = choice(*RESOLVERS, meant={"pip": "pip-tools", "pip-compile": "pip-tools", "uv pip": "uv"})


def read_python(table: Table, folder: Path, conda: CondaTable | None = None) -> PythonSpec:
    """Read `[python]`; files are relative to `folder`. A conda side lets it be empty, and adds to it."""
    reader = RequirementsReader(folder, table.faults)
    take = reader.read_list(constraint=False)
    if conda is None:
        table.require("requirements", take, None, 'requirements = ["torch", ...]')
    else:
        table.take("requirements", take, None)
        for line in conda.pip:
            reader.read_elsewhere(line.text, conda.file, line.line)
    table.take("constraints", reader.read_list(constraint=True), None)
    allow_sdist = table.take("allow-sdist", _allow_sdist, ())
    return PythonSpec(
        requirements=tuple(reader.requirements),
        constraints=tuple(reader.constraints),
        exclude_newer=table.take("exclude-newer", moment, None),
        resolver=table.take("resolver", _RESOLVER, "uv"),
        allow_sdist=frozenset(allow_sdist or ()),
        allow_pure_sdist=allow_sdist is None,
    )


def _allow_sdist(node: Node) -> tuple[str, ...] | None:
    """Names of packages; None for "pure", which is any of them."""
    return None if node.value == "pure" else distinct(project_name)(node)
