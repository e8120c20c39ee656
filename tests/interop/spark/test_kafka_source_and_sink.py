"""Spark 4's Kafka source and sink: batches, and Structured Streaming that is killed and goes on from its checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.group_members import fresh
from tests.support.kafka_jars import maven_jars
from tests.support.line_program import Ask, line_program
from tests.support.reading import read_values

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(500), pytest.mark.guarantee("K1")]
PARTITIONS = 3
# What pyspark itself brings; a token provider of one patch before does as well.
_OF_SPARK = (
    *("org.apache.spark", "org.scala-lang", "org.scala-lang.modules", "org.apache.hadoop", "org.slf4j"),
    *("org.lz4", "org.xerial.snappy", "com.github.luben", "com.google.code.findbugs"),
)
_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return made(cluster)


def made(cluster: Cluster) -> str:
    name = fresh("t")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(20)
    cluster.wait_told(name)
    return name


@contextmanager
def application(cluster: Cluster) -> Iterator[Ask]:
    """Its answer to a task; it is killed with its Java afterwards."""
    jars = maven_jars("spark-kafka-4.0.1", *_JARS, without=_OF_SPARK)
    program = Path(__file__).with_name("job.py")
    with line_program([sys.executable, str(program), cluster.bootstrap, str(jars)]) as ask:
        yield ask


def send(cluster: Cluster, topic: str, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(first, last):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def numbers(last: int) -> list[str]:
    return [str(number) for number in range(last)]


def test_batches_and_a_stream_carry_every_record(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """What a transaction aborted is no part of them."""
    other = made(cluster)
    transactional = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": fresh("tx"), "log_level": 0})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    for partition in range(PARTITIONS):
        transactional.produce(topic, "-1", partition=partition)
    assert transactional.flush(30) == 0
    transactional.abort_transaction(30)
    with application(cluster) as ask:
        assert ask(f"write {topic} 0 300") == "done"
        assert sorted(read_values(cluster, topic), key=int) == numbers(300)
        assert ask(f"read {topic} read_committed").split() == numbers(300)
        assert ask(f"read {topic} read_uncommitted").split()[:PARTITIONS] == ["-1"] * PARTITIONS
        send(cluster, other, 0, 90)
        assert ask(f"copy {other} {topic} {tmp_path}/copied") == "done"
        assert len(read_values(cluster, topic)) == 390


def test_stream_that_is_killed_goes_on_from_its_checkpoint_and_takes_each_record_once(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    send(cluster, topic, 0, 1500)
    with application(cluster) as ask:
        assert ask(f"follow {topic} {folder} {checkpoint}") == "done"
        wait_until(lambda: len(list((checkpoint / "commits").glob("[0-9]*"))) >= 3, "some triggers are over", 120)
        leader = cluster.state(topic, 0)
        assert leader is not None
        killed = cluster.brokers[int(str(leader["leader"]))]
        killed.kill()
        triggers = len(list((checkpoint / "commits").glob("[0-9]*")))
        wait_until(lambda: len(list((checkpoint / "commits").glob("[0-9]*"))) >= triggers + 3, "it goes on", 120)
    killed.start()
    cluster.wait_known()
    done = len(list((checkpoint / "commits").glob("[0-9]*")))
    send(cluster, topic, 1500, 1700)
    with application(cluster) as ask:
        assert ask(f"finish {topic} {folder} {checkpoint}") == "done"
        assert ask(f"files {folder}").split() == numbers(1700)
    assert len(list((checkpoint / "commits").glob("[0-9]*"))) > done, "there was something left to do"
