"""What a transactional process knows of its producer and its transaction, and the requests that change it.

Decides sequences, which partitions are still to be added, and what an error means for the transaction. Must not know
when a transaction begins or what it is for. Invariant: a transaction is only committed where every one of its sends
was acknowledged, unless its producer was fenced for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.clients import transactions as wire
from harness.clients.connection import Connection
from harness.clients.coordinators import GROUP, TRANSACTION
from harness.clients.transactions import Producer, TopicPartition
from harness.operations import outcomes
from harness.operations.op import Outcome
from harness.operations.transaction_outcomes import FENCED
from harness.workloads.transactions.requests import Request, Response

_LATER = frozenset({"CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS"}) | outcomes.NOTHING_SENT
"""The same may succeed later: the operation is invoked again, as another one."""


@dataclass(slots=True)
class Transaction:
    """One transaction. number: `txn` of the history. begun: something of it is at the coordinator.

    failed: a request of it was refused, so it can only be aborted. placed: where its last send to a partition stands.
    """

    number: int
    added: set[TopicPartition] = field(default_factory=set)
    begun: bool = False
    failed: bool = False
    placed: dict[TopicPartition, int] = field(default_factory=dict)
    offsets_added: bool = False
    offsets_sent: bool = False


@dataclass(slots=True)
class Session:
    """A transactional id from the choice of it to where the process leaves it. producer: None before InitProducerId.

    fenced: another one has taken the id, for good. lost: nothing more can be done under this producer. zombie: whether
    it goes on once it is fenced; None until that is drawn.
    """

    transactional_id: str
    producer: Producer | None = None
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    transaction: Transaction | None = None
    fenced: bool = False
    lost: bool = False
    zombie: bool | None = None

    @property
    def ready(self) -> Producer:
        """The producer, which is known."""
        assert self.producer is not None
        return self.producer


def init_request(session: Session, timeout_ms: int) -> Request:
    """InitProducerId. Once it is answered nobody else's transaction under that id is open."""

    def exchange(connection: Connection, _fields: Mapping[str, object], deadline_ns: int) -> Response:
        got = wire.init_producer(connection, session.transactional_id, timeout_ms, deadline_ns)
        if got.error is not None:
            return got.error, got.at_ns, {}
        return None, got.at_ns, {"producer_id": got.producer_id, "producer_epoch": got.epoch}

    def then(outcome: Outcome, _error: str | None, found: Mapping[str, object]) -> None:
        if outcome == "ok":
            producer_id, epoch = found["producer_id"], found["producer_epoch"]
            assert isinstance(producer_id, int)
            assert isinstance(epoch, int)
            session.producer = Producer(session.transactional_id, producer_id, epoch)

    fields = {"transactional_id": session.transactional_id}
    return Request("init_producer", fields, exchange, then, coordinator=(TRANSACTION, session.transactional_id))


def _of(session: Session, transaction: Transaction) -> dict[str, object]:
    producer = session.ready
    return {
        "transactional_id": producer.transactional_id,
        "txn": transaction.number,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
    }


def _refused(session: Session, transaction: Transaction, error: str | None) -> None:
    """A request of the transaction was refused: it can be aborted, or the producer is of no use any more."""
    if error in FENCED:
        session.fenced = True
    elif error in ("INVALID_TXN_STATE", "OUT_OF_ORDER_SEQUENCE_NUMBER"):
        session.lost = True
    transaction.failed = True


def add_request(session: Session, transaction: Transaction, partitions: Sequence[TopicPartition]) -> Request:
    """AddPartitionsToTxn."""
    producer = session.ready

    def exchange(connection: Connection, _fields: Mapping[str, object], deadline_ns: int) -> Response:
        got = wire.add_partitions(connection, producer, partitions, deadline_ns)
        return got.error, got.at_ns, {}

    def then(outcome: Outcome, error: str | None, _found: Mapping[str, object]) -> None:
        if outcome == "ok":
            transaction.added.update(partitions)
            transaction.begun = True
        elif outcome == "fail" and error not in _LATER:
            _refused(session, transaction, error)

    fields = {**_of(session, transaction), "partitions": [name_of(one) for one in partitions]}
    return Request("add_partitions", fields, exchange, then, coordinator=(TRANSACTION, producer.transactional_id))


