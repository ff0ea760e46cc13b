"""Finished layers in the store, found by recipe key: one that is there is never built again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlock.digest import Digest
from envlock.fetch.store import Store
from envlock.image.canonical import canonical_json
from envlock.image.layers.entries import LayerBlob
from envlock.image.members import Member, pack_members, unpack_members

__all__ = ["CachedLayer", "LayerCache", "Overwritten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwritten:
    """A file that two parts (wheels, packages, copies) of one layer write; `same` tells whether contents agree."""

    path: str
    kept: str
    lost: str
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedLayer:
    """A finished layer.

    `members` is the digest of its list of members in the store, `notes` are lines of talk about what making it left
    undone.
    """

    key: Digest
    blob: LayerBlob
    members: Digest
    overwritten: tuple[Overwritten, ...] = ()
    notes: tuple[str, ...] = ()


class LayerCache:
    """Layers in a store. A record is written last and in one step, so that what is found is whole."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, key: Digest, *, verify: bool = False) -> CachedLayer | None:
        """The layer of this recipe, if its record, its bytes and its list of members are all there.

        With `verify` they are read and hashed; what is damaged is removed and not found.
        """
        try:
            layer = _loads(self._record(key).read_bytes())
        except (OSError, ValueError, KeyError, TypeError):
            return None
        find = self._store.verify if verify else self._store.find
        whole = find(layer.blob.digest, layer.blob.size) and find(layer.members)
        return layer if whole and layer.key == key else None

    def path(self, layer: CachedLayer) -> Path:
        """Its gzip file."""
        return self._store.path(layer.blob.digest)

    def members(self, layer: CachedLayer) -> tuple[Member, ...]:
        """What was read back from it when it was made."""
        return unpack_members(self._store.path(layer.members).read_bytes())

    def building(self, key: Digest, *, cancelled: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
        """Held while a layer is built: another process that wants the same one waits, and then finds it."""
        return self._store.locked(f"layer-{key.hex}", cancelled=cancelled)

    def keep_members(self, members: tuple[Member, ...]) -> Digest:
        """Take in a layer's list of members."""
        return self._store.put(pack_members(members))

    def add(self, layer: CachedLayer, file: Path) -> CachedLayer:
        """Take in a finished layer, whose members are kept already; `file` is moved."""
        self._store.adopt(file, layer.blob.digest, verified=True)
        self._store.write(self._record(layer.key), _dumps(layer))
        return layer

    def _record(self, key: Digest) -> Path:
        return self._store.area("layers") / f"{key.hex}.json"


def _dumps(layer: CachedLayer) -> bytes:
    blob = layer.blob
    rows = [[row.path, row.kept, row.lost, row.same] for row in layer.overwritten]
    return canonical_json(
        {
            "key": str(layer.key),
            "digest": str(blob.digest),
            "size": blob.size,
            "diff_id": str(blob.diff_id),
            "unpacked": blob.unpacked,
            "members": str(layer.members),
            "overwritten": rows,
            "notes": layer.notes,
        }
    )


def _loads(data: bytes) -> CachedLayer:
    held: dict[str, Any] = json.loads(data)
    return CachedLayer(
        key=Digest.parse(str(held["key"])),
        blob=LayerBlob(
            digest=Digest.parse(str(held["digest"])),
            size=held["size"],
            diff_id=Digest.parse(str(held["diff_id"])),
            unpacked=held["unpacked"],
        ),
        members=Digest.parse(str(held["members"])),
        overwritten=tuple(
            Overwritten(path=path, kept=kept, lost=lost, same=same) for path, kept, lost, same in held["overwritten"]
        ),
        notes=tuple(held["notes"]),
    )
