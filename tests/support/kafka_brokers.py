"""Real brokers of Apache Kafka with a real ZooKeeper, small and quick, for tests that compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.systems import Broker, kafka
from benchmarks.zookeeper import ZooKeeper
from tests.support.brokers import metadata_of, wait_until


@contextmanager
def kafka_brokers(
    folder: Path, count: int, more: Mapping[str, str] | None = None
) -> Iterator[tuple[ZooKeeper, list[Broker]]]:
    """With small indexes, quick cleanings, and one partition for groups and for transactions. more: settings."""
    settings = {
        "log.index.interval.bytes": "500",
        "log.cleaner.backoff.ms": "100",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **(more or {}),
    }
    kind = kafka(None)
    kind = replace(kind, argv=tuple({"-Xmx1G": "-Xmx384M", "-Xms1G": "-Xms128M"}.get(word, word) for word in kind.argv))
    zookeeper = ZooKeeper(folder / "zookeeper")
    brokers = [Broker(kind, folder / f"broker-{i}", i, zookeeper.connect, settings) for i in range(1, count + 1)]
    try:
        zookeeper.start()
        for broker in brokers:
            broker.daemon.start()
        everybody = set(range(1, count + 1))
        wait_until(
            lambda: zookeeper.live_brokers() == everybody and all(_knows(b, everybody) for b in brokers),
            "Kafka's brokers serve",
            120,
        )
        yield zookeeper, brokers
    finally:
        for broker in brokers:
            broker.daemon.kill()
        zookeeper.close()


def _knows(broker: Broker, everybody: set[int]) -> bool:
    """Whether a broker tells clients of all brokers and of a controller: librdkafka that hears of none pauses long."""
    told = metadata_of("127.0.0.1", broker.port)
    return told is not None and told.controller_id in everybody and {one.node_id for one in told.brokers} == everybody
