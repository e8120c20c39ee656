"""The lean client against real brokers: what it says it wrote is there, is valid, and is what it reads back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clients.lean import Lean, build, parse_attempts
from benchmarks.measure.logs import all_equal, end_offset, first_difference, sizes
from benchmarks.process import BenchmarkFailed, run_tool
from tests.support.brokers import Cluster, running_cluster
from tests.support.wait import eventually

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc: apt-get install build-essential")
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def lean(cluster: Cluster) -> Lean:
    return Lean(build(), cluster.bootstrap)


def make_topic(cluster: Cluster, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(20)
    for partition in range(PARTITIONS):
        cluster.wait_state(name, partition, isr={1, 2, 3})
    cluster.wait_told(name)  # else a leader may not know yet that it is one, and the client repeats nothing
    return name


def test_lean_records_are_valid_to_a_real_client_and_counted_right(cluster: Cluster, lean: Lean) -> None:
    topic = make_topic(cluster, "lean-saturated")
    result = lean.produce(topic, acks=-1, record_bytes=100, batch_bytes=4096, records=2500)
    assert (result.records, result.failed_records) == (2500, 0)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "check.crcs": True, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    got = 0
    try:
        while got < 2500:
            messages = consumer.consume(2500 - got, timeout=20)
            assert messages, f"only {got} arrived"
            assert all(message.error() is None and len(message.value() or b"") == 100 for message in messages)
            got += len(messages)
    finally:
        consumer.close()
    assert lean.consume(topic, records=2500).records == 2500


def test_lean_logs_are_found_equal_and_as_long_as_was_acknowledged(cluster: Cluster, lean: Lean) -> None:
    topic = make_topic(cluster, "lean-logs")
    lean.produce(topic, acks=1, record_bytes=1024, batch_bytes=16384, records=3000)
    folders = [broker.folder / "data" for broker in cluster.brokers.values()]
    eventually(lambda: all_equal(sizes(folders, topic, PARTITIONS)), "equally long logs")
    assert first_difference(folders, topic, PARTITIONS) is None
    for folder in folders:
        assert sum(end_offset(Path(folder) / f"{topic}-{p}") for p in range(PARTITIONS)) == 3000


def test_lean_at_a_fixed_rate_measures_every_record_after_the_skip(cluster: Cluster, lean: Lean) -> None:
    topic = make_topic(cluster, "lean-rate")
    result = lean.produce(topic, acks=-1, rate=500, record_bytes=100, records=500, skip_ms=200)
    assert result.records == 500
    assert result.seconds >= 0.99
    assert result.latency_us.count == pytest.approx(400, abs=2)
    assert 0 < result.latency_us.p50 <= result.latency_us.p99 <= result.latency_us.max


def test_lean_probe_names_the_broker_that_took_each_record(cluster: Cluster, lean: Lean) -> None:
    topic = make_topic(cluster, "lean-probe")
    state = cluster.state(topic, 0)
    assert state is not None
    output = run_tool(lean.command("probe", topic, record_bytes=100, seconds=0.5), 30)
    attempts = parse_attempts(output)
    assert {attempt.broker for attempt in attempts} == {state["leader"]}
    assert [attempt.offset for attempt in attempts] == list(range(len(attempts)))
    assert all(attempt.known_ns >= attempt.sent_ns for attempt in attempts)


def test_lean_consumer_beside_a_producer_measures_every_record_from_when_it_was_due(
    cluster: Cluster, lean: Lean
) -> None:
    topic = make_topic(cluster, "lean-head")
    # Both programs have to be there by then.
    options = {"records": 300, "start_ns": time.monotonic_ns() + 3_000_000_000, "skip_ms": 100}
    consumer = lean.begin("consume", topic, due_rate=500, **options)
    try:
        produced = lean.produce(topic, acks=-1, rate=500, record_bytes=100, **options)
        consumed = consumer.finish()
    finally:
        consumer.kill()
    assert produced.first_send_ns == options["start_ns"]
    assert (produced.records, consumed.records) == (300, 300)
    assert consumed.latency_us.count == pytest.approx(250, abs=2)
    assert consumed.latency_us.max >= produced.latency_us.p50 > 0


def test_lean_start_that_is_over_is_refused(cluster: Cluster, lean: Lean) -> None:
    topic = make_topic(cluster, "lean-late")
    with pytest.raises(BenchmarkFailed, match="--start-ns was"):
        lean.produce(topic, rate=500, records=1, start_ns=1)
