"""`append_records` as a coordinator calls it, without any Produce request: when `done` is called, and with what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.admin import topic_names
from broker.model.ids import TopicPartition
from broker.model.log_errors import LogDirFailed
from broker.runtime.replicas.append import AppendOrigin
from broker.runtime.replicas.replica import PendingAppend
from broker.wire.errors import ErrorCode
from broker.wire.records import NewRecord, encode_batch
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, FakeSlot

T0 = TopicPartition(TOPIC, 0)
TIMEOUT_MS = 5_000
OUTCOMES_OF_BYTES = [
    (b"", ErrorCode.INVALID_RECORD),
    (b"\x00" * 70, ErrorCode.INVALID_RECORD),
    (b"\xff" * 70, ErrorCode.CORRUPT_MESSAGE),
]


def batch_of(value: str, sequence: int = -1) -> bytearray:
    """One batch of one record. sequence: of producer 7 in its epoch 0, −1 for a batch of no producer."""
    producer_id, producer_epoch = (-1, -1) if sequence < 0 else (7, 0)
    return bytearray(
        encode_batch(
            [NewRecord(None, value.encode())],
            timestamps=1,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
    )


class Appends:
    """Appends to one broker of a cluster; `outcomes` are those that `done` was called with, in order."""

    def __init__(self, cluster: MemoryCluster, broker: int = 1) -> None:
        self.cluster = cluster
        self.node = cluster.nodes[broker]
        self.outcomes: list[PendingAppend] = []

    def append(
        self,
        records: bytes | bytearray | None = None,
        acks: int = -1,
        *,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
        partition: tuple[str, int] = T0,
        slot: FakeSlot | None = None,
        internal_topics: bool = False,
    ) -> None:
        """Within the broker's turn, which `end_turn` ends."""
        view = memoryview(batch_of("v") if records is None else records)
        appender = self.node.up.appender
        appender.append_records(partition, view, acks, origin, self.outcomes.append, TIMEOUT_MS, slot, internal_topics)

    def end_turn(self) -> None:
        self.node.up.end_of_turn()

    @property
    def results(self) -> list[tuple[ErrorCode, int]]:
        return [(append.error, append.base_offset) for append in self.outcomes]


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster(min_isr=2)
    cluster.settle()
    return cluster


@pytest.fixture
def appends(cluster: MemoryCluster) -> Appends:
    return Appends(cluster)


def refusal(appends: Appends, acks: int = -1) -> ErrorCode:
    """What an append that is refused gets, at the end of the turn and once; nothing of it is in the log."""
    before = appends.node.log.staged_end_offset if appends.node.store.logs() else 0
    appends.append(acks=acks)
    assert not appends.outcomes
    appends.end_turn()
    appends.cluster.advance(2 * TIMEOUT_MS)
    (outcome,) = appends.outcomes
    assert outcome.base_offset == -1
    assert appends.node.log.staged_end_offset == before
    return outcome.error


def test_acks_0_is_done_when_the_batch_is_staged(appends: Appends) -> None:
    appends.append(acks=0)
    assert appends.results == [(ErrorCode.NONE, 0)]
    assert appends.node.log.log_end_offset == 0
    appends.end_turn()
    assert appends.node.log.values() == ["v"]
    appends.cluster.settle()
    assert len(appends.outcomes) == 1


def test_acks_1_is_done_when_the_leader_has_written(appends: Appends) -> None:
    appends.cluster.hold = lambda message: True
    written: list[int] = []
    appends.node.up.appender.append_records(
        T0,
        memoryview(batch_of("v")),
        1,
        AppendOrigin.COORDINATOR,
        lambda append: written.append(appends.node.log.log_end_offset),
        TIMEOUT_MS,
    )
    assert not written
    appends.end_turn()
    assert written == [1]
    (ack,) = appends.node.event_log.of("ack")
    assert (ack["base"], ack["last"], ack["acks"], ack["hw"]) == (0, 0, 1, 0)


