"""No log start on disk is beyond all that the other checkpoints know, or a power failure would look like damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.files.run_mark import FILE_NAME
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, append_values, batch, kill, open_log, open_store, read_all

pytestmark = pytest.mark.guarantee("L6")

CONFIG = {"segment.bytes": "100000"}
OTHER = TopicPartition("t", 1)


def lose_the_power(path: str, tp: TopicPartition = TP) -> None:
    """The host is gone, and with it the half of the log that was never synced."""
    Path(path, FILE_NAME).unlink()
    segment = f"{path}/{tp}/{0:020d}.log"
    os.truncate(segment, os.path.getsize(segment) // 2)


def after_delete_records(path: str) -> LogManager:
    """The first log's watermark, 100, was last checkpointed at 60; all that it holds was deleted since."""
    store = open_store(path, Clock(), CONFIG)
    append_values(store, range(100))
    other = store.create(OTHER, TOPIC_ID, {})
    other.append_as_leader(batch(1), 0)
    other.write()
    other.maybe_raise_log_start(1)
    store.checkpoint_recovery_points()
    store.checkpoint_log_start_offsets()
    store.checkpoint_high_watermarks({TP: 60, OTHER: 1})
    open_log(store).maybe_raise_log_start(100)
    return store


def create_another(store: LogManager) -> None:
    """Under the name of one that was checkpointed and deleted: all checkpoints are written without it."""
    store.delete(OTHER)
    store.create(OTHER, TOPIC_ID, {})


def cut_another(store: LogManager) -> None:
    store.logs()[OTHER].truncate_to(0)


@pytest.mark.parametrize(
    "write", [LogManager.checkpoint_log_start_offsets, create_another, cut_another], ids=lambda write: write.__name__
)
def test_log_whose_unsynced_end_was_deleted_and_then_lost_begins_where_it_was_acknowledged(
    path: str, write: Callable[[LogManager], None]
) -> None:
    store = after_delete_records(path)
    write(store)
    kill(store)
    lose_the_power(path)
    store = open_store(path, Clock(), CONFIG)
    assert not store.offline_logs, "what a power failure leaves is not damage"
    log = open_log(store)
    assert (log.log_start_offset, log.staged_end_offset, read_all(log)) == (100, 100, [])
    assert TP in store.unclean, "others may hold what came after"
    assert store.high_watermarks()[TP] == 100
    kill(store)
