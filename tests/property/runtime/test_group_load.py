"""A coordinator reads its log in bulk, last record first where it may, and knows what each record by itself says."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.runtime.group.group_load import GroupLoad
from broker.wire.coordinator_records.batches import TransactionalProducer, coordinator_batch, offset_record
from broker.wire.coordinator_records.offsets_topic import OffsetCommitValue
from broker.wire.coordinator_records.scan import Found, read_batch, scan
from broker.wire.record_batch import iter_batches, read_header
from broker.wire.records import NewRecord
from tests.property.runtime.offsets_log import GROUPS, PRODUCERS, PlainLoad, batches
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("K2")


def _found(data: bytes) -> list[Found]:
    """As the loader of a partition goes over a slice."""
    found: list[Found] = []
    at = 0
    while at < len(data):
        at, _ = scan(data, at, found)
        if at < len(data):
            header = read_header(memoryview(data), at)
            found += read_batch(header, memoryview(data)[at : at + header.size])
            at += header.size
    return found


def _same(load: GroupLoad, plain: PlainLoad) -> None:
    """The groups that are brought to life, with what they know."""
    known = {group_id: group for group_id, group in load.groups.items() if group.snapshot or not group.offsets.empty}
    offsets = {group_id: offsets for group_id, offsets in plain.offsets.items() if not offsets.empty}
    snapshots = {group_id: snapshot for group_id, snapshot in plain.snapshots.items() if snapshot}
    assert {group_id: group.offsets for group_id, group in known.items() if not group.offsets.empty} == offsets
    assert {group_id: group.snapshot for group_id, group in known.items() if group.snapshot} == snapshots
    assert load._unreadable == plain.passed_over


@examples(300)
@given(st.integers(0, 2**32), st.booleans())
def test_what_is_read_in_bulk_is_what_each_record_says(seed: int, with_settling: bool) -> None:
    """Also where records come once some offsets were handed to their groups, and where transactions end afterwards."""
    rng = Random(seed)
    load, plain = GroupLoad(0, {}), PlainLoad()
    settles = False
    for batch in batches(rng, rng.randrange(60)):
        view = memoryview(batch)
        load.take(_found(batch))
        plain.take(read_header(view), view)
        settles = settles or (with_settling and rng.random() < 0.1)
        if settles:
            load.settle(rng.randrange(4))
    while load.settle(5) >= 5:
        pass
    _same(load, plain)
    for producer_id in PRODUCERS:
        committed = rng.random() < 0.5
        load.end_transaction(producer_id, committed)
        for offsets in plain.offsets.values():
            offsets.end_transaction(producer_id, committed)
    _same(load, plain)


@examples(300)
@given(st.integers(0, 2**32))
def test_a_scan_finds_the_records_of_whole_batches_and_stops_at_what_it_cannot_read(seed: int) -> None:
    """Whatever the bytes: what it returns, a reader of single batches finds there, too."""
    rng = Random(seed)
    data = bytearray(b"".join(batches(rng, 8)))
    for _ in range(rng.randrange(3) if data else 0):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    data = data[: len(data) - rng.randrange(3) * rng.randrange(100)]
    found: list[Found] = []
    end, next_offset = scan(bytes(data), 0, found)
    expected: list[Found] = []
    last = -1
    for position, header in iter_batches(memoryview(data)[:end], verify_crc=False):
        expected += read_batch(header, memoryview(data)[position : position + header.size])
        last = header.last_offset + 1
    assert (found, next_offset) == (expected, last)


@pytest.mark.parametrize("records", [1, 100])
@pytest.mark.parametrize("group", GROUPS)
def test_the_usual_batches_are_scanned_and_not_read_one_by_one(records: int, group: str) -> None:
    """Else none of this would make a load faster."""
    value = OffsetCommitValue(7, -1, "", 1_700_000_000_000)
    new = [offset_record(group, "topic", index, value) for index in range(records)]
    data = coordinator_batch(new, 5) + coordinator_batch(new, 5, transaction=TransactionalProducer(1, 0))
    found: list[Found] = []
    assert scan(data, 0, found)[0] == len(data)
    assert len(found) == 2 * records


@pytest.mark.parametrize("length", [b"\xff\xff", b"\x80\x00", b"\x00\x01", b"\x01\x00"])
def test_a_value_with_an_impossible_length_is_passed_over(length: bytes) -> None:
    """However long what lies behind it is, and whatever lies before it in the log counts still."""
    good = offset_record("g", "t", 0, OffsetCommitValue(7, -1, "", 5))
    value = good.value or b""
    load = GroupLoad(0, {})
    batch = [
        good,
        *(NewRecord(good.key, value[:14] + length + bytes(more)) for more in (8, 60_000)[: length[0] >> 6 or 1]),
    ]
    load.take(_found(coordinator_batch(batch, 5)))
    assert load.settle(10) == 1
    found = load.groups["g"].offsets.get(("t", 0))
    assert found is not None
    assert found.offset == 7