def test_acks_all_is_done_when_the_isr_has_the_batch(appends: Appends) -> None:
    appends.cluster.hold = lambda message: message.target == 1
    appends.append(batch_of("a"))
    appends.append(batch_of("b"))
    appends.end_turn()
    appends.cluster.settle()
    assert not appends.outcomes
    appends.cluster.hold = lambda message: False
    appends.cluster.release()
    appends.cluster.settle()
    assert appends.results == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    assert [event["hw"] for event in appends.node.event_log.of("ack")] == [2, 2]


class Chained:
    """Appends a second batch once the outcome of the first is known, as a coordinator does that was waiting to."""

    def __init__(self, appends: Appends, acks: int) -> None:
        self.appends = appends
        self.acks = acks
        self.written: list[int] = []
        """The leader's written end when the second outcome came."""

    def append(self, acks: int) -> None:
        self._append(acks, lambda _: self._append(self.acks, self._second_is_done))

    def _append(self, acks: int, done: Callable[[PendingAppend], None]) -> None:
        appender = self.appends.node.up.appender
        appender.append_records(T0, memoryview(batch_of("v")), acks, AppendOrigin.COORDINATOR, done, TIMEOUT_MS)

    def _second_is_done(self, append: PendingAppend) -> None:
        assert append.error is ErrorCode.NONE
        self.written.append(self.appends.node.log.log_end_offset)


@pytest.mark.parametrize("first", [1, -1])
def test_append_within_a_completion_is_not_confirmed_before_it_is_written(appends: Appends, first: int) -> None:
    chained = Chained(appends, acks=1)
    chained.append(first)
    appends.end_turn()
    appends.cluster.settle()
    assert chained.written == [2]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_append_within_a_completion_is_written_without_waiting_for_an_event(appends: Appends, acks: int) -> None:
    Chained(appends, acks).append(1)
    while appends.node.loop.run_soon():
        pass
    appends.end_turn()
    assert appends.node.log.log_end_offset == 1
    assert appends.node.loop.run_soon(), "a turn follows at once"
    appends.end_turn()
    assert appends.node.log.log_end_offset == 2
    assert not appends.node.loop.run_soon(), "and no further one"


def test_isr_below_its_minimum_refuses_acks_all_alone(appends: Appends) -> None:
    appends.cluster.write(isr=(1,))
    appends.cluster.settle()
    assert refusal(appends) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "below min.insync.replicas 2" in appends.outcomes[0].message
    appends.append(acks=1)
    appends.end_turn()
    assert appends.results[1] == (ErrorCode.NONE, 0)


def test_outcome_says_where_the_log_starts(appends: Appends) -> None:
    for value in ("a", "b"):
        appends.append(batch_of(value))
    appends.end_turn()
    appends.cluster.settle()
    assert appends.node.log.maybe_raise_log_start(1)
    appends.append(acks=1)
    appends.append(b"", acks=1)
    appends.end_turn()
    assert [outcome.log_start_offset for outcome in appends.outcomes] == [0, 0, 1, -1]


