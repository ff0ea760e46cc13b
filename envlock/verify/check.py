"""A check: a probe to run, and two pure functions that ask and judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envlock.verify.model import Finding, Level, Observation, Options

__all__ = ["Check", "JsonMap"]

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check. `name` stands in reports; `probe` names a program in `envlock.verify.probes`; `limit` is in seconds.

    `request(manifest, options)` is what the probe is asked, as JSON values, or the skip that says why it is not run.
    `judge(manifest, seen, options)` tells what the observation means: at least one finding, the same for the same
    arguments. Both are pure.
    """

    name: str
    level: Level
    probe: str
    limit: float
    request: Callable[[JsonMap, Options], JsonMap | Finding]
    judge: Callable[[JsonMap, Observation, Options], Sequence[Finding]]
