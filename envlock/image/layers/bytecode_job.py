"""One process that compiles modules, fed and read in the background."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from envlock.errors import MachineLacks

__all__ = ["Compilation"]

_AHEAD = 1 << 25  # bytes of bytecode that may wait to be taken


class Compilation(Iterator[bytes | None]):
    """The results of compiling a series of modules, in order. A context manager: leaving it ends the process.

    What the series raises is raised here, after the results that came before it.
    """

    def __init__(
        self, command: tuple[str, ...], environment: Mapping[str, str], sources: Iterable[tuple[str, bytes]]
    ) -> None:
        self.closed = False
        self._command = command
        self._changed = threading.Condition()
        self._results: deque[bytes] = deque()
        self._held = 0  # bytes in _results
        self._ended = False  # no more results come
        self._fed = 0
        self._taken = 0
        self._fault: BaseException | None = None
        self._talk: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        try:
            self._process = subprocess.Popen(
                command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._talk
            )
        except OSError as exc:
            self._talk.close()
            raise self._lacks(f"cannot be run: {exc}") from exc
        self._threads = (
            threading.Thread(target=self._feed, args=(sources,), name="envlock-compile-feed"),
            threading.Thread(target=self._read, name="envlock-compile-read"),
        )
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._results or self._ended or self.closed)
            if self._results:
                result = self._results.popleft()
                self._held -= len(result)
                self._taken += 1
                self._changed.notify_all()
                return result or None
        self._finish()
        raise StopIteration

    @property
    def status(self) -> int | None:
        """The exit status of the process; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """End the process and the threads, whatever they are at; once closed, there are no results."""
        if self.closed:
            return
        with self._changed:
            self.closed = True
            self._results.clear()
            self._changed.notify_all()
        self._process.kill()
        for thread in self._threads:
            thread.join()
        self._process.wait()
        for stream in (self._process.stdout, self._talk):
            if stream is not None:
                stream.close()

    def _finish(self) -> None:
        """Judge how it ended."""
        self._threads[0].join()
        if self._fault is not None:
            raise self._fault
        status = self._process.wait()
        if not self.closed and (status != 0 or self._taken != self._fed):
            self._talk.seek(0)
            said = self._talk.read().decode(errors="replace").strip()
            raise self._lacks(f"ended with status {status} after {self._taken} modules\n{said}".rstrip())

    def _feed(self, sources: Iterable[tuple[str, bytes]]) -> None:
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 (asked for above)
        try:
            for path, source in sources:
                name = path.encode()
                self._fed += 1
                pipe.write(b"".join((_length(name), name, _length(source), source)))
                pipe.flush()
        except BrokenPipeError:
            pass  # the process has died or was ended: its status tells
        except BaseException as exc:  # noqa: BLE001 (whatever it is, it is raised where the results are taken)
            self._fault = exc
        finally:
            with suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101 (asked for above)
        while len(head := pipe.read(4)) == 4:  # noqa: PLR2004 (a length)
            wanted = int.from_bytes(head, "little")
            result = pipe.read(wanted)
            if len(result) != wanted:
                break
            with self._changed:
                self._changed.wait_for(lambda: self._held < _AHEAD or self.closed)
                if self.closed:
                    break
                self._results.append(result)
                self._held += len(result)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _lacks(self, what: str) -> MachineLacks:
        return MachineLacks(
            f"the interpreter that compiles bytecode, {' '.join(self._command)}, {what}",
            hint="give an interpreter of the environment's X.Y that runs on this machine, or build without bytecode",
            code="interpreter-fails",
        )


def _length(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little")
