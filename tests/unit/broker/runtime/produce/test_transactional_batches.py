"""Batches of transactions from producers: verified, guarded, in order, and refused where they have no business."""

from __future__ import annotations

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.replicas import transaction_gate
from broker.runtime.replicas.append import AppendOrigin
from broker.runtime.replicas.replica import PendingAppend
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.support.asked_verifier import AskedVerifier
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC, FakeSlot
from tests.support.settled_cluster import settled
from tests.support.transactions import end_marker, transactional

PRODUCER = 7


class Leader:
    """Broker 1, alone, and its verifier."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.cluster = MemoryCluster(replicas=1, settings=settings)
        self.cluster.settle()
        self.verifier = AskedVerifier()
        self.manager = self.cluster.nodes[1].up
        self.manager.gate.verifier = self.verifier

    def produce(self, *batches: memoryview, transactional_id: str | None = "tx", acks: int = -1) -> FakeSlot:
        parts = [produce.ProducePartition(TOPIC, 0, batch) for batch in batches]
        body = produce.encode_request(9, produce.ProduceRequest(transactional_id, acks, 30000, parts))
        return self.cluster.request(1, ApiKey.PRODUCE, 9, body)

    def configure(self, **topic: str) -> None:
        self.cluster.topic_config.update({name.replace("_", "."): value for name, value in topic.items()})
        self.manager.hosting.on_topic_config(TOPIC)

    def answer(self, error: ErrorCode = ErrorCode.NONE, which: int = 0) -> None:
        self.verifier.answer(error, which)
        self.manager.end_of_turn()

    def marker(self, epoch: int = 0, coordinator_epoch: int = 0, committed: bool = True) -> ErrorCode:
        """As WriteTxnMarkers appends it."""
        outcomes: list[PendingAppend] = []
        batch = end_marker(PRODUCER, committed, epoch=epoch, coordinator_epoch=coordinator_epoch)
        origin = AppendOrigin.COORDINATOR
        self.manager.appender.append_records((TOPIC, 0), batch, -1, origin, outcomes.append, 30000)
        self.manager.end_of_turn()
        return outcomes[0].error

    @property
    def end(self) -> int:
        return self.manager.replicas.by_partition[TOPIC, 0].log.log_end_offset

    @property
    def stable(self) -> int:
        return self.manager.replicas.by_partition[TOPIC, 0].last_stable_offset


@pytest.fixture
def leader() -> Leader:
    return Leader()


def result(slot: FakeSlot) -> tuple[ErrorCode, int]:
    found = produced(slot)
    assert found is not None
    return ErrorCode(found.error), found.base_offset


def test_first_batch_waits_for_the_coordinators_word(leader: Leader) -> None:
    slot = leader.produce(transactional("a", PRODUCER))
    assert (slot.done, leader.end) == (False, 0)
    assert leader.verifier.asked == [("tx", PRODUCER, 0, TopicPartition(TOPIC, 0))]
    leader.answer()
    assert result(slot) == (ErrorCode.NONE, 0)
    assert (leader.end, leader.stable) == (1, 0)


def test_later_batches_of_an_open_transaction_are_not_asked_for(leader: Leader) -> None:
    leader.produce(transactional("a", PRODUCER))
    leader.answer()
    assert result(leader.produce(transactional("b", PRODUCER, 1))) == (ErrorCode.NONE, 1)
    assert len(leader.verifier.asked) == 1


def test_batches_that_come_meanwhile_wait_behind_the_first(leader: Leader) -> None:
    slots = [leader.produce(transactional(str(n), PRODUCER, n)) for n in range(3)]
    assert len(leader.verifier.asked) == 1
    other = leader.produce(transactional("o", PRODUCER + 1), transactional_id="other")
    leader.answer()
    assert [result(slot) for slot in slots] == [(ErrorCode.NONE, n) for n in range(3)]
    assert not other.done


def test_held_bytes_are_a_copy(leader: Leader) -> None:
    batch = transactional("a", PRODUCER)
    body = produce.encode_request(
        9, produce.ProduceRequest("tx", -1, 30000, [produce.ProducePartition(TOPIC, 0, batch)])
    )
    slot = leader.cluster.request(1, ApiKey.PRODUCE, 9, body)
    batch[:] = bytes(len(batch))
    leader.answer()
    assert result(slot) == (ErrorCode.NONE, 0)


@pytest.mark.guarantee("no-hanging-transactions")
def test_batch_of_a_transaction_that_does_not_have_the_partition_is_refused(leader: Leader) -> None:
    slot = leader.produce(transactional("a", PRODUCER))
    leader.answer(ErrorCode.TRANSACTION_ABORTABLE)
    assert result(slot) == (ErrorCode.INVALID_TXN_STATE, -1)
    assert (leader.end, leader.stable) == (0, 0)


@pytest.mark.guarantee("no-hanging-transactions")
def test_word_that_a_marker_overtakes_counts_for_nothing(leader: Leader) -> None:
    """KAFKA-14402: the transaction is verified, then aborted, and the batch of it comes in after its marker."""
    slot = leader.produce(transactional("a", PRODUCER))
    assert leader.marker(committed=False) is ErrorCode.NONE
    leader.answer()
    assert result(slot) == (ErrorCode.INVALID_TXN_STATE, -1)
    assert leader.stable == leader.end == 1


def test_word_that_a_change_of_leader_overtakes_sends_the_producer_to_the_new_leader() -> None:
    """The old leader cut its tail meanwhile. That ends no transaction: the batch has its place with the new one."""
    cluster = settled()
    manager, verifier = cluster.nodes[1].up, AskedVerifier()
    manager.gate.verifier = verifier
    cluster.hold = lambda message: message.source == 1 or message.target == 1
    cluster.produce(1, "cut", acks=1)
    parts = [produce.ProducePartition(TOPIC, 0, transactional("a", PRODUCER))]
    body = produce.encode_request(9, produce.ProduceRequest("tx", -1, 30000, parts))
    slot = cluster.request(1, ApiKey.PRODUCE, 9, body)
    cluster.settle()
    cluster.elect(2)
    cluster.hold = lambda message: False
    cluster.advance(2000)
    assert cluster.nodes[1].log.values() == []
    verifier.answer()
    manager.end_of_turn()
    assert result(slot) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@pytest.mark.guarantee("no-hanging-transactions")
def test_word_on_an_earlier_leadership_does_not_count_in_the_next() -> None:
    """The transaction is aborted under another leader, whose marker is lost with it: what was asked for before would
    begin a transaction that nobody ends. The producer asks anew.
    """
    cluster = settled()
    manager, verifier = cluster.nodes[1].up, AskedVerifier()
    manager.gate.verifier = verifier

    def send() -> FakeSlot:
        parts = [produce.ProducePartition(TOPIC, 0, transactional("a", PRODUCER))]
        body = produce.encode_request(9, produce.ProduceRequest("tx", -1, 30000, parts))
        return cluster.request(1, ApiKey.PRODUCE, 9, body)

    held = send()
    cluster.elect(2)
    cluster.settle()
    cluster.hold = lambda message: message.source == 2 or message.target == 2
    origin = AppendOrigin.COORDINATOR
    cluster.nodes[2].up.appender.append_records(
        (TOPIC, 0), end_marker(PRODUCER, False), 1, origin, lambda _: None, 30000
    )
    cluster.settle()
    cluster.kill(2)
    cluster.write(leader=1, leader_epoch=cluster.state.leader_epoch + 1, isr=(1,))
    cluster.settle()
    again = send()
    verifier.answer()
    manager.end_of_turn()
    assert result(held) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert (cluster.nodes[1].log.values(), again.done, len(verifier.asked)) == ([], False, 2)
    verifier.answer()
    cluster.settle()
    assert result(again) == (ErrorCode.NONE, 0)


def test_coordinator_that_lost_its_partition_meanwhile_sends_its_client_on(leader: Leader) -> None:
    told: list[ErrorCode] = []
    leader.manager.gate.verify("tx", PRODUCER, 0, (TOPIC, 0), told.append)
    leader.cluster.elect(1)
    leader.cluster.settle()
    leader.answer()
    assert told == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.guarantee("no-hanging-transactions")
def test_word_on_the_transaction_before_does_not_count_for_the_next(leader: Leader) -> None:
    late = leader.produce(transactional("a", PRODUCER))
    leader.marker(committed=False)
    next_one = leader.produce(transactional("b", PRODUCER))
    assert len(leader.verifier.asked) == 2
    leader.answer()
    assert result(late)[0] is ErrorCode.INVALID_TXN_STATE
    assert not next_one.done
    leader.answer()
    assert result(next_one) == (ErrorCode.NONE, 1)


@pytest.mark.guarantee("no-hanging-transactions")
def test_late_word_does_not_take_a_batch_into_the_next_transaction(leader: Leader) -> None:
    """Each batch needs the word on its own guard, as with Kafka's VerificationGuard: that another's was confirmed since
    says nothing of it.
    """
    late = leader.produce(transactional("aborted", PRODUCER))
    leader.marker(committed=False)
    leader.configure(max_message_bytes="1")
    next_one = leader.produce(transactional("b", PRODUCER))
    leader.answer(which=1)
    assert result(next_one)[0] is ErrorCode.MESSAGE_TOO_LARGE, "confirmed, and not appended"
    leader.configure(max_message_bytes="1000")
    leader.answer()
    assert (result(late)[0], leader.end) == (ErrorCode.INVALID_TXN_STATE, 1)
    again = leader.produce(transactional("b", PRODUCER))
    leader.answer()
    assert result(again) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("claimed_first", [True, False])
def test_made_up_epoch_keeps_the_producer_from_nothing(leader: Leader, claimed_first: bool) -> None:
    """As with Kafka, whose guard is of a producer, not of an epoch."""

    def claim() -> FakeSlot:
        return leader.produce(transactional("made up", PRODUCER, epoch=9))

    made_up = claim() if claimed_first else None
    slot = leader.produce(transactional("a", PRODUCER, epoch=3))
    made_up = made_up or claim()
    leader.answer(which=int(claimed_first))
    leader.answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert (result(slot), result(made_up)[0]) == ((ErrorCode.NONE, 0), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert result(leader.produce(transactional("b", PRODUCER, 1, epoch=3))) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_producer_may_send_again_what_could_not_be_asked(leader: Leader, error: ErrorCode, told: ErrorCode) -> None:
    slot = leader.produce(transactional("a", PRODUCER))
    leader.answer(error)
    assert result(slot) == (told, -1)


def test_batch_does_not_overtake_one_that_could_not_be_asked_for(leader: Leader) -> None:
    first = leader.produce(transactional("a", PRODUCER, 0))
    leader.answer(ErrorCode.NETWORK_EXCEPTION)
    second = leader.produce(transactional("b", PRODUCER, 1))
    leader.answer()
    assert result(first)[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert result(second)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = leader.produce(transactional("a", PRODUCER, 0))
    leader.answer()
    assert result(again) == (ErrorCode.NONE, 0)


def test_batch_without_a_transactional_id_is_refused(leader: Leader) -> None:
    slot = leader.produce(transactional("a", PRODUCER), transactional_id=None)
    assert result(slot) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)


def test_batches_of_two_producers_in_one_request_are_refused(leader: Leader) -> None:
    slot = leader.produce(transactional("a", PRODUCER), transactional("b", PRODUCER + 1))
    assert result(slot) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1)
    assert leader.verifier.asked == []


def test_batch_outside_of_the_producers_open_transaction_is_refused(leader: Leader) -> None:
    leader.produce(transactional("a", PRODUCER))
    leader.answer()
    plain = transactional("b", PRODUCER, 1, transactional=False)
    assert result(leader.produce(plain)) == (ErrorCode.INVALID_TXN_STATE, -1)


@pytest.mark.parametrize("transactional_id", ["tx", None])
def test_client_writes_no_markers(leader: Leader, transactional_id: str | None) -> None:
    slot = leader.produce(end_marker(PRODUCER), transactional_id=transactional_id)
    assert result(slot) == (ErrorCode.INVALID_RECORD, -1)
    assert leader.verifier.asked == []


def test_without_verification_nobody_is_asked() -> None:
    leader = Leader({"transaction.partition.verification.enable": "false"})
    assert result(leader.produce(transactional("a", PRODUCER))) == (ErrorCode.NONE, 0)
    assert leader.verifier.asked == []


def test_nothing_is_confirmed_where_nobody_can_be_asked(leader: Leader) -> None:
    leader.manager.gate.verifier = None
    slot = leader.produce(transactional("a", PRODUCER))
    assert result(slot)[0] is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.patches
def test_held_batches_are_bounded(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    first = transactional("a", PRODUCER)
    monkeypatch.setattr(transaction_gate, "HELD_BYTES_MAX", len(first))
    slot = leader.produce(first)
    beyond = leader.produce(transactional("b", PRODUCER + 1), transactional_id="other")
    assert result(beyond)[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    leader.answer()
    assert result(slot) == (ErrorCode.NONE, 0)
    again = leader.produce(transactional("b", PRODUCER + 1), transactional_id="other")
    leader.answer()
    assert result(again) == (ErrorCode.NONE, 1)


def test_repeat_of_a_batch_gets_the_first_ones_offset_after_the_end(leader: Leader) -> None:
    leader.produce(transactional("a", PRODUCER))
    leader.answer()
    leader.marker()
    slot = leader.produce(transactional("a", PRODUCER))
    leader.answer()
    assert result(slot) == (ErrorCode.NONE, 0)


def test_marker_of_an_older_epoch_or_coordinator_is_refused(leader: Leader) -> None:
    assert leader.marker(epoch=3, coordinator_epoch=5) is ErrorCode.NONE
    assert leader.marker(epoch=2, coordinator_epoch=5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert leader.marker(epoch=3, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert leader.marker(epoch=3, coordinator_epoch=6) is ErrorCode.NONE
    assert leader.end == 2


def test_zombie_is_fenced_by_the_marker_of_a_raised_epoch(leader: Leader) -> None:
    leader.produce(transactional("a", PRODUCER))
    leader.answer()
    leader.marker(epoch=1, committed=False)
    slot = leader.produce(transactional("b", PRODUCER, 1))
    leader.answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert result(slot) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_coordinators_batch_of_a_transaction_needs_the_word_too(leader: Leader) -> None:
    def append() -> ErrorCode:
        outcomes: list[PendingAppend] = []
        batch, origin = transactional("offsets", PRODUCER, -1), AppendOrigin.COORDINATOR
        leader.manager.appender.append_records((TOPIC, 0), batch, -1, origin, outcomes.append, 30000)
        leader.manager.end_of_turn()
        return outcomes[0].error

    assert append() is ErrorCode.INVALID_TXN_STATE
    told: list[ErrorCode] = []
    leader.manager.gate.verify("tx", PRODUCER, 0, (TOPIC, 0), told.append)
    assert told == []
    leader.answer()
    assert told == [ErrorCode.NONE]
    assert append() is ErrorCode.NONE
    assert append() is ErrorCode.NONE, "its batches have no sequence that could repeat"


def test_marker_is_not_packed_by_the_topics_codec(leader: Leader) -> None:
    """LogValidator: control records are not compressed. As a gzip stream this one would be larger than it may be."""
    leader.configure(compression_type="gzip", max_message_bytes=str(len(end_marker(PRODUCER))))
    assert leader.marker() is ErrorCode.NONE
    leader.configure(message_timestamp_type="LogAppendTime")
    assert leader.marker() is ErrorCode.NONE
    headers = [read_header(memoryview(data)) for _, _, _, data in leader.cluster.nodes[1].log.batches]
    assert [header.compression for header in headers] == [0, 0]
    assert [header.is_log_append_time for header in headers] == [False, True]


def test_control_batch_that_is_no_marker_is_refused(leader: Leader) -> None:
    def append(batch: memoryview) -> tuple[ErrorCode, str]:
        outcomes: list[PendingAppend] = []
        origin = AppendOrigin.COORDINATOR
        leader.manager.appender.append_records((TOPIC, 0), batch, -1, origin, outcomes.append, 30000)
        leader.manager.end_of_turn()
        return outcomes[0].error, outcomes[0].message

    def control(key: bytes, value: bytes) -> memoryview:
        new = [NewRecord(key, value)]
        data = encode_batch(new, timestamps=1, producer_id=PRODUCER, producer_epoch=0, transactional=True, control=True)
        return memoryview(bytearray(data))

    no_marker = ErrorCode.INVALID_RECORD, "a control batch must hold a marker: COMMIT or ABORT"
    assert append(control(b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00")) == no_marker, "LEADER_CHANGE"
    assert append(control(b"\x00", b"")) == no_marker
    assert append(control(b"\x00\x00\x00\x01", b"\x00")) == no_marker, "no coordinator epoch"
    for producer, epoch in ((-1, 0), (PRODUCER, -1)):
        text = f"a marker of producer {producer} epoch {epoch}: both must be 0 or above"
        assert append(end_marker(producer, epoch=epoch)) == (ErrorCode.INVALID_RECORD, text)
    assert leader.end == 0
    assert leader.marker() is ErrorCode.NONE
