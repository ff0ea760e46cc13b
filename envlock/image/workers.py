"""Worker processes that end with their master, and at its word."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.synchronize import Event
from typing import Protocol, TypeVar

from envlock.image.layer_cache import CachedLayer
from envlock.image.layer_job import LayerJob, RootJob, build_layer, unpack_interpreter

__all__ = ["Workers", "workers"]

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")

_cancelled: list[Event] = []  # of this worker process, set by its initializer


class Workers(Protocol):
    """Where jobs are done."""

    def layer(self, job: LayerJob) -> Future[tuple[CachedLayer, bool]]:
        """Build a layer."""

    def root(self, job: RootJob) -> Future[None]:
        """Unpack an interpreter."""


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """So many worker processes, started as they are needed.

    Leaving the context by an exception cancels what is waiting and has running jobs stop between two entries. An
    interrupt while that is waited for kills the processes: what they leave is scratch, which the next run sweeps.
    """
    others = frozenset(child.pid for child in multiprocessing.active_children())
    # Downloads run in threads of this process, and a forked child of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    cancelled = context.Event()
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(cancelled,))
    try:
        yield _Pool(pool)
    except BaseException:
        _end(pool, others, cancelled)
        raise
    _end(pool, others)


def _end(pool: ProcessPoolExecutor, others: frozenset[int | None], cancelled: Event | None = None) -> None:
    """Wait for the pool's end, which `cancelled` brings nearer."""
    try:
        if cancelled is not None:
            cancelled.set()
        pool.shutdown(wait=True, cancel_futures=True)
    except KeyboardInterrupt:
        for child in multiprocessing.active_children():
            if child.pid not in others:
                child.kill()
        raise


class _Pool:
    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def layer(self, job: LayerJob) -> Future[tuple[CachedLayer, bool]]:
        return self._submit(_run_layer, job)

    def root(self, job: RootJob) -> Future[None]:
        return self._submit(unpack_interpreter, job)

    def _submit(self, work: Callable[[_Job], _Done], job: _Job) -> Future[_Done]:
        # This may start a process, which is to be deaf to Ctrl-C from its first instruction on, not from _begin.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(work, job)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_layer(job: LayerJob) -> tuple[CachedLayer, bool]:
    return build_layer(job, _is_cancelled())


def _is_cancelled() -> Callable[[], bool]:
    return _cancelled[-1].is_set


def _begin(cancelled: Event) -> None:
    """Leave Ctrl-C to the master, and do not outlive it: a killed master's workers would wait for work for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _cancelled.append(cancelled)
    threading.Thread(target=_end_with_master, name="envlock-master-watch", daemon=True).start()


def _end_with_master() -> None:
    master = multiprocessing.parent_process()
    if master is not None:
        connection.wait([master.sentinel])
        os._exit(1)
