"""The host is lost, and what a checkpoint said cannot be read: a compacted log keeps what was on disk all the same."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.log.files.checkpoints import RECOVERY_POINTS
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.files.run_mark import FILE_NAME
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from tests.property.log.compaction_tools import COMPACTED, PatientClock, cleaner_for, keyed, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, batch, folder, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L6")

OTHER = TopicPartition("t", 1)


@pytest.fixture
def path() -> Iterator[str]:
    with folder() as found:
        yield f"{found}/data"


def opened(path: str) -> LogManager:
    return open_store(path, Clock(), COMPACTED)


def append(store: LogManager, numbers: range, keys: int) -> None:
    log = open_log(store)
    for number in numbers:
        log.append_as_leader(keyed([(b"%d" % (number % keys), b"%d" % number * 8)]), 0)
        log.write()


def cleaned(path: str) -> list[int]:
    """A log with holes between its segments, all of it flushed, and its host lost; the offsets of its records."""
    clock = Clock()
    store = open_store(path, clock, COMPACTED)
    append(store, range(200), 3)
    open_log(store).flush()
    cleaner_for(store, clock).cleaner.check()
    append(store, range(200, 260), 1000)
    return flushed(store, path)


def cleaned_halfway(path: str) -> list[int]:
    """As `cleaned`, but the cleaning had not come to its end: its checkpoint says nothing of the holes."""
    clock = PatientClock()
    store = open_store(path, clock, COMPACTED)
    append(store, range(20), 1000)
    append(store, range(20, 200), 3)
    clock.work()
    open_log(store).flush()
    cleaner_for(store, clock).cleaner.check()
    # Three waits for each group.
    clock.work(3 * 6)
    assert open_log(store).cleaning.cleaned_until == 0
    append(store, range(200, 260), 1000)
    return flushed(store, path)


def flushed(store: LogManager, path: str) -> list[int]:
    log = open_log(store)
    log.flush()
    store.checkpoint_recovery_points()
    records = records_of(log)
    assert len(records) < log.staged_end_offset
    found = [record.offset for record in records]
    kill(store)
    lose_the_host(path)
    return found


def lose_the_host(path: str) -> None:
    Path(path, FILE_NAME).unlink()


def remove(path: Path) -> None:
    path.unlink()


def spoil_row(path: Path) -> None:
    path.write_text(path.read_text().replace("t 0 ", "t 0 x"))


def spoil_count(path: Path) -> None:
    path.write_text("0\n5\nt 0 260\n")


SPOIL = pytest.mark.parametrize("spoil", [remove, spoil_row, spoil_count], ids=lambda spoil: spoil.__name__)


@SPOIL
def test_holes_below_what_was_cleaned_are_believed_without_a_recovery_point(
    path: str, spoil: Callable[[Path], None]
) -> None:
    offsets = cleaned(path)
    spoil(Path(path, RECOVERY_POINTS))
    store = opened(path)
    assert [record.offset for record in records_of(open_log(store))] == offsets
    assert TP in store.unclean
    kill(store)


def open_files(path: str) -> list[str]:
    """Files below a folder that this process has open."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [name for name in found if name.startswith(path + "/")]


@SPOIL
def test_hole_that_nothing_vouches_for_keeps_the_log_offline_and_whole(
    path: str, spoil: Callable[[Path], None]
) -> None:
    offsets = cleaned_halfway(path)
    spoil(Path(path, RECOVERY_POINTS))
    # Of flushes that this life's clock never carried out.
    held = sorted(open_files(f"{path}/{TP}"))
    for _ in range(3):
        store = opened(path)
        assert "recovery point" in str(store.offline_logs[TP])
        assert sorted(open_files(f"{path}/{TP}")) == held, "an offline log holds no descriptors"
        # The file has the other logs' rows from here on: that it has none of this one is no news.
        store.checkpoint_recovery_points()
        kill(store)
        lose_the_host(path)
    Path(path, RECOVERY_POINTS).write_text("0\n1\nt 0 260\n")
    store = opened(path)
    assert [record.offset for record in records_of(open_log(store))] == offsets, "an operator has vouched for it"
    kill(store)


