"""How a wheel is refused."""

from __future__ import annotations

from envlock.errors import FaultyInput

__all__ = ["faulty"]

_HINT = (
    "this wheel is broken or made to deceive, so it is not installed: pin another version or build of it in "
    "envlock.toml and lock again, and tell its publisher"
)


def faulty(file: str, entry: str | None, what: str) -> FaultyInput:
    """The refusal of a wheel: its file name, the entry where there is one and what is wrong."""
    where = file if entry is None else f"{file}: {entry!r}"
    return FaultyInput(f"{where}: {what}", hint=_HINT, code="wheel-faulty")
