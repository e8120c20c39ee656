"""Real brokers compact and delete: three replicas, each cleaned by its own process, while they serve and are killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.log.files.checkpoints import read_offsets
from broker.model import ids
from tests.support.brokers import Broker, Cluster, running_cluster, wait_until
from tests.support.flipped import flip
from tests.support.watermarks import watermarks

pytestmark = pytest.mark.guarantee("L3", "L6")

TOPIC = "t"
SETTINGS = {
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.2",
    "log.cleaner.delete.retention.ms": "0",
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "min.insync.replicas": "2",
}
KEYS = 50

Table = dict[bytes, bytes]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, settings=SETTINGS) as running:
        yield running


def _create(cluster: Cluster, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    named = {name.replace("_", "."): value for name, value in config.items()}
    topic = NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]], config={"segment.bytes": "20000", **named})
    admin.create_topics([topic])[TOPIC].result(20)
    cluster.wait_state(TOPIC, 0, leader=1, isr={1, 2, 3})


def _write(cluster: Cluster, rounds: range, table: Table) -> None:
    """Random values and tombstones, with every codec; `table` follows."""
    rng = random.Random(rounds.start)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "retry.backoff.max.ms": 100,
            }
        )
        for n in rounds:
            key = b"%s-%d" % (codec.encode(), rng.randrange(KEYS))
            value = None if rng.random() < 0.2 else b"%d-" % n * 10
            producer.produce(TOPIC, value, key, partition=0)
            producer.poll(0)
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        assert producer.flush(60) == 0


def _consumer(cluster: Cluster) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )


def _read(cluster: Cluster) -> tuple[Table, int]:
    """The table that a consumer builds from the beginning, and of how many records."""
    cluster.wait_told(TOPIC)  # librdkafka asks once for a log's ends, also a leader that was killed
    consumer = _consumer(cluster)
    partition = TopicPartition(TOPIC, 0)
    low, high = watermarks(consumer, TOPIC)
    table: Table = {}
    count = 0
    last = -1
    consumer.assign([TopicPartition(TOPIC, 0, low)])
    try:
        while consumer.position([partition])[0].offset < high:
            for message in consumer.consume(500, timeout=1):
                assert message.error() is None
                offset, key = message.offset(), message.key()
                assert offset is not None
                assert isinstance(key, bytes)
                assert offset > last
                last = offset
                count += 1
                value = message.value()
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
    finally:
        consumer.close()
    return table, count


def _cleaned(broker: Broker) -> int:
    """Up to where, as checkpointed."""
    path = broker.folder / "data" / "cleaner-offset-checkpoint"
    return read_offsets(str(path)).get(ids.TopicPartition(TOPIC, 0), 0)


def _end(cluster: Cluster) -> int:
    consumer = _consumer(cluster)
    try:
        return watermarks(consumer, TOPIC)[1]
    finally:
        consumer.close()


def _wait_cleaned(cluster: Cluster, until: int) -> None:
    wait_until(
        lambda: all(_cleaned(b) >= until for b in cluster.brokers.values() if b.process is not None),
        lambda: "cleaned up to " + str({i: _cleaned(b) for i, b in cluster.brokers.items()}),
    )


def _wait_idle(broker: Broker) -> None:
    """Until its cleaner has done all that there is to do: everything below the active segment."""

    def active_segment() -> int:
        return max(int(path.stem) for path in (broker.folder / "data" / f"{TOPIC}-0").glob("*.log"))

    wait_until(lambda: _cleaned(broker) == active_segment(), lambda: broker.output)


def test_every_replica_is_cleaned_and_serves_the_last_value_of_each_key_as_leader(cluster: Cluster) -> None:
    table: Table = {}
    _create(cluster, cleanup_policy="compact")
    _write(cluster, range(600), table)
    _wait_cleaned(cluster, 2000)
    for leader in (1, 2, 3):
        others = [broker for i, broker in cluster.brokers.items() if i != leader]
        for broker in others:
            broker.kill()
        cluster.wait_state(TOPIC, 0, leader=leader, isr={leader})
        found, count = _read(cluster)
        assert found == table
        assert count < 2000
        for broker in others:
            broker.start()
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
    end = _end(cluster)
    _write(cluster, range(5000, 5300), table)
    _wait_cleaned(cluster, end)
    assert _read(cluster)[0] == table
    for broker in cluster.brokers.values():
        assert broker.stop() == 0
    for broker in cluster.brokers.values():
        broker.start()
    cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
    assert _read(cluster)[0] == table


def test_leader_whose_cleaner_meets_damage_gives_way_and_is_fetched_anew(cluster: Cluster) -> None:
    table: Table = {}
    _create(cluster, cleanup_policy="compact")
    _write(cluster, range(300), table)
    _wait_cleaned(cluster, 500)
    # A cleaning that has read the segment, and is about to replace it, would take the damage away with it.
    _wait_idle(cluster.brokers[1])
    damaged = min((cluster.brokers[1].folder / "data" / f"{TOPIC}-0").glob("*.log"))
    flip(damaged, damaged.stat().st_size // 2)
    _write(cluster, range(300, 600), table)
    wait_until(
        lambda: f"{TOPIC}-0: replica goes offline" in cluster.brokers[1].output,
        lambda: cluster.brokers[1].output,
    )
    cluster.wait_state(TOPIC, 0, leader=2, isr={1, 2, 3})
    cluster.brokers[2].kill()
    cluster.wait_state(TOPIC, 0, leader=1, isr={1, 3})
    assert _read(cluster)[0] == table


@pytest.mark.nightly
def test_kills_during_cleanings_cost_no_value(cluster: Cluster) -> None:
    table: Table = {}
    _create(cluster, cleanup_policy="compact")
    rng = random.Random(4)
    for n in range(6):
        _write(cluster, range(n * 100, n * 100 + 100), table)
        victim = cluster.brokers[rng.randrange(1, 4)]
        victim.kill()
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3} - {victim.broker_id})
        victim.start()
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
        assert _read(cluster)[0] == table
    _wait_cleaned(cluster, 2000)
    found, count = _read(cluster)
    assert found == table
    assert count < 2000
    for broker in cluster.brokers.values():
        assert "Traceback" not in broker.output
        assert "goes offline" not in broker.output


def test_compacted_topic_refuses_records_without_a_key(cluster: Cluster) -> None:
    _create(cluster, cleanup_policy="compact")
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(TOPIC, b"value", on_delivery=lambda error, _: errors.append(error.str() if error else ""))
    assert producer.flush(20) == 0
    assert len(errors) == 1
    assert "key" in errors[0] or "validate" in errors[0], errors
