"""Kafka Streams counts words with exactly_once_v2, while it and brokers are killed: each step goes out once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.streams.conftest import made
from tests.support.brokers import Cluster, wait_until
from tests.support.group_members import fresh
from tests.support.kafka_jars import VERSION, maven_jars
from tests.support.line_program import java_program, line_program
from tests.support.reading import read_values, stable_end

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(500), pytest.mark.guarantee("transactions", "K1")]
PARTITIONS = 3
WORDS = ("river", "tide", "level", "mark", "flood", "ebb", "shore")
STEP_S = 150
LINES = 30_000


@contextmanager
def counting(cluster: Cluster, application: str, folder: Path, source: str, target: str) -> Iterator[None]:
    """The application runs; it is killed afterwards."""
    jars = maven_jars(f"kafka-streams-{VERSION}", f"org.apache.kafka:kafka-streams:{VERSION}")
    words = (cluster.bootstrap, application, str(folder), source, target)
    with line_program(java_program(Path(__file__).with_name("WordCount.java"), f"{jars}/*", *words)) as ask:
        wait_until(lambda: ask("state") == "RUNNING", "the application runs", STEP_S)
        yield


def send(cluster: Cluster, topic: str, first: int, last: int) -> Counter[str]:
    """Lines of two words each, and how often each word is in them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    sent: Counter[str] = Counter()
    for number in range(first, last):
        words = [WORDS[number % len(WORDS)], WORDS[number * number % len(WORDS)]]
        producer.produce(topic, " ".join(words), partition=number % PARTITIONS)
        sent.update(words)
    assert producer.flush(30) == 0
    return sent


def steps(cluster: Cluster, target: str) -> dict[str, list[int]]:
    """The counts of each word, in the order in which they went out."""
    found: dict[str, list[int]] = defaultdict(list)
    for value in read_values(cluster, target):
        word, count = value.split(" ")
        found[word].append(int(count))
    return found


def test_no_step_of_a_count_is_missing_or_goes_out_twice(cluster: Cluster, tmp_path: Path) -> None:
    source, target = made(cluster, "lines", PARTITIONS), made(cluster, "counts", PARTITIONS)
    application = fresh("app")
    sent = send(cluster, source, 0, LINES)
    with counting(cluster, application, tmp_path, source, target):
        wait_until(lambda: any(stable_end(cluster, target, p) for p in range(PARTITIONS)), "counts are out", STEP_S)
    so_far = sum(map(len, steps(cluster, target).values()))
    assert so_far < sent.total(), "it was killed with something left to do"
    with counting(cluster, application, tmp_path, source, target):
        for broker in cluster.brokers.values():
            sent += send(cluster, source, 0, 300)
            broker.kill()
            wait_until(lambda: cluster.live() != set(cluster.brokers), "its session has ended")
            broker.start()
            cluster.wait_known()
            counted(cluster, target, sent)
    assert steps(cluster, target) == {word: list(range(1, count + 1)) for word, count in sent.items()}


def counted(cluster: Cluster, target: str, sent: Counter[str]) -> None:
    wait_until(lambda: sum(map(len, steps(cluster, target).values())) >= sent.total(), "all is counted", STEP_S)