def test_follower_appends_nothing(cluster: MemoryCluster) -> None:
    assert refusal(Appends(cluster, broker=2)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_locally_fenced_leader_appends_nothing(appends: Appends) -> None:
    appends.node.up.replicas.set_session_deadline_passed(True)
    assert refusal(appends, acks=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_partition_that_is_not_there_is_unknown(appends: Appends) -> None:
    appends.append(partition=("nowhere", 3))
    appends.end_turn()
    assert appends.results == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_wait_ends_with_the_leadership(appends: Appends) -> None:
    appends.cluster.hold = lambda message: message.target == 1
    appends.append()
    appends.end_turn()
    appends.cluster.elect(2)
    appends.cluster.settle()
    assert appends.results == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_what_the_turn_staged_is_written_before_the_role_goes(appends: Appends) -> None:
    """Afterwards nobody would write it: only a leader's appends are staged over a turn."""
    appends.append(batch_of("a"), acks=1)
    appends.append(batch_of("b"))
    appends.node.up.resign_all()
    assert appends.node.log.values() == ["a", "b"]
    appends.end_turn()
    assert appends.results == [(ErrorCode.NONE, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_what_the_turn_staged_is_thrown_away_where_its_replica_goes_offline(appends: Appends) -> None:
    """The staged bytes lie in a buffer that later requests fill: they may never be written any more."""
    appends.append(acks=1)
    replicas = appends.node.up.replicas
    replicas.take_offline(replicas.by_partition[T0], LogDirFailed("/data", 5, "Input/output error"))
    assert appends.node.log.staged == []
    appends.end_turn()
    assert appends.results == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]


def test_wait_that_times_out_is_done_once_and_leaves_the_batch_in_the_log(appends: Appends) -> None:
    appends.cluster.hold = lambda message: message.target == 1
    appends.append()
    appends.end_turn()
    appends.cluster.advance(TIMEOUT_MS - 1)
    assert not appends.outcomes
    appends.cluster.advance(1)
    assert appends.results == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    appends.cluster.hold = lambda message: False
    appends.cluster.release()
    appends.cluster.settle()
    assert appends.node.hw == 1
    assert appends.results == [(ErrorCode.REQUEST_TIMED_OUT, -1)]


@pytest.mark.parametrize("of_client", [False, True])
def test_wait_of_a_client_that_is_gone_is_forgotten_and_a_coordinators_is_not(
    appends: Appends, of_client: bool
) -> None:
    slot = FakeSlot()
    appends.cluster.hold = lambda message: message.target == 1
    appends.append(slot=slot if of_client else None)
    appends.end_turn()
    slot.open = False
    appends.node.up.appender.drop_gone()
    appends.cluster.advance(TIMEOUT_MS)
    assert len(appends.outcomes) == (0 if of_client else 1)


@pytest.mark.parametrize(
    ("origin", "internal_topics", "error"),
    [
        (AppendOrigin.COORDINATOR, False, ErrorCode.NONE),
        (AppendOrigin.CLIENT, False, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (AppendOrigin.CLIENT, True, ErrorCode.NONE),
    ],
)
def test_internal_topic_is_written_by_coordinators_and_who_may(
    monkeypatch: pytest.MonkeyPatch, appends: Appends, origin: AppendOrigin, internal_topics: bool, error: ErrorCode
) -> None:
    monkeypatch.setattr(topic_names, "INTERNAL", frozenset({TOPIC}))
    appends.append(acks=1, origin=origin, internal_topics=internal_topics)
    appends.end_turn()
    assert [outcome.error for outcome in appends.outcomes] == [error]


def test_sequence_of_a_clients_batch_is_checked_and_of_a_coordinators_is_not(appends: Appends) -> None:
    appends.append(batch_of("v", 0), 1, origin=AppendOrigin.CLIENT)
    appends.append(batch_of("v", 5), 1, origin=AppendOrigin.CLIENT)
    appends.append(batch_of("v", 0), 1, origin=AppendOrigin.CLIENT)
    appends.end_turn()
    assert appends.results == [
        (ErrorCode.NONE, 0),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (ErrorCode.NONE, 0),
    ]
    appends.append(batch_of("v", 0), 1)
    appends.end_turn()
    assert appends.results[3] == (ErrorCode.NONE, 1)


@pytest.mark.parametrize(("records", "error"), OUTCOMES_OF_BYTES)
def test_bytes_that_are_no_batch_are_refused_as_malformed(appends: Appends, records: bytes, error: ErrorCode) -> None:
    appends.append(bytearray(records), acks=1)
    appends.end_turn()
    (outcome,) = appends.outcomes
    assert (outcome.error, outcome.malformed, outcome.replica) == (error, True, None)
    assert appends.node.log.staged_end_offset == 0
