"""A file of leader epochs of another time: a batch that a start reads contradicts it, and tells the epochs instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.core.replication.epochs import EpochEnd, diverging_epoch
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.log.recovery.loader import RecoveryReport
from broker.model.log_errors import CorruptLog
from tests.property.log.log_tools import TP, Clock, append_values, batch, kill, open_log, open_store, read_all

pytestmark = pytest.mark.guarantee("L6")

ONE_SEGMENT: dict[str, str] = {}
SEGMENTS = {"segment.bytes": "700", "index.interval.bytes": "100"}
EPOCHS = [(1, 0), (2, 10)]


def epoch_file(path: str) -> Path:
    return Path(path, str(TP), "leader-epoch-checkpoint")


def put_older_file(path: str) -> None:
    epoch_file(path).write_text("0\n1\n1 0\n")


def filled(path: str, config: dict[str, str]) -> LogManager:
    """Epoch 1 from 0, epoch 2 from 10, end 40; all durable, and the checkpoint says so."""
    store = open_store(path, Clock(), config)
    append_values(store, range(10), epoch=1)
    append_values(store, range(10, 40), epoch=2)
    open_log(store).flush()
    store.checkpoint_recovery_points()
    assert open_log(store).epochs == EPOCHS
    return store


def stop(store: LogManager, clean: bool) -> None:
    if clean:
        store.close(clean=True)
    else:
        kill(store)


def started(path: str, config: dict[str, str]) -> tuple[LogManager, PartitionLog, RecoveryReport]:
    store = open_store(path, Clock(), config)
    (report,) = store.reports
    return store, open_log(store), report


@pytest.mark.parametrize("config", [ONE_SEGMENT, SEGMENTS], ids=["one segment", "segments"])
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_older_epoch_file_put_back_under_a_running_broker_is_not_believed(
    path: str, config: dict[str, str], clean: bool
) -> None:
    store = filled(path, config)
    put_older_file(path)
    stop(store, clean)
    store, log, report = started(path, config)
    assert log.epochs == EPOCHS
    assert (report.clean, report.leo, report.cut_below) == (False, 40, None)
    append_values(store, range(40, 42), epoch=3)
    assert log.end_offset_for_epoch(1) == (1, 10)
    assert diverging_epoch(log.end_offset_for_epoch, 1, 15) == EpochEnd(1, 10), "a deposed leader keeps its tail"
    store.close(clean=True)
    assert epoch_file(path).read_text() == "0\n3\n1 0\n2 10\n3 40\n"
    store, log, report = started(path, config)
    assert (report.clean, report.reason) == (True, "")
    kill(store)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_report_says_what_contradicts_the_epoch_file(path: str, clean: bool) -> None:
    store = filled(path, SEGMENTS)
    bases = open_log(store).segment_base_offsets
    put_older_file(path)
    stop(store, clean)
    store, _, report = started(path, SEGMENTS)
    contradicted = 39 if clean else next(base for base in bases if base > 10) - 1
    assert f"says 1 of offset {contradicted}, the batch there 2" in report.reason
    assert TP not in store.unclean, "all that was acknowledged is there"
    kill(store)


def test_older_epoch_file_is_not_believed_where_the_active_segment_is_empty(path: str) -> None:
    store = filled(path, SEGMENTS)
    log = open_log(store)
    end = log.segment_base_offsets[-1]
    log.truncate_to(end)
    assert (log.staged_end_offset, log.segment_base_offsets[-1]) == (end, end)
    put_older_file(path)
    store.close(clean=True)
    store, log, report = started(path, SEGMENTS)
    assert (log.epochs, report.clean) == (EPOCHS, False)
    kill(store)


def test_epoch_that_a_wrong_digit_moved_beyond_the_end_is_derived_from_the_batches(path: str) -> None:
    filled(path, ONE_SEGMENT).close(clean=True)
    epoch_file(path).write_text("0\n2\n1 0\n2 90\n")
    store, log, report = started(path, ONE_SEGMENT)
    assert (log.epochs, report.clean) == (EPOCHS, False)
    kill(store)


def set_epoch(path: str, offset: int, epoch: int) -> None:
    """In the header of the batch at this offset, whose CRC does not cover it."""
    folder = Path(path, str(TP))
    base = max(int(file.stem) for file in folder.glob("*.log") if int(file.stem) <= offset)
    with (folder / f"{base:020d}.log").open("r+b") as file:
        data = file.read()
        size = int.from_bytes(data[8:12], "big") + 12
        file.seek((offset - base) * size + 12)
        file.write(epoch.to_bytes(4, "big"))


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_damaged_epoch_of_a_batch_is_no_proof_against_the_file(path: str, clean: bool) -> None:
    store = filled(path, SEGMENTS)
    rows = read_all(open_log(store))
    # What is read of the older segments is the last batch of each.
    offset = 39 if clean else open_log(store).segment_base_offsets[-2] - 1
    damaged = 0 if clean else 2 + (1 << 20)
    stop(store, clean)
    set_epoch(path, offset, damaged)
    store, log, report = started(path, SEGMENTS)
    assert log.epochs == EPOCHS
    assert (report.clean, report.reason) == (clean, "")
    assert [row[:12] + row[16:] for row in read_all(log)] == [row[:12] + row[16:] for row in rows]
    kill(store)


def test_epoch_file_that_is_not_believed_says_nothing_of_the_log_s_beginning(path: str) -> None:
    store = filled(path, SEGMENTS)
    first = open_log(store).segment_base_offsets[2]
    kill(store)
    for file in Path(path, str(TP)).iterdir():
        if file.stem.isdigit() and int(file.stem) < first:
            file.unlink()
    # That of another log, which began later.
    epoch_file(path).write_text("0\n1\n1 20\n")
    store = open_store(path, Clock(), SEGMENTS)
    assert isinstance(store.offline_logs[TP], CorruptLog)
    kill(store)


# What looks like it and is in order


def take_up_an_epoch(log: PartitionLog) -> None:
    log.assign_epoch(5, log.staged_end_offset)


def take_up_two_epochs(log: PartitionLog) -> None:
    log.assign_epoch(5, log.staged_end_offset)
    log.assign_epoch(6, log.staged_end_offset)


def stage_and_drop(log: PartitionLog) -> None:
    log.append_as_leader(batch(99), 7)
    log.discard_staged()


def cut_into_the_older_epoch(log: PartitionLog) -> None:
    log.truncate_to(7)


def cut_and_append_under_a_newer_epoch(log: PartitionLog) -> None:
    log.truncate_to(7)
    log.append_as_leader(batch(99), 4)
    log.write()


def raise_the_start(log: PartitionLog) -> None:
    log.maybe_raise_log_start(25)
    log.delete_old_segments(0, 40)


def raise_the_start_to_the_end(log: PartitionLog) -> None:
    log.maybe_raise_log_start(40)


def raise_the_start_into_a_batch(log: PartitionLog) -> None:
    log.append_as_leader(batch(99, 5), 4)
    log.write()
    log.maybe_raise_log_start(43)


def follow_over_a_hole(log: PartitionLog) -> None:
    log.allow_holes()
    view = batch(99)
    view[0:8] = (55).to_bytes(8, "big")
    view[12:16] = (4).to_bytes(4, "big")
    log.append_as_follower(view)
    log.write()


def follow_without_an_epoch(log: PartitionLog) -> None:
    view = batch(99)
    view[0:8] = (40).to_bytes(8, "big")
    view[12:16] = b"\xff" * 4
    log.append_as_follower(view)
    log.write()


def begin_anew(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(100)
    log.append_as_leader(batch(99), 4)
    log.write()


@pytest.mark.parametrize(
    "change",
    [
        take_up_an_epoch,
        take_up_two_epochs,
        stage_and_drop,
        cut_into_the_older_epoch,
        cut_and_append_under_a_newer_epoch,
        raise_the_start,
        raise_the_start_to_the_end,
        raise_the_start_into_a_batch,
        follow_over_a_hole,
        follow_without_an_epoch,
        begin_anew,
    ],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_epoch_file_of_a_log_in_order_is_believed(
    path: str, change: Callable[[PartitionLog], None], clean: bool
) -> None:
    overrides = {TP.topic: {"cleanup.policy": "delete"}} if change is follow_over_a_hole else {}
    store = filled(path, SEGMENTS)
    change(open_log(store))
    stop(store, clean)
    store = open_store(path, Clock(), SEGMENTS, topic_configs=overrides)
    (report,) = store.reports
    assert (report.clean, report.reason) == (clean, "")
    stop(store, clean)
