"""Faults that take two keys: places in each other's way, and names given twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import combinations

from envlock.spec.disk import is_file
from envlock.spec.faults import Faults, KeyPath, dotted
from envlock.spec.model import CopySpec, DataSpec, ImageSpec, IndexSpec, SourceSpec
from envlock.spec.places import overlap, within

__all__ = ["find_clashes"]

_PREFIX: KeyPath = ("image", "prefix")


def find_clashes(
    faults: Faults,
    *,
    image: ImageSpec,
    data: tuple[DataSpec, ...],
    indexes: tuple[IndexSpec, ...],
    sources: tuple[SourceSpec, ...],
) -> None:
    """Add a fault for each clash between keys that are sound by themselves."""
    _data_against_prefix(faults, image, data)
    _data_against_data(faults, data)
    _copies(faults, image, data)
    _variables(faults, image, data)
    _given_once(faults, ((("index", number, "name"), index.name) for number, index in enumerate(indexes)))
    _given_once(faults, ((("source", number, "name"), (s.kind, s.name)) for number, s in enumerate(sources)))
    _packages(faults, indexes)


def _data_against_prefix(faults: Faults, image: ImageSpec, data: tuple[DataSpec, ...]) -> None:
    for number, directory in enumerate(data):
        key: KeyPath = ("data", number, "path")
        if not faults.sound(key, _PREFIX) or not overlap(directory.path, image.prefix):
            continue
        if within(directory.path, image.prefix):
            what = (
                f"{directory.path} is {'' if directory.path == image.prefix else 'inside '}the prefix {image.prefix}"
            )
        else:
            what = f"the prefix {image.prefix} is inside {directory.path}"
        faults.add(key, f"{what}, and data is not part of the image; write a directory apart from image.prefix")


def _data_against_data(faults: Faults, data: tuple[DataSpec, ...]) -> None:
    for (first, one), (second, other) in combinations(enumerate(data), 2):
        keys: tuple[KeyPath, KeyPath] = ("data", first, "path"), ("data", second, "path")
        if not faults.sound(*keys) or not overlap(one.path, other.path):
            continue
        if one.path == other.path:
            what = f"{other.path} is {dotted(keys[0])} already; write each directory once"
        else:
            inner, outer = (one, other) if within(one.path, other.path) else (other, one)
            what = (
                f"of {dotted(keys[0])} and this, {inner.path} is inside {outer.path}; write directories side by side"
            )
        faults.add(keys[1], what)


def _copies(faults: Faults, image: ImageSpec, data: tuple[DataSpec, ...]) -> None:
    for number, copy in enumerate(image.copy):
        key: KeyPath = ("image", "copy", number, "to")
        if not faults.sound(key):
            continue
        if faults.sound(_PREFIX) and within(copy.to, image.prefix):
            faults.add(
                key,
                f"{copy.to} is in the prefix {image.prefix}, which the lock fills; write a folder such as /workspace",
            )
        for data_number, directory in enumerate(data):
            if faults.sound(("data", data_number, "path")) and within(copy.to, directory.path):
                faults.add(
                    key,
                    f"{copy.to} is in the data directory {directory.path}, which the image leaves empty; "
                    "write a place outside it",
                )
    for (first, one), (second, other) in combinations(enumerate(image.copy), 2):
        keys: tuple[KeyPath, ...] = tuple(
            ("image", "copy", number, name) for number in (first, second) for name in ("source", "to")
        )
        if faults.sound(*keys) and _in_the_way(one, other):
            faults.add(keys[3], f"{other.to} and {dotted(keys[1])}, {one.to}, are in each other's way; write another")


def _in_the_way(one: CopySpec, other: CopySpec) -> bool:
    """A file can have nothing else at its place or below it; folders may be merged."""
    return (is_file(one.source) and within(other.to, one.to)) or (is_file(other.source) and within(one.to, other.to))


def _variables(faults: Faults, image: ImageSpec, data: tuple[DataSpec, ...]) -> None:
    first = dict.fromkeys(image.env, "image.env")
    for number, directory in enumerate(data):
        for name in directory.env:
            key: KeyPath = ("data", number, "env", name)
            if name in first:
                faults.add(key, f"{name} is set in {first[name]} too; set it in one place")
            first.setdefault(name, f"data[{number}].env")


def _given_once(faults: Faults, names: Iterable[tuple[KeyPath, Hashable]]) -> None:
    first: dict[Hashable, KeyPath] = {}
    for key, name in names:
        if faults.sound(key) and first.setdefault(name, key) != key:
            faults.add(key, f"the same as {dotted(first[name])}; write each one once, under its own name")


def _packages(faults: Faults, indexes: tuple[IndexSpec, ...]) -> None:
    first: dict[str, int] = {}
    for number, index in enumerate(indexes):
        for package in sorted(index.packages):
            if first.setdefault(package, number) != number:
                faults.add(
                    ("index", number, "packages"),
                    f"{package} comes from index[{first[package]}] already; name it under one index",
                )