def test_log_offline_for_want_of_a_recovery_point_is_restored_from_its_leader(path: str) -> None:
    offsets = cleaned_halfway(path)
    Path(path, RECOVERY_POINTS).unlink()
    store = opened(path)
    assert store.offline_logs
    log = store.restore(TP, TOPIC_ID, {})
    assert 17 < log.staged_end_offset < 200
    assert [record.offset for record in records_of(log)] == [
        offset for offset in offsets if offset < log.staged_end_offset
    ]
    kill(store)


def test_restored_log_keeps_its_holes_when_its_policy_changes_after_the_cleaners_checkpoint_was_lost(path: str) -> None:
    """Only that checkpoint tells a start that a log without the policy may have holes."""
    cleaned(path)
    Path(path, CLEANER_OFFSETS).unlink()
    with max(Path(path, "t-0").glob("*.log")).open("r+b") as file:
        file.seek(65)
        file.write(b"\xff" * 8)
    store = opened(path)
    assert TP in store.offline_logs
    kept = records_of(store.restore(TP, TOPIC_ID, {}))
    assert len(kept) < kept[-1].offset
    store.close(clean=True)
    store = open_store(path, Clock())
    assert records_of(open_log(store)) == kept
    kill(store)


def test_new_log_torn_between_segments_in_the_first_minute_of_its_dir_is_cut(path: str) -> None:
    """No checkpoint of recovery points was due yet: that there is no row says that nothing was flushed."""
    store = opened(path)
    append(store, range(30), 1000)
    second = open_log(store).segment_base_offsets[1]
    kill(store)
    lose_the_host(path)
    first = Path(path, "t-0", f"{0:020d}.log")
    with first.open("r+b") as file:
        file.truncate(first.stat().st_size // second)
    store = opened(path)
    assert (store.offline_logs, open_log(store).staged_end_offset) == ({}, 1)
    kill(store)


def test_hole_is_not_believed_for_a_checkpoint_of_what_recovery_has_cut_since(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, COMPACTED)
    append(store, range(100), 1000)
    open_log(store).flush()
    cleaner_for(store, clock).cleaner.check()
    cleaned_until, bases = open_log(store).cleaning.cleaned_until or 0, open_log(store).segment_base_offsets
    kill(store)
    with Path(path, "t-0", f"{bases[3]:020d}.log").open("r+b") as file:
        file.seek(65)
        file.write(b"\xff" * 8)
    lose_the_host(path)
    Path(path, RECOVERY_POINTS).unlink()
    store = opened(path)
    end = open_log(store).staged_end_offset
    assert end == bases[3]
    append(store, range(30), 1000)
    torn, behind = [base for base in open_log(store).segment_base_offsets if base > end][:2]
    assert behind < cleaned_until
    kill(store)
    lose_the_host(path)
    with Path(path, "t-0", f"{torn:020d}.log").open("r+b") as file:
        file.truncate(0)
    Path(path, RECOVERY_POINTS).write_text(f"0\n1\nt 0 {end}\n")
    store = opened(path)
    assert open_log(store).staged_end_offset == torn
    kill(store)


def test_malformed_row_voids_no_other(path: str) -> None:
    store = opened(path)
    append(store, range(10), 1000)
    other = store.create(OTHER, TOPIC_ID, {})
    other.append_as_leader(batch(1), 0)
    store.close(clean=True)
    file = Path(path, RECOVERY_POINTS)
    for bad in (b"t 1 \xf1", b"t 1", b"t 1 1 1", b"\xff 1 1"):
        file.write_bytes(b"0\n2\nt 0 10\n" + bad + b"\n")
        store = opened(path)
        assert {report.topic_partition: report.recovery_point for report in store.reports} == {TP: 10, OTHER: 0}
        kill(store)
