"""Partitions that a broker comes to coordinate at once: whose log is read when, and what one costs the others."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import pairwise

import pytest

from broker.core.replication.partition import PartitionState
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.coordinators.partitions import CoordinatorPartitions
from broker.runtime.replicas.keyless_records import refuse_keyless
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import HEADER_SIZE, CorruptBatch, read_header, seal
from broker.wire.records import NewRecord, encode_batch
from tests.support.coordinated import Values
from tests.support.fake_loop import FakeLoop
from tests.support.memory_log import MemoryLog
from tests.support.memory_node import TOPIC


class ManyPartitions:
    """Broker 1 comes to lead many partitions at once, each with so many batches of 40,000 bytes; all is committed."""

    def __init__(self, batches: list[int]) -> None:
        self.loop = FakeLoop()
        replicas = Replicas(1, self.loop, None, None, lambda: float("inf"), self._take_offline)  # type: ignore[arg-type]
        self.states: dict[int, Values] = {}
        self.offline: list[str] = []
        self.partitions = CoordinatorPartitions(TOPIC, replicas, self.loop, self._make)
        self.replicas = [self._replica(index, count) for index, count in enumerate(batches)]
        for replica in self.replicas:
            self.partitions.on_role_change(replica)

    def _take_offline(self, replica: Replica, failure: LogDirFailed | CorruptLog) -> None:
        self.offline.append(str(failure))

    def _replica(self, index: int, batches: int) -> Replica:
        log = MemoryLog(TopicPartition(TOPIC, index), "")
        for _ in range(batches):
            log.append_as_leader(memoryview(bytearray(encode_batch([NewRecord(None, bytes(40_000))], timestamps=1))), 0)
        log.write()
        replica = Replica(1, log, 0)
        replica.partition.apply(PartitionState(1, 1, 1, (1,), 1, (1,)), log.log_end_offset, 1, 10_000, 0.0)
        role = replica.leader
        assert role is not None
        role.advance_leo(log.log_end_offset)
        role.maybe_advance_high_watermark(0.0)
        return replica

    def _make(self, partition: int, epoch: int) -> Values:
        self.states[partition] = Values(epoch)
        return self.states[partition]

    @property
    def read(self) -> int:
        return sum(len(state.values) for state in self.states.values())


def test_partitions_that_come_at_once_share_a_turn() -> None:
    """When a broker dies another may get fifty of its partitions, and serves its clients meanwhile."""
    many = ManyPartitions([1] * 30)
    seen = [0]
    while many.loop.run_soon():
        seen.append(many.read)
    assert seen[-1] == 30
    assert max(after - before for before, after in pairwise(seen)) <= 5
    assert all(isinstance(many.partitions.find(index), Values) for index in range(30))


def test_no_partition_waits_for_a_longer_one() -> None:
    many = ManyPartitions([60, 1])
    while not isinstance(many.partitions.find(1), Values):
        assert many.loop.run_soon()
    assert len(many.states[0].values) < 20
    while many.loop.run_soon():
        pass
    assert len(many.states[0].values) == 60


def test_shorter_partitions_are_read_before_longer_ones() -> None:
    many = ManyPartitions([30, 20, 3, 10])
    read_of_longest: dict[int, int] = {}
    while many.loop.run_soon():
        for index, _ in many.partitions.ready():
            read_of_longest.setdefault(index, len(many.states[0].values))
    assert list(read_of_longest) == [2, 3, 1, 0]
    # What is left of a turn goes to the next one in order; turn about, it would have had as many as each by then.
    assert read_of_longest[3] < 3
    assert read_of_longest[1] < 10


@pytest.mark.parametrize("ask", ["want", "find"])
def test_partition_that_somebody_asks_for_is_there_before_the_others(ask: str) -> None:
    many = ManyPartitions([3, 20, 30, 40])
    assert many.loop.run_soon()
    many.partitions.want(7)
    if ask == "want":
        many.partitions.want(2)
    else:
        assert many.partitions.find(2) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert order_of(many) == [2, 0, 1, 3]
    # It was asked for while it was loaded, and is nobody's business afterwards.
    assert many.partitions._wanted == set()


def order_of(many: ManyPartitions) -> list[int]:
    """The partitions as they become ready."""
    ready: list[int] = []
    while many.loop.run_soon():
        ready += [index for index, _ in many.partitions.ready() if index not in ready]
    return ready


def test_a_partition_that_goes_while_it_waits_is_not_read() -> None:
    many = ManyPartitions([1, 60, 1])
    many.replicas[1].partition.apply(PartitionState(1, 2, 2, (1, 2), 2, (1, 2)), 60, 1, 10_000, 0.0)
    many.partitions.on_role_change(many.replicas[1])
    while many.loop.run_soon():
        pass
    assert [len(state.values) for state in many.states.values()] == [1, 0, 1]
    assert many.partitions.find(1) is ErrorCode.NOT_COORDINATOR


def test_a_record_that_turns_out_unreadable_at_the_end_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read last may be the first to be looked at."""

    def bring_up(self: Values) -> bool:
        raise CorruptBatch(0, "no such number")

    monkeypatch.setattr(Values, "bring_up", bring_up)
    many = ManyPartitions([1])
    while many.loop.run_soon():
        pass
    (failure,) = many.offline
    assert "no such number" in failure
    assert many.partitions.find(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def odd_batch() -> memoryview:
    """Whose second record has a header without a name that could be one."""
    records = [NewRecord(b"k", b"good"), NewRecord(b"k", b"odd", (("name", b""),)), NewRecord(b"k", b"behind")]
    batch = memoryview(bytearray(encode_batch(records, timestamps=1)))
    at = bytes(batch).index(b"name")
    batch[at : at + 4] = b"\xff\xfe\xfd\xfc"
    header = seal(read_header(batch), batch)
    assert refuse_keyless(header, batch, "t-0") is None, "a client may have it appended to a compacted topic"
    return batch


def one_with(batch: memoryview) -> ManyPartitions:
    """A partition with this batch between two others."""
    many = ManyPartitions([1])
    (replica,) = many.replicas
    usual = encode_batch([NewRecord(b"k", b"last")], timestamps=1)
    for each in (batch, memoryview(bytearray(usual))):
        replica.log.append_as_leader(each, 0)
    replica.log.write()
    role = replica.leader
    assert role is not None
    role.advance_leo(replica.log.log_end_offset)
    role.maybe_advance_high_watermark(0.0)
    while many.loop.run_soon():
        pass
    return many


def test_headers_that_are_none_keep_no_record_from_being_read() -> None:
    """They were written so, and every replica has them so: taken for damage they would stop the partition for good."""
    many = one_with(odd_batch())
    assert many.offline == []
    state = many.partitions.find(0)
    assert isinstance(state, Values)
    assert state.values[1:] == ["good", "odd", "behind", "last"]


def unreadable_batches() -> list[memoryview]:
    """Under right CRCs: records that are not what their codec writes, of no codec that there is, and that are none."""
    batches = [memoryview(bytearray(encode_batch([NewRecord(b"k", b"odd")], timestamps=1))) for _ in range(3)]
    for batch, attributes in zip(batches, (int(Compression.GZIP), 7, 0), strict=True):
        if not attributes:
            batch[HEADER_SIZE] = 0x7F
        seal(read_header(batch)._replace(attributes=attributes), batch)
    return batches


@pytest.mark.parametrize("batch", unreadable_batches(), ids=["not-gzip", "no-codec", "no-records"])
def test_records_that_nobody_can_read_keep_no_other_from_being_read(batch: memoryview) -> None:
    """Some client wrote them so, and every replica has them so: the partition would be gone for good."""
    many = one_with(batch)
    assert many.offline == []
    state = many.partitions.find(0)
    assert isinstance(state, Values)
    assert state.values[1:] == ["last"]


def test_records_of_a_codec_that_is_not_installed_keep_a_broker_from_leading_and_its_copy_from_being_thrown_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A state without what others have written would be a wrong one; the files are sound, for their CRCs are looked at
    before. Once the codec is installed the log can be read again.
    """
    batch = memoryview(bytearray(encode_batch([NewRecord(b"k", b"v")], timestamps=1)))
    seal(read_header(batch)._replace(attributes=int(Compression.ZSTD)), batch)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    many = one_with(batch)
    assert len(many.offline) == 1
    assert not many.replicas[0].damaged
    assert many.replicas[0].unread is not None
    failure, _ = many.replicas[0].unread
    assert not failure.may_be_over()
    monkeypatch.delitem(sys.modules, "cramjam")
    assert failure.may_be_over()


def test_an_error_in_one_partition_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    many = ManyPartitions([1, 1, 1])

    def fail() -> bool:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(many.states[0], "bring_up", fail)
    for _ in range(20):
        with suppress(RuntimeError):
            many.loop.run_soon()
    assert [isinstance(many.partitions.find(index), Values) for index in range(3)] == [False, True, True]


def test_a_state_that_fails_once_it_is_there_is_loaded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served: who asks whether everything is loaded would be told otherwise for good."""
    many = ManyPartitions([1])
    told: list[bool] = []
    many.partitions.add_listener(lambda: told.append(many.partitions.loading))

    def fail() -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(many.states[0], "loaded", fail)
    for _ in range(20):
        with suppress(RuntimeError):
            many.loop.run_soon()
    assert isinstance(many.partitions.find(0), Values)
    assert told == [False]
