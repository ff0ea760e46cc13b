"""JSON with one spelling, for everything whose digest counts."""

from __future__ import annotations

import json

__all__ = ["canonical_json"]


def canonical_json(value: object) -> bytes:
    """UTF-8, keys sorted, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
