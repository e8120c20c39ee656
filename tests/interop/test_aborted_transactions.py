"""Transactions that Apache Kafka wrote: our log indexes them as it did, and our broker shows its consumers the same."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.systems import Broker, highwater
from broker.log.log import PartitionLog
from broker.model.ids import TopicPartition as Partition
from tests.property.log.log_tools import Clock, open_store
from tests.support.brokers import wait_until
from tests.support.committed_reader import read_committed
from tests.support.kafka_brokers import kafka_brokers

pytestmark = [pytest.mark.timeout(240), pytest.mark.guarantee("L1")]

TP = Partition("t", 0)
LAST = b"last"
TRANSACTIONS = 60

Records = list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Broker, Records, set[bytes]]]:
    """A stopped Kafka broker whose ZooKeeper runs on: (copy of its data, it, what its reader was shown, committed)."""
    folder = tmp_path_factory.mktemp("kafka")
    with kafka_brokers(folder, 1) as (zookeeper, (broker,)):
        new = NewTopic(TP.topic, 1, 1, config={"segment.bytes": "4000"})
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([new])[TP.topic].result(60)
        committed = transact(broker.address)
        shown = consume(broker.address)
        broker.daemon.stop()
        copy = folder / "copy"
        shutil.copytree(broker.data, copy)
        settings = {"log.dirs": str(broker.data)}
        ours = Broker(highwater(), folder / "ours", broker.broker_id, zookeeper.connect, settings)
        try:
            yield copy, ours, shown, committed
        finally:
            ours.daemon.kill()


def transact(bootstrap: str) -> set[bytes]:
    """Three producers whose transactions overlap; returns what they committed, and what was in no transaction."""
    chance = random.Random(20)
    settings = {"bootstrap.servers": bootstrap, "transaction.timeout.ms": 600_000, "batch.num.messages": 3}
    producers = [Producer({**settings, "transactional.id": f"tx-{n}"}) for n in range(3)]
    plain = Producer({"bootstrap.servers": bootstrap})
    pending: dict[int, list[bytes]] = {}
    committed: set[bytes] = set()
    for producer in producers:
        producer.init_transactions(60)
    for step in range(3 * TRANSACTIONS):
        number = chance.randrange(3)
        producer = producers[number]
        if number not in pending:
            producer.begin_transaction()
            pending[number] = []
        if chance.random() < 0.3:
            plain.produce(TP.topic, b"plain %d" % step, partition=0)
            assert plain.flush(60) == 0
            committed.add(b"plain %d" % step)
        for n in range(chance.randrange(1, 5)):
            value = b"%d of producer %d, step %d" % (n, number, step)
            producer.produce(TP.topic, value, partition=0)
            pending[number].append(value)
        assert producer.flush(60) == 0
        if chance.random() < 0.4:
            committed |= end(producer, pending.pop(number), chance.random() < 0.5)
    for number, values in pending.items():
        committed |= end(producers[number], values, commits=False)
    plain.produce(TP.topic, LAST, partition=0)
    assert plain.flush(60) == 0
    return committed


def end(producer: Producer, values: Sequence[bytes], commits: bool) -> set[bytes]:
    """What became visible by it."""
    if not commits:
        producer.abort_transaction(60)
        return set()
    producer.commit_transaction(60)
    return set(values)


def consume(bootstrap: str, isolation: str = "read_committed", max_bytes: int = 1500) -> Records:
    """(offset, value) of all before the last record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "fetch.message.max.bytes": max_bytes,
            "fetch.max.bytes": max_bytes,
            "message.max.bytes": max_bytes,
        }
    )
    consumer.assign([TopicPartition(TP.topic, 0, 0)])
    found: Records = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, f"nothing more after {found[-1:]}"
            assert message.error() is None, message.error()
            if message.value() == LAST:
                return found
            found.append((message.offset() or 0, message.value() or b""))
    finally:
        consumer.close()


def open_copy(copy: Path, path: Path, clean: bool) -> PartitionLog:
    shutil.copytree(copy, path)
    if not clean:
        (path / ".kafka_cleanshutdown").unlink()
        for point in path.glob("recovery-point-offset-checkpoint"):
            point.unlink()
        for index in path.rglob("*.txnindex"):
            index.unlink()
    store = open_store(str(path), Clock(), {"segment.bytes": "4000"})
    assert not store.offline_logs
    log = store.logs()[TP]
    log.restore_producers()
    return log


def indexes(path: Path) -> dict[str, bytes]:
    found = {file.name: file.read_bytes() for file in (path / str(TP)).glob("*.txnindex")}
    return {name: data for name, data in found.items() if data}


@pytest.mark.parametrize("clean", [True, False])
def test_log_indexes_and_shows_what_kafkas_did(
    written: tuple[Path, Broker, Records, set[bytes]], tmp_path: Path, clean: bool
) -> None:
    copy, _, shown, committed = written
    assert {value for _, value in shown} == committed
    log = open_copy(copy, tmp_path / "data", clean)
    assert len(indexes(copy)) > 3, "they are in several segments"
    assert indexes(tmp_path / "data") == indexes(copy)
    for max_bytes in (300, 1500, 1 << 20):
        assert read_committed(log, 0, max_bytes)[:-1] == shown


def test_broker_that_takes_kafkas_place_shows_its_reader_the_same(
    written: tuple[Path, Broker, Records, set[bytes]],
) -> None:
    _, broker, shown, _ = written
    broker.daemon.start()
    wait_until(broker.answers, "our broker serves", 60)
    assert consume(broker.address) == shown
    assert len(consume(broker.address, "read_uncommitted")) > len(shown)
