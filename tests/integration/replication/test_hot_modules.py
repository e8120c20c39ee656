"""What records, offset commits and transactions pass through is what `make compiled` compiles: a part split off is not
forgotten.
"""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path

import pytest

from broker.core.transaction.states import TransactionState
from broker.wire.errors import ErrorCode
from broker.wire.records import NewRecord, encode_batch
from tests.support.brokers import ROOT
from tests.support.calls import Calls
from tests.support.coordinating import Coordinating
from tests.support.coordinating import here as here
from tests.support.disk_cluster import DiskCluster
from tests.support.group_world import GroupWorld, commit_error
from tests.support.memory_cluster import fetched, produced
from tests.support.memory_node import FakeSlot
from tests.support.transactional_ids import P0

INTERPRETED = {
    "broker/log/files/log_dir.py": "two look-ups for each write",
    "broker/log/files/run_mark.py": "an end, packed into a page of memory for each write",
    "broker/log/log_manager.py": "this test's cluster asks for its logs",
    "broker/log/manager/log_dirs.py": "this test's cluster asks for its logs",
    "broker/log/manager/open_logs.py": "this test's cluster asks for its logs",
    "broker/runtime/event_log.py": "of the lab; a broker that is deployed writes none",
    "broker/wire/api.py": "which header an answer has, from a cache",
}
"""Modules that run as sources on that way, each with the reason why."""

OF_COMMITS = {
    "broker/core/group/errors.py": "one look-up for each commit",
    "broker/core/group/group.py": "one check for each commit",
    "broker/runtime/coordinators/partitions.py": "tests replace its methods",
    "broker/runtime/group/coordinator.py": "two look-ups for each commit",
    "broker/runtime/metadata/cache.py": "two look-ups for each commit",
    "broker/runtime/requests/decoding.py": "a call around schema.py",
    "broker/wire/api.py": "which header an answer has, from a cache",
    "broker/wire/coordinator_records/offsets_topic.py": "its records are classes of schema.py",
    "broker/wire/schema.py": "interpreted classes cannot inherit from compiled ones",
}
OF_TRANSACTIONS = {
    "broker/core/transaction/upkeep.py": "one look at the state for each change",
    "broker/runtime/transaction/coordinator.py": "tests replace its methods",
    "broker/runtime/transaction/following.py": "the coordinator's, a few lines for each transaction",
    "broker/wire/coordinator_records/versioned.py": "its records are classes of schema.py",
    "broker/wire/schema.py": "interpreted classes cannot inherit from compiled ones",
}


@pytest.mark.patches
@pytest.mark.parametrize("acks", [1, -1])
def test_all_that_a_record_passes_through_is_compiled_but_for_what_is_named(cluster: DiskCluster, acks: int) -> None:
    cluster.elect(1)
    cluster.settle()
    slots: list[FakeSlot] = []

    def produce_replicate_and_read(batch: memoryview, offset: int) -> None:
        slots.append(cluster.produce_raw(1, batch, acks))
        cluster.settle()
        slots.append(cluster.fetch(1, offset))
        cluster.settle()

    batch = memoryview(bytearray(encode_batch([NewRecord(None, b"value")], timestamps=1)))
    produce_replicate_and_read(batch, 0)  # it begins a leader epoch, which others do not
    calls = Calls().during(partial(produce_replicate_and_read, batch, 1))
    sent, read = produced(slots[-2]), fetched(slots[-1])
    assert sent is not None
    assert read is not None
    assert (sent.error, sent.base_offset, len(read.records_view)) == (0, 1, len(batch))

    as_source, hot = parted(calls)
    assert len(hot) > 30, "the way was seen"
    assert as_source.keys() == INTERPRETED.keys(), as_source


def parted(calls: Calls) -> tuple[dict[str, set[str]], set[str]]:
    """Of the broker: functions that ran as sources, by file; and files that `make compiled` compiles."""
    hot = set(runpy.run_path(str(ROOT / "setup.py"))["FILES"])
    ran: dict[str, set[str]] = {}
    for code in calls.python:
        if Path(code.co_filename).is_relative_to(ROOT / "broker"):
            ran.setdefault(Path(code.co_filename).relative_to(ROOT).as_posix(), set()).add(code.co_qualname)
    return {file: functions for file, functions in ran.items() if file not in hot}, ran.keys() & hot


@pytest.mark.patches
def test_all_that_an_offset_commit_passes_through_is_compiled_but_for_what_is_named() -> None:
    world = GroupWorld()
    world.lead()
    world.commit(1)
    slots: list[FakeSlot] = []
    as_source, hot = parted(Calls().during(lambda: slots.append(world.commit(2))))
    assert (commit_error(slots[0]), world.committed()) == (ErrorCode.NONE, (2, ErrorCode.NONE))
    assert len(hot) > 10, "the way was seen"
    assert as_source.keys() == OF_COMMITS.keys(), as_source


@pytest.mark.patches
def test_all_that_a_transaction_passes_through_is_compiled_but_for_what_is_named(here: Coordinating) -> None:
    producer = here.opened(P0)

    def end_and_begin() -> None:
        here.end(producer)
        here.appends.settle()
        here.add(producer, P0)
        here.markers.write()
        here.appends.settle()

    as_source, hot = parted(Calls().during(end_and_begin))
    assert here.state is TransactionState.ONGOING
    assert len(hot) > 3, "the way was seen"
    assert as_source.keys() == OF_TRANSACTIONS.keys(), as_source
