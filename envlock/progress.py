"""How long work tells how far it is; the terminal's side of it lives in the command line."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NO_PROGRESS", "Progress", "Task"]


class Task(Protocol):
    """One piece of work under way."""

    def advance(self, amount: int) -> None:
        """So many more bytes (or steps) are done."""

    def finish(self) -> None:
        """The work is over, well or badly."""


class Progress(Protocol):
    """Where work is announced. Safe to call from several threads."""

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:
        """Announce a piece of work; `total` is None where it is not known; `unit` is "bytes" or a plural noun."""

    def say(self, text: str) -> None:
        """Tell the user one line of talk."""


class _Silent:
    def advance(self, amount: int) -> None:
        pass

    def finish(self) -> None:
        pass

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:  # noqa: ARG002 (Progress)
        return self

    def say(self, text: str) -> None:
        pass


NO_PROGRESS: Progress = _Silent()
