"""GPU names to compute capabilities, from gpus.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from envlock.spec.faults import Wrong
from envlock.spec.table import Node, nearest
from envlock.spec.values import shown, text

__all__ = ["by_number", "capability", "gpu_names"]

_MOST_LISTED = 4
_CAPABILITY = re.compile(r"[1-9]\d?\.\d", re.ASCII)
_UNDOTTED = re.compile(r"(?:sm_?|compute_?)?([1-9]\d?)(\d)a?", re.IGNORECASE)
# Words of nvidia-smi's names that do not change the capability: maker, form factor, memory, edition.
_NOISE = re.compile(
    r"nvidia|geforce|tesla|gpu|laptop|generation|edition|server|workstation|max|q|pcie|sxm\d?|nvl|nvl\d+|hbm\d?e?|\d+gi?b?"
)


@cache
def gpu_names() -> Mapping[str, str]:
    """Every known GPU's name and its capability."""
    data = tomllib.loads(files("envlock.spec").joinpath("gpus.toml").read_text(encoding="utf-8"))
    return {name: capability for capability, names in data["capabilities"].items() for name in names}


def capability(node: Node) -> str:
    """The compute capability ("8.9") of a GPU given by capability or by name, as sold or as nvidia-smi tells it."""
    name = text(node)
    if _CAPABILITY.fullmatch(name):
        return name
    found = _by_plain_name().get(_plain(name))
    if found:
        return found
    undotted = _UNDOTTED.fullmatch(name)
    if undotted:
        raise Wrong(f"{shown(name)} is not a compute capability", f'write "{undotted[1]}.{undotted[2]}"')
    likely = _likely(name)
    instead = f"write {likely}, or the compute capability" if likely else "write its compute capability"
    raise Wrong(
        f"no GPU is known as {shown(name)}", f'{instead} as nvidia-smi --query-gpu=compute_cap tells it ("8.9")'
    )


def by_number(capability: str) -> tuple[int, int]:
    """What capabilities are sorted by: 8.9 before 12.0."""
    major, _, minor = capability.partition(".")
    return int(major), int(minor)


@cache
def _by_plain_name() -> Mapping[str, str]:
    return {_plain(name): found for name, found in gpu_names().items()}


def _likely(name: str) -> str:
    """The GPUs that may have been meant: those with this name as a part of theirs, else the one most like it."""
    plain = _plain(name)
    longer = [known for known in gpu_names() if plain and plain in _plain(known)]
    closest = nearest(name, gpu_names())
    return " or ".join(map(shown, longer[:_MOST_LISTED] or ([closest] if closest else [])))


def _plain(name: str) -> str:
    words = re.split(r"[\s_-]+", name.casefold())
    return "".join(word for word in words if not _NOISE.fullmatch(word))
