"""Transactions of real clients on real brokers: read back whole or not at all, whoever is killed in between."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.core.coordination import TRANSACTION_TOPIC, partition_of
from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.headers import encode_request_header
from broker.wire.messages import produce
from broker.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from broker.wire.schema import Message as Body
from tests.support.brokers import Broker, Cluster, running_cluster
from tests.support.transactions import transactional
from tests.support.wait import eventually

pytestmark = pytest.mark.timeout(180)

STATE_PARTITIONS = 3
SETTINGS = {
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.min.isr": "1",
    "min.insync.replicas": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(20)
        yield cluster


def producer(cluster: Cluster, transactional_id: str = "tx", timeout_ms: int = 60_000) -> Producer:
    """With its producer id."""
    made = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    made.init_transactions(30)
    return made


def write(producer: Producer, *values: str) -> None:
    """Begin a transaction with records in all three partitions."""
    producer.begin_transaction()
    for place, value in enumerate(values):
        producer.produce("t", value, partition=place % 3)
    assert producer.flush(30) == 0


def committed(cluster: Cluster, count: int, topic: str = "t", partitions: int = 3) -> list[str]:
    """What a reader of committed records finds within some time, and that there is no more of it."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        found: list[str] = []
        until = time.monotonic() + 30
        while time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is None:
                if len(found) >= count:
                    break
                continue
            assert message.error() is None
            value = message.value()
            assert value is not None
            found.append(value.decode())
        return sorted(found)
    finally:
        consumer.close()


def coordinator(cluster: Cluster, transactional_id: str = "tx") -> Broker:
    """The broker that leads the id's partition."""
    state = cluster.state(TRANSACTION_TOPIC, partition_of(transactional_id, STATE_PARTITIONS))
    assert state is not None
    leader = state["leader"]
    assert isinstance(leader, int)
    return cluster.brokers[leader]


def ask(broker: Broker, request: Body, version: int) -> memoryview:
    """The body of the response."""
    return ask_raw(broker, request.API, version, request.encode(version))


def ask_raw(broker: Broker, api: ApiKey, version: int, body: bytes) -> memoryview:
    frame = encode_request_header(api, version, 1, "test") + body
    with socket.create_connection((broker.host, broker.port), timeout=20) as sock:
        sock.sendall(len(frame).to_bytes(4, "big") + frame)
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            more = sock.recv(65536)
            assert more, "closed"
            data += more
    return memoryview(data)[8 + response_header_version(api, version) :]


def described(cluster: Cluster, transactional_id: str = "tx") -> tuple[str, int, int]:
    """(state, producer id, epoch) as its coordinator has it; the state is the error's name where it has none."""
    try:
        body = ask(coordinator(cluster, transactional_id), DescribeTransactionsRequest([transactional_id]), 0)
    except OSError:
        return "unreachable", -1, -1
    found = DescribeTransactionsResponse.decode(0, body).transaction_states[0]
    if found.error_code:
        return ErrorCode(found.error_code).name, -1, -1
    return found.transaction_state, found.producer_id, found.producer_epoch


def comes_to(cluster: Cluster, *states: str) -> None:
    eventually(lambda: described(cluster)[0] in states, timeout_s=30)


@pytest.mark.guarantee("transactions")
def test_transactions_are_read_whole_or_not_at_all(cluster: Cluster) -> None:
    client = producer(cluster)
    for name, end in (("a", client.commit_transaction), ("b", client.abort_transaction)):
        write(client, *(name + str(n) for n in range(6)))
        end(30)
    write(client, "c0", "c1", "c2")
    client.commit_transaction(30)
    assert committed(cluster, 9) == [*(f"a{n}" for n in range(6)), "c0", "c1", "c2"]


@pytest.mark.guarantee("transactions")
@pytest.mark.parametrize("commit", [True, False])
def test_decision_outlives_its_coordinator(cluster: Cluster, commit: bool) -> None:
    """The coordinator is killed in PrepareCommit or PrepareAbort.

    Markers wait for three replicas in sync, of which one is down, and the coordinator's own records for one.
    """
    client = producer(cluster)
    write(client, "a", "b", "c")
    first = coordinator(cluster)
    other = next(broker for broker in cluster.brokers.values() if broker is not first)
    other.kill()
    eventually(lambda: len(cluster.live()) == 2)
    (client.commit_transaction if commit else client.abort_transaction)(30)
    state = "PrepareCommit" if commit else "PrepareAbort"
    assert described(cluster)[0] == state
    first.kill()
    eventually(lambda: coordinator(cluster) is not first)
    comes_to(cluster, state)
    other.start()
    first.start()
    comes_to(cluster, "CompleteCommit" if commit else "CompleteAbort")
    assert committed(cluster, 3 if commit else 0) == (["a", "b", "c"] if commit else [])


