"""The digest of what a lock depends on, the same wherever the files lie."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence

from packaging.requirements import Requirement as ParsedRequirement
from packaging.utils import canonicalize_name

from envlock.digest import Digest
from envlock.spec.model import CondaSpec, EnvSpec, IndexSpec, Requirement
from envlock.spec.requirements import local_wheel

__all__ = ["fingerprint"]

_VERSION = 1  # of the canonical form below


def fingerprint(spec: EnvSpec, *, written_urls: Sequence[str]) -> Digest:
    """The digest of canonical JSON of all that resolving reads; `spec.digest` is not looked at.

    `written_urls` are the indexes' addresses as the file has them. Left out is what only the build reads
    ([image], [[data]], [[source]]) and `base.mirror`: the same signed packages come from any mirror.
    """
    python, target = spec.python, spec.target
    value: dict[str, object] = {
        "version": _VERSION,
        "name": spec.name,
        "python": spec.python_version,
        "platforms": sorted(spec.platforms),
        "requirements": _texts(python.requirements),
        "constraints": sorted(_texts(python.constraints)),
        "exclude-newer": python.exclude_newer,
        "resolver": python.resolver,
        "allow-sdist": "pure" if python.allow_pure_sdist else sorted(python.allow_sdist),
        "indexes": [_index(index, written) for index, written in zip(spec.indexes, written_urls, strict=True)],
        "target": {"driver": target.driver, "gpus": target.gpus, "cuda": target.cuda},
        "base": {"debian": spec.base.debian, "packages": sorted(spec.base.packages)},
        "access": {"ssh": spec.access.ssh, "jupyter": spec.access.jupyter},
    }
    if spec.conda is not None:
        value["conda"] = _conda(spec.conda)
    return Digest.of(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def _conda(conda: CondaSpec) -> Mapping[str, object]:
    """All but where the same packages may come from (mirrors), and what only the build reads (allow-scripts)."""
    return {
        "channels": conda.channels,
        "dependencies": [item.text for item in conda.dependencies],
        "solver": conda.solver,
        "lock": None if conda.lock is None else str(Digest.of_file(conda.lock)),
        "wins": conda.wins,
    }


def _index(index: IndexSpec, written: str) -> Mapping[str, object]:
    place = written if "://" in written else os.path.normpath(written)
    return {"name": index.name, "place": place, "packages": sorted(index.packages)}


def _texts(requirements: Iterable[Requirement]) -> list[str]:
    return [_text(ParsedRequirement(requirement.text)) for requirement in requirements]


def _text(requirement: ParsedRequirement) -> str:
    """PEP 508 text with the name normalised; a local wheel by what it is, not where."""
    requirement.name = canonicalize_name(requirement.name)
    wheel = local_wheel(requirement)
    if wheel:
        requirement.url = f"{wheel.name}#{Digest.of_file(wheel)}"
    return str(requirement)
