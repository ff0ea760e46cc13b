"""The probes: programs that look, and judge nothing. Each module has `probe(request, talk) -> dict` of JSON values.

A probe runs in the target's own Python, in a process of its own, so it may import what the environment has, hang or
crash. It changes nothing but files below `talk.scratch`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

__all__ = ["Talk"]


@dataclass(frozen=True)
class Talk:
    """A probe's way to tell: `stage` names what comes next, so that a hang or a crash is known by its place."""

    answers: IO[str]
    scratch: Path

    def stage(self, name: str) -> None:
        """Say what is about to be done."""
        self._tell({"stage": name})

    def _tell(self, value: dict[str, Any]) -> None:
        self.answers.write(json.dumps(value) + "\n")
        self.answers.flush()
