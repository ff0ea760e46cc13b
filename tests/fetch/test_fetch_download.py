from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from fetch_server import Recorded, Reply, Server, noise, quick_http

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.fetch.download import Downloader, Want
from envlock.fetch.http import Http
from envlock.fetch.store import Store

SIZE = 3_000_000
BODY = noise(SIZE)
DIGEST = Digest.of(BODY)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def http() -> Iterator[Http]:
    with quick_http() as http:
        yield http


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def want(*urls: str, label: str = "demo-1.0-py3-none-any.whl", body: bytes = BODY) -> Want:
    return Want(label=label, sha256=Digest.of(body), size=len(body), urls=lambda: urls)


def partial(store: Store, digest: Digest = DIGEST) -> Path:
    return store.root / "partial" / digest.hex


def leave_partial(store: Store, data: bytes) -> None:
    partial(store).parent.mkdir(parents=True, exist_ok=True)
    partial(store).write_bytes(data)


def left_behind(store: Store) -> list[str]:
    return [path.name for path in (store.root / "partial").glob("*")]


def test_files_come_into_the_store_and_are_told_of_as_they_do(server: Server, http: Http, store: Store) -> None:
    bodies = [noise(100_000 + i, seed=i) for i in range(12)]
    wants = [want(server.serve(f"/{i}", body), label=f"file {i}", body=body) for i, body in enumerate(bodies)]
    progress = Recorded()
    ready: list[tuple[str, bytes]] = []
    report = Downloader(store, http, workers=4, progress=progress).fetch(
        wants, on_ready=lambda want, path: ready.append((want.label, path.read_bytes()))
    )
    assert sorted(ready) == sorted((f"file {i}", body) for i, body in enumerate(bodies))
    total = sum(map(len, bodies))
    assert (report.bytes_fetched, report.reused) == (total, 0)
    assert (progress.labels, progress.totals, progress.done) == (["fetching 12 files"], [total], total)
    assert progress.finished == 1
    assert left_behind(store) == []


def test_what_is_in_the_store_is_not_fetched_but_told_of(server: Server, http: Http, store: Store) -> None:
    store.put(BODY)
    ready: list[str] = []
    progress = Recorded()
    report = Downloader(store, http, progress=progress).fetch(
        [want(server.url("/x")), want(server.url("/y"), label="twin")],
        on_ready=lambda want, _: ready.append(want.label),
    )
    assert (report.bytes_fetched, report.reused) == (0, 2)
    assert sorted(ready) == ["demo-1.0-py3-none-any.whl", "twin"]
    assert server.asked == []
    assert progress.labels == []


def test_urls_are_not_looked_up_for_what_is_there(http: Http, store: Store) -> None:
    def never() -> Iterable[str]:
        raise AssertionError("looked up")

    store.put(BODY)
    Downloader(store, http).fetch([Want(label="x", sha256=DIGEST, size=SIZE, urls=never)])


