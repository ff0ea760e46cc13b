"""The manifest: what is on the system disk, and what is not, by design. Pure; JSON with a published schema."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.platforms import Platform

__all__ = [
    "MANIFEST_VERSION",
    "Bytecode",
    "Clash",
    "Contract",
    "CopiedSource",
    "DataDirectory",
    "Deb",
    "Digests",
    "GivenUp",
    "LayerRow",
    "MadeBy",
    "Manifest",
    "Python",
    "Settings",
    "Source",
    "Wheel",
    "dumps",
    "loads",
    "schema",
]

MANIFEST_VERSION = 1

_HINT = "Take the manifest of an image that this version of envlock built, or build the image again."
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBy:
    """The programs that made lock and image."""

    envlock: str
    resolver: str
    resolver_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """What the image was built from: the lock's own bytes, and the spec as the lock knows it."""

    lock: Digest
    spec: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytecode:
    """How `.pyc` files were made: their invalidation mode, and the full version of the Python that compiled."""

    mode: str
    compiler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """The interpreter and the environment it runs; `bytecode` is None where layers hold none."""

    version: str
    executable: str
    prefix: str
    bytecode: Bytecode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deb:
    """A Debian package of the base."""

    name: str
    version: str
    architecture: str
    sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """An installed wheel. `url` and `commit` tell the source of one that a URL or a git repository gave."""

    name: str
    version: str
    file: str
    sha256: Digest
    index: str
    requested: bool
    url: str | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a machine must have; see HostContract of the lock."""

    cuda: str | None
    driver: str | None
    architectures_known: bool
    cubin: tuple[str, ...]
    ptx: tuple[str, ...]
    glibc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A version given up so that the target can run the environment."""

    package: str
    wanted: str
    got: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedSource:
    """The user's own files: `source` as the spec names them, `tree` the digest over names, modes and contents."""

    source: str
    to: str
    tree: Digest
    files: int
    bytes: int
    tracked: bool
    commit: str | None
    dirty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """A directory that is excluded from the image by design, and why. `min_free` is in bytes."""

    path: str
    kind: str
    purpose: str
    reason: str
    on_stop: str
    on_release: str
    required: bool
    min_free: int | None
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model or data set that is used; `licence_status` is "confirmed", "unconfirmed" or "unknown"."""

    name: str
    kind: str
    licence: str | None
    licence_status: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How containers of the image start. `user` is empty for root; `access` names services of the entry point."""

    env: Mapping[str, str]
    user: str
    workdir: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    access: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """A path that two wheels (or copies) write with different contents; what `kept` wrote is in the image."""

    path: str
    kept: str
    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """A layer below the one that holds the manifest."""

    title: str
    recipe: Digest
    diff_id: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The whole manifest. No path of the building machine, no secret and no time but the fixed epoch is in it."""

    environment: str
    platform: Platform
    created: str
    made_by: MadeBy
    digests: Digests
    python: Python
    suite: str
    glibc: str
    contract: Contract
    settings: Settings
    debs: tuple[Deb, ...]
    wheels: tuple[Wheel, ...]
    copies: tuple[CopiedSource, ...] = ()
    data: tuple[DataDirectory, ...] = ()
    sources: tuple[Source, ...] = ()
    concessions: tuple[GivenUp, ...] = ()
    clashes: tuple[Clash, ...] = ()
    layers: tuple[LayerRow, ...] = field(default=())


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `dumps` writes."""
    text = files("envlock").joinpath("manifest.schema.json").read_text(encoding="utf-8")
    loaded = json.loads(text)
    assert isinstance(loaded, dict)  # noqa: S101 (it is the package's own file)
    return loaded


def dumps(manifest: Manifest) -> str:
    """The manifest as JSON: every key, in the order of the classes above, two blanks deep, a newline at the end."""
    values = {"version": MANIFEST_VERSION, **_plain(manifest)}
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def loads(text: str, origin: str) -> Manifest:
    """Read what `dumps` wrote; `origin` is what faults call the text.

    Raise FaultyInput, code "manifest-version" for another version, "manifest-faulty" with the key otherwise.
    """
    try:
        values = json.loads(text)
    except ValueError as exc:
        raise FaultyInput(f"{origin} is not JSON: {exc}", hint=_HINT, code="manifest-faulty") from exc
    if not isinstance(values, dict) or "version" not in values:
        raise FaultyInput(f"{origin} is not a manifest of envlock", hint=_HINT, code="manifest-faulty")
    version = values.pop("version")
    if type(version) is not int or version != MANIFEST_VERSION:
        raise FaultyInput(
            f"{origin} has version {version!r}; this envlock reads version {MANIFEST_VERSION}",
            hint="Use the version of envlock that wrote it, or a newer one than this.",
            code="manifest-version",
        )
    try:
        return _record(Manifest, values, "")
    except _Wrong as exc:
        raise FaultyInput(f"{origin}: {exc}", hint=_HINT, code="manifest-faulty") from exc


class _Wrong(ValueError):
    """A value that is not what its key holds."""


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, (type, Digest)):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in sorted(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, (Digest, StrEnum)) else value


def _record(kind: type[_Record], value: object, key: str) -> _Record:
    if not isinstance(value, dict):
        raise _Wrong(f"{key or 'the whole'} is not an object")
    hints = get_type_hints(kind)
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type] # every kind here is a dataclass
    prefix = f"{key}." if key else ""
    if unknown := sorted(value.keys() - known.keys()):
        raise _Wrong(f"{prefix}{unknown[0]} is not a key of this version")
    for name, item in known.items():
        if name not in value and item.default is MISSING:
            raise _Wrong(f"{prefix}{name} is missing")
    return kind(**{name: _value(hints[name], held, f"{prefix}{name}") for name, held in value.items()})


def _value(hint: Any, value: object, key: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return (
            None if value is None else _value(next(kind for kind in arguments if kind is not type(None)), value, key)
        )
    if origin is tuple:
        if not isinstance(value, list):
            raise _Wrong(f"{key} is not a list")
        return tuple(_value(arguments[0], item, f"{key}[{number}]") for number, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _Wrong(f"{key} is not an object")
        return {name: _value(str, item, f"{key}.{name}") for name, item in value.items()}
    if hint in {Digest, Platform}:
        return _parsed(hint, value, key)
    if is_dataclass(hint):
        return _record(hint, value, key)  # type: ignore[arg-type] # is_dataclass does not say "a class" to mypy
    if type(value) is not hint:
        raise _Wrong(f"{key} is not {'text' if hint is str else hint.__name__}")
    return value


def _parsed(hint: Any, value: object, key: str) -> Any:
    try:
        return Digest.parse(str(value)) if hint is Digest else hint(value)
    except ValueError as exc:
        raise _Wrong(f"{key}: {exc}") from exc
