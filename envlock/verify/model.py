"""What a check finds. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Device", "Died", "Failed", "Finding", "Hung", "Level", "Observation", "Options", "Outcome", "Seen"]


class Outcome(str, Enum):  # noqa: UP042 (StrEnum came with 3.11, and this runs on 3.10)
    """How a finding counts: a `fail` fails the report, a `warn` does not, a `skip` says why nothing was looked at."""

    PASS = "pass"  # noqa: S105 (an outcome)
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Level(str, Enum):  # noqa: UP042
    """How far to go; each level includes those before it. `static` is for a GPU that is not here."""

    LOCK = "lock"
    SMOKE = "smoke"
    REHEARSAL = "rehearsal"
    STATIC = "static"


class Device(str, Enum):  # noqa: UP042
    """What kernels run on."""

    CUDA = "cuda"
    CPU = "cpu"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a check saw, and how it counts.

    `code` is the fault's name in kebab-case ("driver-too-old"), empty where all is well; `subject` is what within the
    check it is about (a GPU, a package, a directory). `seen`, `expected` and `advice` are for people; `data` holds
    figures for programs, with units in their names ("bytes_per_second").
    """

    check: str
    outcome: Outcome
    seen: str
    code: str = ""
    subject: str = ""
    expected: str = ""
    advice: str = ""
    data: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a fault without a name, or without a word on what to do."""
        if self.outcome in {Outcome.WARN, Outcome.FAIL} and not (self.code and self.advice):
            raise ValueError(f"a finding of {self.check} that is a {self.outcome.value} has no code or no advice")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked for. `for_gpu` (a name or "9.0") and `for_driver` ask about a GPU that is not here."""

    level: Level = Level.SMOKE
    device: Device = Device.CUDA
    fast: bool = False
    for_gpu: str | None = None
    for_driver: str | None = None
    train: str | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A probe ended well: what it saw, as JSON values."""

    value: Mapping[str, object]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A probe raised: the exception's type, its text, the end of its traceback. `stage` is what it was at."""

    kind: str
    text: str
    trace: str
    stage: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Died:
    """A probe ended by a signal (`status` below zero, as subprocess has it) or without an answer."""

    status: int
    stage: str
    talk: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Hung:
    """A probe was still at `stage` when its time was over, and was killed with all its children."""

    limit: float
    stage: str
    talk: str


Observation = Seen | Failed | Died | Hung