def test_two_wants_of_one_file_are_one_download(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", BODY)
    report = Downloader(store, http).fetch([want(url), want(url, label="twin")])
    assert (report.bytes_fetched, report.reused) == (SIZE, 1)
    assert len(server.asked) == 1


def test_one_digest_with_two_sizes_is_a_faulty_lock(http: Http, store: Store) -> None:
    with pytest.raises(FaultyInput, match="one sha256 and two sizes"):
        Downloader(store, http).fetch([want(), Want(label="x", sha256=DIGEST, size=1, urls=tuple)])


def test_nothing_wanted_is_done_at_once(http: Http, store: Store) -> None:
    assert Downloader(store, http).fetch([]).bytes_fetched == 0


def test_a_cut_connection_is_resumed_where_it_broke(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(body=BODY, cut_after=1_000_000), Reply(body=BODY, cut_after=500_000), BODY)
    report = Downloader(store, http).fetch([want(url)])
    assert report.bytes_fetched == SIZE
    first, second, third = server.ranges("/x")
    assert first == ""
    assert second == "bytes=1000000-"
    assert third == "bytes=1500000-"


def test_a_partial_file_of_an_earlier_run_is_continued(server: Server, http: Http, store: Store) -> None:
    leave_partial(store, BODY[:1_234_567])
    progress = Recorded()
    report = Downloader(store, http, progress=progress).fetch([want(server.serve("/x", BODY))])
    assert server.ranges("/x") == ["bytes=1234567-"]
    assert report.bytes_fetched == SIZE - 1_234_567
    assert progress.done == SIZE
    assert store.find(DIGEST, SIZE) is not None
    assert left_behind(store) == []


def test_a_partial_file_that_is_complete_needs_no_request(server: Server, http: Http, store: Store) -> None:
    leave_partial(store, BODY)
    Downloader(store, http).fetch([want(server.serve("/x", BODY))])
    assert server.asked == []
    assert store.find(DIGEST, SIZE) is not None


def test_a_server_that_ignores_ranges_starts_over(server: Server, http: Http, store: Store) -> None:
    leave_partial(store, BODY[:2_000_000])
    progress = Recorded()
    report = Downloader(store, http, progress=progress).fetch(
        [want(server.serve("/x", Reply(body=BODY, ranges=False)))]
    )
    assert report.bytes_fetched == SIZE
    assert progress.done == SIZE


def test_a_server_that_ignores_ranges_and_always_breaks_is_given_up(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(body=BODY, ranges=False, cut_after=1_000_000))
    with pytest.raises(MachineLacks, match="broke off") as caught:
        Downloader(store, http).fetch([want(url)])
    assert caught.value.code == "cut-off"
    assert "demo-1.0" in caught.value.message
    assert len(server.asked) == 6
    assert partial(store).stat().st_size == 1_000_000


def test_a_range_that_the_server_cannot_satisfy_starts_over(server: Server, http: Http, store: Store) -> None:
    leave_partial(store, BODY[:2_000_000])
    url = server.serve("/x", Reply(status=416), BODY)
    Downloader(store, http).fetch([want(url)])
    assert server.ranges("/x") == ["bytes=2000000-", ""]


def test_a_partial_file_with_wrong_bytes_does_not_cost_the_url_its_chance(
    server: Server, http: Http, store: Store
) -> None:
    leave_partial(store, bytes(1_000_000))
    Downloader(store, http).fetch([want(server.serve("/x", BODY))])
    assert server.ranges("/x") == ["bytes=1000000-", ""]
    assert store.find(DIGEST, SIZE) is not None


def test_a_partial_file_that_is_too_long_is_dropped(server: Server, http: Http, store: Store) -> None:
    leave_partial(store, BODY + b"more")
    Downloader(store, http).fetch([want(server.serve("/x", BODY))])
    assert server.ranges("/x") == [""]


def test_if_range_goes_with_the_etag_of_the_same_url(server: Server, http: Http, store: Store) -> None:
    old = Reply(body=bytes(SIZE), headers={"ETag": '"old"'}, cut_after=700_000)
    new = Reply(body=BODY, headers={"ETag": '"new"'})
    Downloader(store, http).fetch([want(server.serve("/x", old, new))])
    assert server.ranges("/x") == ["", "bytes=700000-"]
    assert server.requests("/x")[1].headers["if-range"] == '"old"'
    assert store.find(DIGEST, SIZE) is not None


def test_another_url_continues_what_the_first_began(server: Server, http: Http, store: Store) -> None:
    first = server.serve("/a", Reply(body=BODY, cut_after=900_000), Reply(status=404))
    second = server.serve("/b", BODY)
    progress = Recorded()
    report = Downloader(store, http, progress=progress).fetch([want(first, second)])
    assert server.ranges("/b") == ["bytes=900000-"]
    assert report.bytes_fetched == SIZE
    assert any("came from another place" in line for line in progress.said)


def test_wrong_bytes_are_never_kept_and_the_next_url_is_tried(server: Server, http: Http, store: Store) -> None:
    wrong = bytes([BODY[0] ^ 1]) + BODY[1:]
    urls = server.serve("/a", wrong), server.serve("/b", BODY)
    progress = Recorded()
    Downloader(store, http, progress=progress).fetch([want(*urls)])
    assert store.find(DIGEST, SIZE) is not None
    assert store.find(Digest.of(wrong)) is None
    assert server.ranges("/b") == [""]
    assert progress.done == SIZE


def test_wrong_bytes_everywhere_name_file_hashes_and_masked_urls(server: Server, http: Http, store: Store) -> None:
    wrong = BODY[:-1] + b"?"
    server.serve("/a", wrong)
    url = server.url("/a").replace("//", "//alice:s3cret@") + "?token=t0ken"
    server.serve("/a?token=t0ken", wrong)
    with pytest.raises(FaultyInput) as caught:
        Downloader(store, http).fetch([want(url)])
    message = caught.value.message
    assert caught.value.code == "hash-mismatch"
    assert "demo-1.0-py3-none-any.whl" in message
    assert str(DIGEST) in message
    assert str(Digest.of(wrong)) in message
    assert server.host in message
    assert "s3cret" not in message
    assert "t0ken" not in message
    assert left_behind(store) == []


def test_an_answer_of_another_size_is_refused_before_its_body(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", BODY + b"x")
    with pytest.raises(FaultyInput, match="3,000,001 bytes, not 3,000,000"):
        Downloader(store, http).fetch([want(url)])
    assert left_behind(store) == []


def test_a_body_that_runs_over_is_stopped_at_once(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(body=BODY + noise(50_000_000, 2), chunked=True))
    with pytest.raises(FaultyInput, match="more than the 3,000,000 bytes"):
        Downloader(store, http).fetch([want(url)])
    assert left_behind(store) == []


def test_a_body_that_ends_early_without_a_length_is_resumed(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(body=BODY[:800_000], chunked=True), BODY)
    Downloader(store, http).fetch([want(url)])
    assert server.ranges("/x") == ["", "bytes=800000-"]


@pytest.mark.parametrize("said", ["bytes 0-2999999/3000000", "bytes 1000000-2999999/9999999", "nonsense"])
def test_a_range_that_was_not_asked_for_is_refused(server: Server, http: Http, store: Store, said: str) -> None:
    leave_partial(store, BODY[:1_000_000])
    url = server.serve("/x", Reply(body=BODY, lie_range=said), Reply(body=BODY, lie_range=said))
    Downloader(store, http).fetch([want(url)])
    assert server.ranges("/x") == ["bytes=1000000-", ""]


def test_a_server_that_is_busy_is_asked_again(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(status=503), Reply(status=503), BODY)
    Downloader(store, http).fetch([want(url)])
    assert len(server.asked) == 3


def test_an_outage_in_the_middle_is_sat_out(server: Server, http: Http, store: Store) -> None:
    down = [Reply(status=503)] * (2 * http.settings.attempts)
    url = server.serve("/x", Reply(body=BODY, cut_after=1_000_000), *down, BODY)
    assert Downloader(store, http).fetch([want(url)]).bytes_fetched == SIZE


def test_an_outage_at_the_start_is_told_soon(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(status=503))
    with pytest.raises(MachineLacks) as caught:
        Downloader(store, http).fetch([want(url)])
    assert (caught.value.code, len(server.asked)) == ("server-busy", http.settings.attempts)


def test_a_redirect_is_followed_and_credentials_stay_behind(server: Server, http: Http, store: Store) -> None:
    with Server() as other:
        there = other.serve("/there", BODY)
        server.serve("/x", Reply(status=302, headers={"Location": there}))
        Downloader(store, http).fetch([want(server.url("/x").replace("//", "//alice:s3cret@"))])
        assert "authorization" in server.asked[0].headers
        assert "authorization" not in other.asked[0].headers


def test_a_file_that_no_place_has_is_gone(server: Server, http: Http, store: Store) -> None:
    with pytest.raises(FaultyInput, match=r"demo-1\.0-py3-none-any\.whl .* nowhere to be had.*404") as caught:
        Downloader(store, http).fetch([want(server.url("/a"))])
    assert caught.value.code == "artefact-gone"
    with pytest.raises(FaultyInput, match="nowhere to be had"):
        Downloader(store, http).fetch([want()])


def test_an_index_that_cannot_be_asked_is_told(http: Http, store: Store) -> None:
    def urls() -> Iterator[str]:
        raise MachineLacks("the index is down", hint="wait", code="server-busy")
        yield ""

    with pytest.raises(MachineLacks, match="demo: the index is down") as caught:
        Downloader(store, http).fetch([Want(label="demo", sha256=DIGEST, size=SIZE, urls=urls)])
    assert caught.value.code == "server-busy"


def test_a_local_file_is_copied_and_checked(tmp_path: Path, http: Http, store: Store) -> None:
    good, wrong = tmp_path / "good.whl", tmp_path / "wrong.whl"
    good.write_bytes(BODY)
    wrong.write_bytes(bytes(SIZE))
    missing = tmp_path / "missing.whl"
    report = Downloader(store, http).fetch([want(*(path.as_uri() for path in (missing, wrong, good)))])
    assert report.bytes_fetched == 0
    assert store.find(DIGEST, SIZE) is not None
    assert good.read_bytes() == BODY


class SmallDisk(Store):
    def free(self) -> int:
        return 1_000_000


def test_room_is_looked_at_first_and_what_is_there_already_counts(server: Server, http: Http, tmp_path: Path) -> None:
    store = SmallDisk(tmp_path)
    url = server.serve("/x", BODY)
    with pytest.raises(MachineLacks, match="1,000,000 bytes left, and 3,000,000 more") as caught:
        Downloader(store, http).fetch([want(url)])
    assert caught.value.code == "disk-full"
    assert server.asked == []
    leave_partial(store, BODY[:2_000_000])
    Downloader(store, http).fetch([want(url)])


class FullDisk(Store):
    def _sync(self, descriptor: int) -> None:
        raise OSError(28, "No space left on device", descriptor)


def test_a_disk_that_fills_up_is_told(server: Server, http: Http, tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match=r"is full: 3,000,000 more bytes") as caught:
        Downloader(FullDisk(tmp_path), http).fetch([want(server.serve("/x", BODY))])
    assert caught.value.code == "disk-full"


def test_the_first_failure_stops_the_others_promptly_and_keeps_their_partials(
    server: Server, http: Http, store: Store
) -> None:
    slow = server.serve("/slow", Reply(body=BODY, pace=0.1, block=50_000))
    bad = noise(1000, 7)
    server.serve("/bad", Reply(body=bytes(1000), delay=0.5))
    started = time.monotonic()
    with pytest.raises(FaultyInput):
        Downloader(store, http).fetch([want(slow), want(server.url("/bad"), label="bad", body=bad)])
    assert time.monotonic() - started < 2.5
    assert 0 < partial(store).stat().st_size < SIZE


def test_an_error_of_on_ready_stops_everything(server: Server, http: Http, store: Store) -> None:
    def broken(_: Want, __: Path) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Downloader(store, http).fetch([want(server.serve("/x", BODY))], on_ready=broken)


def test_a_server_that_hangs_does_not_hold_up_a_failure(server: Server, http: Http, store: Store) -> None:
    hangs = server.serve("/hangs", Reply(body=BODY, cut_after=100_000, pace=4.0, block=50_000))
    started = time.monotonic()
    with pytest.raises(FaultyInput):
        Downloader(store, http).fetch([want(hangs), want(server.url("/none"), label="bad", body=b"x")])
    assert time.monotonic() - started < 3.9


PROGRAM = """
import sys
from pathlib import Path
from envlock.digest import Digest
from envlock.errors import EnvlockError
from envlock.fetch.download import Downloader, Want
from envlock.fetch.http import Http
from envlock.fetch.model import HttpSettings
from envlock.fetch.store import Store
root, digest, size, url = sys.argv[1:]
with Http(HttpSettings()) as http:
    want = Want(label="demo", sha256=Digest(digest), size=int(size), urls=lambda: [url])
    print(Downloader(Store(Path(root)), http).fetch([want]).bytes_fetched)
"""


def start(store: Store, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(store.root), DIGEST.hex, str(SIZE), url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_download_that_was_killed_goes_on_where_it_was(
    server: Server, http: Http, store: Store, sign: signal.Signals
) -> None:
    url = server.serve("/x", Reply(body=BODY, pace=0.05, block=100_000), BODY)
    process = start(store, url)
    with process:
        wait_until(lambda: partial(store).exists() and partial(store).stat().st_size >= 1_000_000)
        stopped = time.monotonic()
        process.send_signal(sign)
        process.communicate()
    assert time.monotonic() - stopped < 2
    assert process.returncode != 0
    have = partial(store).stat().st_size
    report = Downloader(store, http).fetch([want(url)])
    assert server.ranges("/x") == ["", f"bytes={have}-"]
    assert report.bytes_fetched == SIZE - have


def test_two_processes_fetch_one_file_once(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(body=BODY, pace=0.02, block=100_000))
    with start(store, url) as process:
        wait_until(lambda: len(server.asked) == 1)
        progress = Recorded()
        report = Downloader(store, http, progress=progress).fetch([want(url)])
        output, _ = process.communicate()
    assert output.strip() == str(SIZE)
    assert (report.bytes_fetched, report.reused) == (0, 1)
    assert len(server.asked) == 1
    assert progress.said == ["demo-1.0-py3-none-any.whl is being fetched by another process; waiting for it"]
    assert progress.done == SIZE


def test_a_process_that_dies_while_another_waits_leaves_it_the_rest(server: Server, http: Http, store: Store) -> None:
    url = server.serve("/x", Reply(body=BODY, pace=0.05, block=100_000), BODY)
    reports = []
    with start(store, url) as process:
        wait_until(lambda: partial(store).exists() and partial(store).stat().st_size >= 1_000_000)
        waiter = threading.Thread(target=lambda: reports.append(Downloader(store, http).fetch([want(url)])))
        waiter.start()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    waiter.join()
    assert 0 < reports[0].bytes_fetched <= SIZE - 1_000_000


def test_offline_is_told(server: Server, store: Store) -> None:
    with quick_http(offline=True) as http, pytest.raises(EnvlockError) as caught:
        Downloader(store, http).fetch([want(server.serve("/x", BODY))])
    assert caught.value.code == "offline"
    assert server.asked == []
