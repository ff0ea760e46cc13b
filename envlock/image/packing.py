"""Many small things into a few layers, so that one thing's change rebuilds one layer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["pack"]

_T = TypeVar("_T")


def pack(
    items: Iterable[_T], *, name: Callable[[_T], str], size: Callable[[_T], int], target: int, most: int
) -> tuple[tuple[_T, ...], ...]:
    """Buckets of about `target` bytes, at most `most` (a power of two) of them, none empty.

    An item's bucket follows from its name and the number of buckets, which is a power of two: another version of one
    item leaves all other buckets as they are, and when the number doubles, each bucket is split in two.
    """
    held = tuple(items)
    total = sum(map(size, held))
    count = 1
    while count < most and total > count * target:
        count *= 2
    buckets: list[list[_T]] = [[] for _ in range(count)]
    for item in sorted(held, key=name):
        number = int.from_bytes(hashlib.sha256(name(item).encode()).digest()[:4], "big")
        buckets[number % count].append(item)
    return tuple(tuple(bucket) for bucket in buckets if bucket)
