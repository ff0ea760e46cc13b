"""`[[data]]`: the directories excluded from the image by design."""

from __future__ import annotations

from pathlib import PurePosixPath

from envlock.spec.faults import Wrong
from envlock.spec.model import DataKind, DataSpec
from envlock.spec.places import data_place, within
from envlock.spec.table import Node, Parser, Table
from envlock.spec.values import (
    absolute_path,
    boolean,
    byte_size,
    choice,
    distinct,
    mapping_of,
    shown,
    text,
    variable_name,
)

__all__ = ["read_data"]

_KIND = choice(
    *DataKind,
    meant={"disk": "data-disk", "data": "data-disk", "nfs": "network", "tmp": "scratch", "shared": "network"},
)


def read_data(table: Table) -> DataSpec:
    """Read one `[[data]]`."""
    path = table.require("path", data_place, None, 'path = "/data"')
    kind = table.require("kind", _KIND, DataKind.DATA_DISK.value, 'kind = "data-disk"')
    default = "unknown"
    return DataSpec(
        path=path or PurePosixPath("/data"),
        kind=DataKind(kind),
        purpose=table.require("purpose", text, "", 'purpose = "base models"'),
        on_stop=table.take("on-stop", text, default),
        on_release=table.take("on-release", text, default),
        required=table.take("required", boolean, default=False),
        min_free=table.take("min-free", byte_size, None),
        env=table.take("env", _variables(path), {}),
    )


def _variables(directory: PurePosixPath | None) -> Parser[dict[str, PurePosixPath]]:
    """Variables that point to the directory: a table with their paths, or a list where all mean the directory."""

    def parse(node: Node) -> dict[str, PurePosixPath]:
        if isinstance(node.value, list):
            return dict.fromkeys(distinct(variable_name)(node), directory or PurePosixPath("/data"))
        if not isinstance(node.value, dict):
            raise Wrong(f"{shown(node.value)} is neither a table nor a list", 'write ["HF_HOME"]')
        return mapping_of(variable_name, _path_below(directory))(node)

    return parse


def _path_below(directory: PurePosixPath | None) -> Parser[PurePosixPath]:
    def parse(node: Node) -> PurePosixPath:
        written = node.value
        if directory and isinstance(written, str) and written.strip() and not written.startswith(("/", "~", "$")):
            raise Wrong(f"{shown(written)} is not absolute", f"write {shown(str(directory / written))}")
        path = absolute_path(node)
        if directory and not within(path, directory):
            raise Wrong(f"{path} is not below {directory}", "write a path in this data directory")
        return path

    return parse
