"""Talk on stderr: lines, bars, silence."""

from __future__ import annotations

import io

import pytest

from envlock.cli.console import LineProgress, TerminalProgress, choose_progress, human_bytes
from envlock.progress import NO_PROGRESS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3_100_000_000, "3.1 GB"), (5e15, "5000.0 TB")],
)
def test_bytes_are_told_in_decimal_units(amount: float, text: str) -> None:
    assert human_bytes(amount) == text


def test_without_a_terminal_lines_are_chosen() -> None:
    assert isinstance(choose_progress(quiet=False, bars=True, stream=io.StringIO()), LineProgress)
    assert isinstance(choose_progress(quiet=False, bars=True, stream=Terminal()), TerminalProgress)
    assert isinstance(choose_progress(quiet=False, bars=False, stream=Terminal()), LineProgress)
    assert choose_progress(quiet=True, bars=True, stream=Terminal()) is NO_PROGRESS


def test_work_that_took_a_while_gets_a_line_with_bytes_and_rate() -> None:
    now = [100.0]
    stream = io.StringIO()
    task = LineProgress(stream, clock=lambda: now[0]).start("torch.whl", total=2_000_000)
    now[0] += 2
    task.advance(2_000_000)
    task.finish()
    assert stream.getvalue() == "torch.whl: 2.0 MB of 2.0 MB (1.0 MB/s) in 2.0 s\n"


def test_work_that_goes_on_gives_a_sign_of_life() -> None:
    now = [0.0]
    stream = io.StringIO()
    task = LineProgress(stream, clock=lambda: now[0]).start("layers", total=40, unit="layers")
    for _ in range(30):
        now[0] += 1
        task.advance(1)
    assert stream.getvalue().splitlines() == [f"layers: {done} of 40 layers" for done in (10, 20, 30)]


def test_quick_work_is_not_worth_a_line() -> None:
    stream = io.StringIO()
    task = LineProgress(stream).start("small.whl", total=10)
    task.advance(10)
    task.finish()
    assert stream.getvalue() == ""


def test_bars_leave_the_terminal_as_it_was() -> None:
    stream = Terminal()
    progress = TerminalProgress(stream)
    first, second = progress.start("a.whl", total=10), progress.start("layers", total=2, unit="layers")
    first.advance(10)
    progress.say("[not markup] told in between")
    for task in (first, second, second):
        task.finish()
    assert "[not markup] told in between" in stream.getvalue()
    *_, wiped, shown = stream.getvalue().rstrip().split("\x1b[")
    assert (wiped, shown) == ("2K", "?25h")  # the bars are gone, the cursor is back
