"""Talk on stderr: bars with bytes and rate on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichProgress
from rich.progress import Task as RichTask
from rich.text import Text

from envlock.progress import NO_PROGRESS, Progress, Task

__all__ = ["LineProgress", "TerminalProgress", "choose_progress", "human_bytes"]

_HEARTBEAT = 10.0  # seconds between lines about one piece of work that goes on
_QUIET_WORK = 1.0  # seconds: work that was over sooner gets no line of its own

_UNITS = ("B", "kB", "MB", "GB", "TB")


def human_bytes(amount: float) -> str:
    """Bytes in decimal units, as disks and networks are sold: 3.1 GB."""
    for unit in _UNITS[:-1]:
        if amount < 1000:  # noqa: PLR2004 (decimal units)
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} {_UNITS[-1]}"


def choose_progress(*, quiet: bool, bars: bool, stream: TextIO = sys.stderr) -> Progress:
    """What fits the stream: `bars` False or no terminal gives lines, `quiet` gives nothing."""
    if quiet:
        return NO_PROGRESS
    if bars and stream.isatty():
        return TerminalProgress(stream)
    return LineProgress(stream)


class LineProgress:
    """Plain lines: one when a piece of work took a while and is over, and a sign of life every ten seconds."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.clock = clock

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:
        """See Progress."""
        now = self.clock()
        return _LineTask(self, label, total, unit, began=now, spoke=now)

    def say(self, text: str) -> None:
        """See Progress."""
        with self._lock:
            print(text, file=self._stream, flush=True)


@dataclass(slots=True)
class _LineTask:
    lines: LineProgress
    label: str
    total: int | None
    unit: str
    began: float
    spoke: float
    done: int = 0

    def advance(self, amount: int) -> None:
        self.done += amount
        now = self.lines.clock()
        if now - self.spoke >= _HEARTBEAT:
            self.spoke = now
            self.lines.say(f"{self.label}: {self._state(now)}")

    def finish(self) -> None:
        now = self.lines.clock()
        if now - self.began >= _QUIET_WORK:
            self.lines.say(f"{self.label}: {self._state(now)} in {now - self.began:.1f} s")

    def _state(self, now: float) -> str:
        if self.unit != "bytes":
            return f"{self.done}{'' if self.total is None else f' of {self.total}'} {self.unit}"
        rate = self.done / max(now - self.began, 1e-6)
        total = "" if self.total is None else f" of {human_bytes(self.total)}"
        return f"{human_bytes(self.done)}{total} ({human_bytes(rate)}/s)"


class TerminalProgress:
    """Bars that come with the work and go with it."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _AmountColumn(),
            TimeRemainingColumn(compact=True),
            console=self._console,
            transient=True,
        )
        self._lock = threading.Lock()
        self._running = 0

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:
        """See Progress."""
        with self._lock:
            if self._running == 0:
                self._bars.start()
            self._running += 1
        return _BarTask(self, self._bars, self._bars.add_task(label, total=total, unit=unit))

    def say(self, text: str) -> None:
        """See Progress."""
        self._console.print(text, markup=False, soft_wrap=True)

    def over(self) -> None:
        """One bar fewer; with the last one the display goes, so that the cursor comes back."""
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._bars.stop()


class _AmountColumn(ProgressColumn):
    """Bytes with their rate, or steps."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes, self._rate, self._steps = DownloadColumn(), TransferSpeedColumn(), MofNCompleteColumn()

    def render(self, task: RichTask) -> Text:
        """Draw one task's amount."""
        if task.fields.get("unit") == "bytes":
            return Text.assemble(self._bytes.render(task), "  ", self._rate.render(task))
        return self._steps.render(task)


class _BarTask:
    def __init__(self, owner: TerminalProgress, bars: RichProgress, number: TaskID) -> None:
        self._owner, self._bars, self._number = owner, bars, number
        self._open = True

    def advance(self, amount: int) -> None:
        self._bars.advance(self._number, amount)

    def finish(self) -> None:
        if self._open:
            self._open = False
            self._bars.remove_task(self._number)
            self._owner.over()