def send_request(
    session: Session,
    transaction: Transaction,
    home: TopicPartition,
    values: Sequence[int],
    *,
    record_bytes: int,
    timeout_ms: int,
    sources: Sequence[int] | None = None,
) -> Request:
    """One transactional batch."""
    producer, sequence = session.ready, session.sequences.get(home, 0)

    def exchange(connection: Connection, _fields: Mapping[str, object], deadline_ns: int) -> Response:
        produced = wire.produce_in_transaction(
            connection,
            producer,
            *home,
            values,
            sequence=sequence,
            record_bytes=record_bytes,
            timeout_ms=timeout_ms,
            deadline_ns=deadline_ns,
        )
        return produced.error, produced.at_ns, {} if produced.error else {"base_offset": produced.base_offset}

    def then(outcome: Outcome, error: str | None, found: Mapping[str, object]) -> None:
        if outcome == "ok":
            session.sequences[home] = sequence + len(values)
            base_offset = found["base_offset"]
            assert isinstance(base_offset, int)
            transaction.placed[home] = base_offset
        elif outcome == "fail":
            _refused(session, transaction, error)

    fields: dict[str, object] = {
        "values": list(values),
        "acks": -1,
        "sentinel": False,
        **_of(session, transaction),
        "sequence": sequence,
        **({} if sources is None else {"sources": list(sources)}),
    }
    return Request("send", fields, exchange, then, home=home)


def add_offsets_request(session: Session, transaction: Transaction, group: str) -> Request:
    """AddOffsetsToTxn."""
    producer = session.ready

    def exchange(connection: Connection, _fields: Mapping[str, object], deadline_ns: int) -> Response:
        got = wire.add_offsets(connection, producer, group, deadline_ns)
        return got.error, got.at_ns, {}

    def then(outcome: Outcome, error: str | None, _found: Mapping[str, object]) -> None:
        if outcome == "ok":
            transaction.begun = transaction.offsets_added = True
        elif outcome == "fail" and error not in _LATER:
            _refused(session, transaction, error)

    fields = {**_of(session, transaction), "group": group}
    return Request("add_offsets", fields, exchange, then, coordinator=(TRANSACTION, producer.transactional_id))


def txn_offsets_request(
    session: Session, transaction: Transaction, group: str, offsets: Mapping[TopicPartition, int]
) -> Request:
    """TxnOffsetCommit, to the group's coordinator."""
    producer = session.ready

    def exchange(connection: Connection, _fields: Mapping[str, object], deadline_ns: int) -> Response:
        got = wire.commit_in_transaction(connection, producer, group, offsets, deadline_ns)
        return got.error, got.at_ns, {}

    def then(outcome: Outcome, error: str | None, _found: Mapping[str, object]) -> None:
        if outcome == "ok":
            transaction.offsets_sent = True
        elif outcome == "fail" and error not in _LATER:
            _refused(session, transaction, error)

    fields = {
        **_of(session, transaction),
        "group": group,
        "member": "",
        "generation": -1,
        "offsets": offsets_as_written(offsets),
    }
    return Request("txn_offsets", fields, exchange, then, coordinator=(GROUP, group))


def end_request(session: Session, transaction: Transaction, commit: bool) -> Request:
    """EndTxn. The transaction is over where it is answered, or refused for good."""
    producer = session.ready

    def exchange(connection: Connection, _fields: Mapping[str, object], deadline_ns: int) -> Response:
        got = wire.end_transaction(connection, producer, commit, deadline_ns)
        return got.error, got.at_ns, {}

    def then(outcome: Outcome, error: str | None, _found: Mapping[str, object]) -> None:
        if outcome == "ok":
            session.transaction = None
        elif outcome == "fail" and error not in _LATER:
            _refused(session, transaction, error)
            session.transaction, session.lost = None, True

    fields = {**_of(session, transaction), "commit": commit}
    return Request("end_txn", fields, exchange, then, coordinator=(TRANSACTION, producer.transactional_id))


def name_of(partition: TopicPartition) -> str:
    """As the history has it."""
    return f"{partition[0]}-{partition[1]}"


def offsets_as_written(offsets: Mapping[TopicPartition, int]) -> list[dict[str, object]]:
    """As the history has them."""
    return [{"p": name_of(partition), "offset": offset} for partition, offset in offsets.items()]
