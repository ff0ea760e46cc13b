"""What can go wrong, as a user sees it: a message, a hint, a code and an exit status."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["Difference", "EnvlockError", "FaultyInput", "MachineLacks", "Unsatisfiable"]


class EnvlockError(Exception):
    """A fault that is told to the user: what and where in `message`, what to do next in `hint`.

    A hint is sentences, or one command as it is typed. `code` is a stable kebab-case name for scripts. The exit
    status belongs to the class; raise one of the four below.
    """

    status: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process, keyword-only arguments and all."""
        return _revive, (type(self), self.message, self.hint, self.code)


class Difference(EnvlockError):
    """Something was checked and found different: a stale lock, drift, a failed check. Exit status 1."""

    status = 1


class FaultyInput(EnvlockError):
    """A faulty file, option or artefact. Exit status 2."""

    status = 2


class Unsatisfiable(EnvlockError):
    """Cannot be resolved, or the host contract cannot be met. Exit status 3."""

    status = 3


class MachineLacks(EnvlockError):
    """The machine lacks something: engine, GPU, disk, network, program. Exit status 4."""

    status = 4


def _revive(kind: type[EnvlockError], message: str, hint: str, code: str) -> EnvlockError:
    return kind(message, hint=hint, code=code)
