"""Worker processes that end with their master, and at its word."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection
from typing import Protocol, TypeVar

from envlock.image.layer_cache import CachedLayer
from envlock.image.layer_job import LayerJob, RootJob, build_layer, unpack_interpreter

__all__ = ["Workers", "workers"]

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")

_cancelled: list[ctypes.c_byte] = []  # of this worker process, set by its initializer


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
    cancelled = context.RawValue(ctypes.c_byte, 0)  # with no lock, which a killed worker could take along
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(cancelled,))
    with _one_interrupt(others):
        try:
            yield _Pool(pool)
        except BaseException:
            cancelled.value = 1
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_interrupt(others: frozenset[int | None]) -> Iterator[None]:
    """Raise the first interrupt alone; later ones kill the workers, so that none strikes amid the pool's end."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    interrupted = False

    def handle(_number: int, _frame: object) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt
        for child in multiprocessing.active_children():
            if child.pid not in others:
                child.kill()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    flag = _cancelled[-1]
    return lambda: bool(flag.value)


def _begin(cancelled: ctypes.c_byte) -> None:
    """Leave Ctrl-C to the master, and do not outlive it: a killed master's workers would wait for work for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _cancelled.append(cancelled)
    threading.Thread(target=_end_with_master, name="envlock-master-watch", daemon=True).start()


def _end_with_master() -> None:
    master = multiprocessing.parent_process()
    if master is not None:
        connection.wait([master.sentinel])
        os._exit(1)
