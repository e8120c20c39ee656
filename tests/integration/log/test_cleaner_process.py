"""A cleaning in its own process: it does the work, says how it ended, and outlives nobody."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.cleaner.cleaner import CleanedGroup, CleaningJob
from broker.log.cleaner.process import CleaningEnd, Event, ProcessRunner, decode_job, encode_job
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.indexes.aborted_txn import AbortedTxn
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.compaction_tools import COMPACTED, Replicas, keyed, last_values, records_of
from tests.property.log.log_tools import TP, Clock, kill, open_log, open_store
from tests.support.thread_limit import refuse_threads

pytestmark = pytest.mark.guarantee("L3", "no-thread")


class Loop:
    """Takes calls from other threads and runs them here."""

    def __init__(self) -> None:
        self._calls: queue.Queue[Callable[[], None]] = queue.Queue()
        self.call_soon_threadsafe = self._calls.put

    def run_until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while not condition():
            self._calls.get(timeout=max(0.01, until - time.monotonic()))()


def _filled(path: str) -> tuple[LogManager, PartitionLog]:
    store = open_store(path, Clock(), COMPACTED | {"segment.bytes": "20000"})
    log = open_log(store)
    for n in range(2000):
        log.append_as_leader(keyed([(b"k%d" % (n % 10), b"v%d" % n * 5)]), 0)
    log.write()
    return store, log


def _job(log: PartitionLog, **changes: object) -> CleaningJob:
    segments = log.cleaning.inactive_segments(log.staged_end_offset)
    fields: dict[str, object] = {
        "directory": log.path,
        "bases": [segment.base_offset for segment in segments],
        "sizes": [segment.size for segment in segments],
        "first_dirty": 0,
        "first_uncleanable": log.segment_base_offsets[-1],
        "now_ms": 1000,
        "delete_retention_ms": 0,
        "segment_bytes": 20000,
        "index_bytes_max": 1 << 20,
        "interval_bytes": 4096,
    }
    return CleaningJob(**fields | changes)  # type: ignore[arg-type]


def _cleaned_names(log: PartitionLog) -> list[str]:
    return [name for name in os.listdir(log.path) if name.endswith(".cleaned")]


def test_job_survives_its_way_to_the_process(tmp_path: Path) -> None:
    store, log = _filled(str(tmp_path))
    of_transactions = _job(log, epochs={8: 3}, aborted=(AbortedTxn(8, 1, 2, 3),))
    for job in (_job(log), _job(log, bytes_per_second=5.5, producers={7: 12}), of_transactions):
        assert decode_job(encode_job(job)) == job
    kill(store)


def test_process_cleans_a_log_from_start_to_swap(tmp_path: Path) -> None:
    store, log = _filled(str(tmp_path))
    loop = Loop()
    runner = ProcessRunner(loop.call_soon_threadsafe)
    before = last_values(records_of(log))
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: 1e6)
    cleaner.check()
    loop.run_until(lambda: cleaner.runs == 1)
    assert len(records_of(log)) < 500
    assert last_values(records_of(log)) == before
    assert not _cleaned_names(log)
    cleaner.close()
    runner.close()
    kill(store)


def test_cleaning_that_no_thread_can_be_started_for_is_tried_again_and_waited_for_by_nobody(tmp_path: Path) -> None:
    store, log = _filled(str(tmp_path))
    loop = Loop()
    runner = ProcessRunner(loop.call_soon_threadsafe)
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: 1e6)
    with pytest.MonkeyPatch.context() as patch:
        refuse_threads(patch)
        cleaner.check()
        runner.close()
    assert cleaner.runs == 0
    loop.run_until(lambda: not cleaner._running, seconds=5)
    cleaner.check()
    loop.run_until(lambda: cleaner.runs == 1)
    assert len(records_of(log)) < 500
    cleaner.close()
    runner.close()
    kill(store)


@pytest.mark.parametrize("line", ["hello", "0", "null", "{}", '{"end": {"outcome": "done", "stats": {"x": 1}}}'])
def test_process_that_writes_what_is_no_event_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"print({line!r}, flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    store, log = _filled(str(tmp_path / "logs"))
    loop = Loop()
    runner = ProcessRunner(loop.call_soon_threadsafe)
    events: list[Event] = []
    runner.start(_job(log), events.append)
    loop.run_until(lambda: bool(events), seconds=20)
    [end] = events
    assert isinstance(end, CleaningEnd)
    assert end.outcome == "died"
    runner.close()
    kill(store)


def test_process_that_is_stopped_leaves_the_log_as_it_is(tmp_path: Path) -> None:
    store, log = _filled(str(tmp_path))
    loop = Loop()
    runner = ProcessRunner(loop.call_soon_threadsafe)
    events: list[Event] = []
    # Slow enough not to end by itself.
    stop = runner.start(_job(log, bytes_per_second=20_000.0), events.append)
    stop()
    loop.run_until(lambda: any(isinstance(event, CleaningEnd) for event in events))
    end = events[-1]
    # Before or after it had read its job.
    assert isinstance(end, CleaningEnd)
    assert end.outcome == "died"
    assert len(records_of(log)) == 2000
    runner.close()
    kill(store)


def test_cleaning_is_called_off_when_the_partition_is_deleted_and_leaves_the_dir_alone(tmp_path: Path) -> None:
    store, _ = _filled(str(tmp_path))
    loop = Loop()
    runner = ProcessRunner(loop.call_soon_threadsafe)
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(bytes_per_second=50_000.0), lambda: 1e6)
    cleaner.check()
    store.delete(TP)
    cleaner.check()
    loop.run_until(lambda: not cleaner._running)
    assert not store.offline_dirs
    assert not cleaner.uncleanable
    runner.close()
    kill(store)


def test_damaged_log_is_uncleanable_and_nothing_of_it_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, log = _filled(str(tmp_path))
    path = log.cleaning.inactive_segments(log.staged_end_offset)[1].path(".log")
    with open(path, "r+b") as file:
        file.seek(5000)
        byte = file.read(1)[0]
        file.seek(5000)
        file.write(bytes([byte ^ 0x10]))
    before = {name: os.stat(f"{log.path}/{name}").st_size for name in os.listdir(log.path)}
    loop = Loop()
    runner = ProcessRunner(loop.call_soon_threadsafe)
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: 1e6)
    cleaner.check()
    loop.run_until(lambda: bool(cleaner.uncleanable))
    assert path in cleaner.uncleanable[TP][1]
    assert "CRC32C" in cleaner.uncleanable[TP][1]
    assert f"{TP} is not cleaned any more" in caplog.text
    assert {name: os.stat(f"{log.path}/{name}").st_size for name in os.listdir(log.path)} == before
    cleaner.check()
    assert not cleaner._running
    runner.close()
    kill(store)


def test_process_keeps_to_its_rate(tmp_path: Path) -> None:
    store, log = _filled(str(tmp_path))
    loop = Loop()
    runner = ProcessRunner(loop.call_soon_threadsafe)
    events: list[Event] = []
    bytes_read = 2 * sum(segment.size for segment in log.cleaning.inactive_segments(log.staged_end_offset))
    rate = bytes_read / 2.0
    begin = time.monotonic()
    runner.start(_job(log, bytes_per_second=rate), events.append)
    loop.run_until(lambda: any(isinstance(event, CleaningEnd) for event in events))
    assert time.monotonic() - begin >= 1.3
    end = events[-1]
    assert isinstance(end, CleaningEnd)
    assert end.stats is not None
    assert end.stats.bytes_read == bytes_read
    assert isinstance(events[0], CleanedGroup)
    runner.close()
    kill(store)


_PARENT = """
import sys, time
from broker.log.cleaner.process import ProcessRunner, decode_job
runner = ProcessRunner(lambda call: None)
runner.start(decode_job(sys.stdin.buffer.readline()), lambda event: None)
while next(iter(runner._running)).process is None:
    time.sleep(0.01)
print(next(iter(runner._running)).process.pid, flush=True)
time.sleep(60)
"""


def test_process_dies_with_its_broker(tmp_path: Path) -> None:
    store, log = _filled(str(tmp_path))
    job = encode_job(_job(log, bytes_per_second=1000.0))
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(job + b"\n")
        parent.stdin.flush()
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        parent.kill()
    until = time.monotonic() + 10
    while _lives(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _lives(child)
    kill(store)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
