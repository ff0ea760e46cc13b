"""The list of checks, in the order in which they run and are reported. The only one."""

from __future__ import annotations

from envlock.verify.check import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = ()
