"""What a record's way through the brokers runs is what `make compiled` compiles: a part split off is not forgotten."""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path

import pytest

from broker.wire.records import NewRecord, encode_batch
from tests.support.brokers import ROOT
from tests.support.calls import Calls
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_cluster import fetched, produced
from tests.support.memory_node import FakeSlot

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

    hot = set(runpy.run_path(str(ROOT / "setup.py"))["FILES"])
    ran: dict[str, set[str]] = {}
    for code in calls.python:
        if Path(code.co_filename).is_relative_to(ROOT / "broker"):
            ran.setdefault(Path(code.co_filename).relative_to(ROOT).as_posix(), set()).add(code.co_qualname)
    assert len(ran.keys() & hot) > 30, "the way was seen"
    as_source = {file: functions for file, functions in ran.items() if file not in hot}
    assert as_source.keys() == INTERPRETED.keys(), as_source