@pytest.mark.guarantee("transactions")
def test_producer_goes_on_through_kills_of_coordinators(cluster: Cluster) -> None:
    client = producer(cluster)
    expected: list[str] = []
    for turn in range(3):
        names = [f"{turn}-{n}" for n in range(3)]
        write(client, *names)
        broker = coordinator(cluster)
        broker.kill()
        client.commit_transaction(60)
        expected += names
        broker.start()
        eventually(lambda: cluster.live() == {1, 2, 3}, timeout_s=30)
    assert committed(cluster, len(expected)) == sorted(expected)


@pytest.mark.guarantee("transactions")
def test_zombie_is_fenced(cluster: Cluster) -> None:
    zombie = producer(cluster)
    write(zombie, "old")
    successor = producer(cluster)
    write(successor, "new")
    successor.commit_transaction(30)
    with pytest.raises(KafkaException) as raised:
        zombie.commit_transaction(30)
    assert raised.value.args[0].code() in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        -144,  # librdkafka's _FENCED
    )
    assert committed(cluster, 1) == ["new"]


@pytest.mark.guarantee("transactions")
def test_transaction_that_takes_too_long_is_aborted(cluster: Cluster) -> None:
    client = producer(cluster, timeout_ms=1000)
    write(client, "late")
    comes_to(cluster, "CompleteAbort")
    with pytest.raises(KafkaException):
        client.commit_transaction(30)
    assert committed(cluster, 0) == []


@pytest.mark.guarantee("no-hanging-transactions")
def test_batch_that_comes_after_its_transactions_end_begins_no_other(cluster: Cluster) -> None:
    client = producer(cluster)
    write(client, "a")
    client.abort_transaction(30)
    comes_to(cluster, "CompleteAbort")  # the answer comes before the markers
    _, producer_id, epoch = described(cluster)
    state = cluster.state("t", 0)
    assert state is not None
    leader = state["leader"]
    assert isinstance(leader, int)
    late = transactional("late", producer_id, 1, epoch)
    parts = [produce.ProducePartition("t", 0, late)]
    body = produce.encode_request(9, produce.ProduceRequest("tx", -1, 10_000, parts))
    response = produce.decode_response(9, ask_raw(cluster.brokers[leader], ApiKey.PRODUCE, 9, bytes(body)))
    assert response.results[0].error == ErrorCode.INVALID_TXN_STATE
    second = producer(cluster, "other")
    write(second, "b")
    second.commit_transaction(30)
    assert committed(cluster, 1) == ["b"], "nothing hangs before it"


@pytest.mark.guarantee("transactions")
def test_offsets_are_committed_with_the_records_that_were_made_of_them(cluster: Cluster) -> None:
    """Consume, transform, produce: an aborted round is read again, a committed one is not."""
    source = Producer({"bootstrap.servers": cluster.bootstrap})
    for n in range(6):
        source.produce("t", str(n), partition=0)
    assert source.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("out", 1, 3)])["out"].result(20)
    client = producer(cluster)
    for commit in (False, True, False, True):
        _transform(cluster, client, commit)
    assert committed(cluster, 6, "out", 1) == [f"<{n}>" for n in range(6)]


def _transform(cluster: Cluster, client: Producer, commit: bool) -> None:
    """Three records of "t" in one transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "transformers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe(["t"])
        taken: list[Message] = []
        while len(taken) < 3:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            taken.append(message)
        client.begin_transaction()
        for message in taken:
            value = message.value()
            assert value is not None
            client.produce("out", f"<{value.decode()}>")
        offset = taken[-1].offset()
        assert offset is not None
        client.send_offsets_to_transaction([TopicPartition("t", 0, offset + 1)], consumer.consumer_group_metadata(), 30)
        (client.commit_transaction if commit else client.abort_transaction)(30)
    finally:
        consumer.close()
