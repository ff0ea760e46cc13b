"""`dumps` and `loads`: a lock as TOML text and back. docs/lock-format.md describes the format."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace

from envlock.errors import FaultyInput
from envlock.lock.model import LOCK_VERSION, Lock
from envlock.lock.reading import read_lock
from envlock.lock.soundness import unsound
from envlock.lock.writing import write_lock

__all__ = ["dumps", "loads"]

_CONFLICT = re.compile(r"^(?:<{7}|\|{7}|>{7})(?: |$)", re.MULTILINE)


def dumps(lock: Lock) -> str:
    """The lock as text: the same lock gives the same bytes, and what `loads` read comes out as it went in."""
    return write_lock(lock)


def loads(text: str, origin: str) -> Lock:
    """Read a lock; `origin` names it in faults.

    Raises FaultyInput with the code "lock-conflict" (it holds a merge's conflict markers), "lock-version" (another
    version of the format), or "lock-faulty" (every fault, with its key path).
    """
    _refuse_conflict(text, origin)
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # beside bad TOML: numbers of thousands of digits, deep nesting
        raise _faulty(origin, [f"it is not TOML: {exc}"]) from exc
    _require_version(values.get("version"), origin)
    faults: list[str] = []
    lock = read_lock(values, faults)
    faults = faults or list(unsound(lock))
    if faults:
        raise _faulty(origin, faults)
    return _sorted(lock)


def _sorted(lock: Lock) -> Lock:
    debs = tuple(sorted(lock.base.debs, key=lambda deb: (deb.name, deb.version, deb.pool)))
    conda = lock.conda
    if conda is not None:
        conda = replace(conda, packages=tuple(sorted(conda.packages, key=lambda each: (each.name, each.file))))
    return replace(
        lock,
        conda=conda,
        base=replace(lock.base, debs=debs),
        wheels=tuple(sorted(lock.wheels, key=lambda wheel: (wheel.name, wheel.version, wheel.file))),
        contracts=tuple(sorted(lock.contracts, key=lambda contract: contract.platform)),
    )


def _refuse_conflict(text: str, origin: str) -> None:
    found = _CONFLICT.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise FaultyInput(
            f"{origin}:{line}: a merge left its conflict markers",
            hint="Locks are not merged by hand: take one side whole (git checkout --theirs, or --ours, with the "
            "file's name), then run envlock lock, which keeps its pins and adds what the other side needs.",
            code="lock-conflict",
        )


def _require_version(version: object, origin: str) -> None:
    number = version if isinstance(version, int) and not isinstance(version, bool) else 0
    if number == LOCK_VERSION:
        return
    if number > LOCK_VERSION:
        hint = "It was written by a newer envlock: install that, or write it anew: envlock lock --upgrade."
    else:
        hint = "Restore it from version control, or write it anew: envlock lock --upgrade."
    told = "has no version" if version is None else f"is of format version {version!r}"
    raise FaultyInput(f"{origin} {told}; this envlock reads version {LOCK_VERSION}", hint=hint, code="lock-version")


def _faulty(origin: str, faults: list[str]) -> FaultyInput:
    return FaultyInput(
        "\n".join(f"{origin}: {fault}" for fault in faults),
        hint="It was edited by hand: restore it from version control, or write it anew: envlock lock --upgrade.",
        code="lock-faulty",
    )
