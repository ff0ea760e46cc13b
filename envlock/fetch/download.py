"""The files of a lock into the store: in parallel, resumable, verified, and shared with other processes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.fetch.http import Http
from envlock.fetch.partial import Partial
from envlock.fetch.store import Store
from envlock.fetch.transfer import Stopped, Transfers, WrongBytes
from envlock.progress import NO_PROGRESS, Progress, Task

__all__ = ["DownloadReport", "Downloader", "Want"]

_JOIN = 3.0  # seconds to wait for threads that were told to stop; they hold nothing that outlives the process
_BUSY = 0.1  # seconds between looks at a file that another process is fetching


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A file that is wanted: `urls` gives candidate URLs, best first, and is called only when bytes are needed."""

    label: str
    sha256: Digest
    size: int
    urls: Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadReport:
    """What a fetch did: bytes that came by the network, wants served from the store, and how long it took."""

    bytes_fetched: int
    reused: int
    seconds: float


class Downloader:
    """Fetches what the store lacks, over up to `workers` connections at once, the largest files first.

    Each file comes over one connection: several ranges of one file were measured to be slower on an index behind a
    cache, and many files are wanted at once anyway.
    """

    def __init__(
        self,
        store: Store,
        http: Http,
        *,
        workers: int = 8,
        progress: Progress = NO_PROGRESS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._http = http
        self._workers = workers
        self._progress = progress
        self._clock = clock

    def fetch(self, wants: Sequence[Want], *, on_ready: Callable[[Want, Path], None] | None = None) -> DownloadReport:
        """Bring every wanted file into the store; returns when all are there.

        `on_ready` is called with each want and its path as soon as it is there, from a worker's thread, which
        fetches nothing meanwhile: hand long work on. The first error, its own included, stops everything; partial
        files stay for the next run. Raises FaultyInput "hash-mismatch" or "artefact-gone", MachineLacks
        "disk-full", and what `Http.get` raises.
        """
        started = self._clock()
        groups = _grouped(wants)
        missing = [group for group in groups if self._store.find(group[0].sha256, group[0].size) is None]
        self._check_room(missing)
        total = sum(group[0].size for group in missing)
        progress = self._progress if missing else NO_PROGRESS
        task = progress.start(f"fetching {len(missing)} files", total=total)
        digests = frozenset(group[0].sha256 for group in missing)
        run = _Run(
            self._store,
            self._http,
            progress=self._progress,
            task=task,
            groups=groups,
            missing=digests,
            on_ready=on_ready,
        )
        try:
            run.work(min(self._workers, len(groups)))
        finally:
            task.finish()
        seconds = self._clock() - started
        return DownloadReport(bytes_fetched=run.transfers.fetched, reused=run.reused, seconds=seconds)

    def _check_room(self, missing: Sequence[Sequence[Want]]) -> None:
        area = self._store.area("partial")
        needed = 0
        for group in missing:
            part = area / group[0].sha256.hex
            needed += max(0, group[0].size - (part.stat().st_size if part.is_file() else 0))
        free = self._store.free()
        if needed > free:
            raise MachineLacks(
                f"the disk of {self._store.root} has {free:,} bytes left, and {needed:,} more are to be fetched",
                hint="Free some space there, or point XDG_CACHE_HOME at a larger disk.",
                code="disk-full",
            )


def _grouped(wants: Sequence[Want]) -> list[list[Want]]:
    """Wants of the same file together, the largest first: they take longest to fetch and to convert."""
    groups: dict[Digest, list[Want]] = {}
    for want in wants:
        group = groups.setdefault(want.sha256, [])
        group.append(want)
        if group[0].size != want.size:
            raise FaultyInput(
                f"{group[0].label} and {want.label} have one sha256 and two sizes, {group[0].size} and {want.size}",
                hint="The lock was tampered with: lock anew.",
                code="lock-faulty",
            )
    return sorted(groups.values(), key=lambda group: (-group[0].size, group[0].sha256))


class _Run:
    """One fetch under way: a queue, the threads that serve it, and the first error."""

    def __init__(
        self,
        store: Store,
        http: Http,
        *,
        progress: Progress,
        task: Task,
        groups: Sequence[list[Want]],
        missing: frozenset[Digest],
        on_ready: Callable[[Want, Path], None] | None,
    ) -> None:
        self.transfers = Transfers(http)
        self.reused = 0
        self._store = store
        self._progress = progress
        self._task = task
        self._on_ready = on_ready
        self._missing = missing
        self._queue = deque(groups)
        self._left = len(self._queue)
        self._waited: set[Digest] = set()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def work(self, workers: int) -> None:
        """Serve the queue with so many threads; raise the first error."""
        threads = [threading.Thread(target=self._serve, name=f"fetch-{i}", daemon=True) for i in range(workers)]
        try:
            for thread in threads:
                thread.start()
            with self._changed:
                # In slices, as a wait without end cannot be interrupted on every platform.
                while self._left and self._error is None:
                    self._changed.wait(1.0)
        except BaseException:
            self._halt(threads)
            raise
        if self._error is not None:
            self._halt(threads)
            raise self._error
        for thread in threads:
            thread.join()

    def _halt(self, threads: Sequence[threading.Thread]) -> None:
        self.transfers.stop()
        deadline = time.monotonic() + _JOIN
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self) -> None:
        while (group := self._next()) is not None:
            try:
                if self._provide(group):
                    with self._changed:
                        self._left -= 1
                        self._changed.notify_all()
                else:
                    self._wait_for_another(group)
            except Stopped:
                return
            except BaseException as exc:  # noqa: BLE001 (carried over to the caller's thread, which raises it)
                with self._changed:
                    self._error = self._error or exc
                    self._changed.notify_all()
                return

    def _next(self) -> list[Want] | None:
        with self._lock:
            if self.transfers.stopped or self._error is not None or not self._queue:
                return None
            return self._queue.popleft()

    def _wait_for_another(self, group: list[Want]) -> None:
        want = group[0]
        with self._lock:
            self._queue.append(group)
            first = want.sha256 not in self._waited
            self._waited.add(want.sha256)
        if first:
            self._progress.say(f"{want.label} is being fetched by another process; waiting for it")
        self.transfers.pause(_BUSY)

    def _provide(self, group: list[Want]) -> bool:
        """Have the file in the store and tell of it; False if another process holds it just now."""
        want = group[0]
        path, fetched = self._store.find(want.sha256, want.size), False
        if path is None:
            with self._store.try_locked(f"fetch-{want.sha256.hex}") as got:
                if not got:
                    return False
                path = self._store.find(want.sha256, want.size)
                if path is None:
                    path, fetched = self._download(want), True
        if want.sha256 in self._missing and not fetched:  # another process brought it meanwhile
            self._task.advance(want.size)
        with self._lock:
            self.reused += len(group) - fetched
        if self._on_ready is not None:
            self._tell(group, path, self._on_ready)
        return True

    def _tell(self, group: list[Want], path: Path, on_ready: Callable[[Want, Path], None]) -> None:
        for want in group:
            if self.transfers.stopped:  # the caller of fetch has its error, and is told of nothing more
                raise Stopped
            on_ready(want, path)

    def _download(self, want: Want) -> Path:
        file = self._store.area("partial") / want.sha256.hex
        faults: list[EnvlockError] = []
        with self._store.writing(want.size):
            with Partial(file, want.size, self._task.advance) as part:
                for url in _candidates(want, faults):
                    try:
                        self.transfers.complete(url, part, want.sha256, want.label)
                        break
                    except EnvlockError as exc:
                        faults.append(exc)
                else:
                    raise _nowhere(want, faults)
            for fault in faults:
                self._progress.say(f"{want.label} came from another place, as {fault.message}")
            path = self._store.adopt(file, want.sha256, verified=True)
            part.forget()
        return path


def _candidates(want: Want, faults: list[EnvlockError]) -> Iterator[str]:
    """The want's URLs; an index that cannot be asked for them is a fault like another."""
    try:
        yield from want.urls()
    except EnvlockError as exc:
        faults.append(exc)


def _nowhere(want: Want, faults: Sequence[EnvlockError]) -> EnvlockError:
    """The error for a file that no URL gave: wrong bytes before a broken network before plain absence."""
    wrong = [fault for fault in faults if isinstance(fault, WrongBytes)]
    broken = [fault for fault in faults if isinstance(fault, MachineLacks)]
    told = wrong or broken or faults
    if not told or (not wrong and not broken and all(fault.code == "not-found" for fault in told)):
        return FaultyInput(
            f"{want.label} ({want.sha256}) is nowhere to be had" + "".join(f"; {fault.message}" for fault in faults),
            hint="It may have been removed: lock anew, or name an index or mirror that still has it.",
            code="artefact-gone",
        )
    messages = [fault.message if want.label in fault.message else f"{want.label}: {fault.message}" for fault in told]
    return type(told[0])("; ".join(messages), hint=told[0].hint, code=told[0].code)
