"""The command line tools of Kafka 4 on three brokers: topics, console clients, groups, verifiable and perf clients."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster
from tests.support.group_members import fresh
from tests.support.kafka_tools import TOOL_S, Tools, table
from tests.support.reading import read_values

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400), pytest.mark.guarantee("K1")]
TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERF = "org.apache.kafka.tools.ConsumerPerformance"
PARTITIONS = 3


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = fresh("t")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(20)
    cluster.wait_told(name)
    return name


def read_to_group(tools: Tools, topic: str, group: str, count: int) -> list[str]:
    options = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(count))
    return sorted(tools.run(CONSUMER, *options, "--timeout-ms", "30000").split(), key=int)


def test_topics_tool_makes_describes_widens_and_deletes(cluster: Cluster, tools: Tools) -> None:
    name = fresh("t")
    made = ("--create", "--topic", name, "--partitions", "2", "--replication-factor", "3")
    assert f"Created topic {name}" in tools.run(TOPICS, *made, "--config", "retention.ms=7200000")
    cluster.wait_told(name)
    described = tools.run(TOPICS, "--describe", "--topic", name)
    assert "PartitionCount: 2" in described
    assert "retention.ms=7200000" in described
    tools.run(TOPICS, "--alter", "--topic", name, "--partitions", "4")
    cluster.wait_told(name)
    assert tools.run(TOPICS, "--describe", "--topic", name).count("Leader: ") == 4
    assert name in tools.run(TOPICS, "--list").split()
    assert "already exists" in tools.run(TOPICS, *made, code=1)
    tools.run(TOPICS, "--delete", "--topic", name)
    assert name not in tools.run(TOPICS, "--list").split()


def test_console_clients_and_groups_tool_go_on_where_a_group_ended(tools: Tools, topic: str) -> None:
    group = fresh("g")
    first, second = ([str(n) for n in numbers] for numbers in (range(60), range(60, 90)))
    tools.run(PRODUCER, "--topic", topic, text="\n".join(first) + "\n")
    assert read_to_group(tools, topic, group, 60) == first
    tools.run(PRODUCER, "--topic", topic, text="\n".join(second) + "\n")
    assert read_to_group(tools, topic, group, 30) == second
    assert group in tools.run(GROUPS, "--list").split()
    offsets = table(tools.run(GROUPS, "--describe", "--group", group), "GROUP")
    assert sum(int(row["CURRENT-OFFSET"]) for row in offsets) == 90
    assert {row["LAG"] for row in offsets} == {"0"}
    tools.run(GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert read_to_group(tools, topic, group, 90) == first + second
    assert "was successful" in tools.run(GROUPS, "--delete", "--group", group)
    assert group not in tools.run(GROUPS, "--list").split()


@pytest.fixture
def running(tools: Tools) -> Iterator[list[subprocess.Popen[str]]]:
    """Tools that go on beside the test."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_verifiable_consumers_of_a_group_read_what_the_verifiable_producer_sent(
    cluster: Cluster, tools: Tools, topic: str, running: list[subprocess.Popen[str]]
) -> None:
    count, group = 6000, fresh("g")
    common = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--max-messages", str(count))
    sent = lines(tools.run(VERIFIABLE_PRODUCER, "--topic", topic, "--max-messages", str(count)))
    acknowledged = [(line["partition"], line["offset"]) for line in sent if line["name"] == "producer_send_success"]
    assert len(set(acknowledged)) == count
    options = ("--group-id", group, "--reset-policy", "earliest", "--verbose")
    command = tools.command(VERIFIABLE_CONSUMER, *common, *options)
    running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    printed, _ = running[0].communicate(timeout=TOOL_S)
    read = lines(printed)
    records = [(line["partition"], line["offset"]) for line in read if line["name"] == "record_data"]
    assert sorted(records) == sorted(acknowledged)
    commits = [line for line in read if line["name"] == "offsets_committed"]
    assert all(line["success"] for line in commits)
    last = {place["partition"]: place["offset"] for line in commits for place in line["offsets"]}
    assert sum(last.values()) == count


def test_perf_tools_move_as_many_as_they_are_told(tools: Tools, topic: str, cluster: Cluster) -> None:
    """The producer is idempotent, with several batches in flight."""
    count = 50_000
    made = perf(tools, topic, count)
    assert f"{count} records sent" in made.splitlines()[-1]
    read = tools.run(CONSUMER_PERF, "--topic", topic, "--messages", str(count), "--group", fresh("g"))
    assert int(read.splitlines()[-1].split(",")[4]) == count
    assert len(read_values(cluster, topic)) == count


def test_idempotent_producer_writes_each_record_once_through_a_kill_of_leaders(
    cluster: Cluster, tools: Tools, topic: str, running: list[subprocess.Popen[str]]
) -> None:
    """Batches that were in flight, answered or not, are sent again, five at a time."""
    count = 60_000
    command = perf_command(tools, topic, count, 6000)
    running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    assert running[0].stdout is not None
    running[0].stdout.readline()  # five seconds of it are over
    for broker in cluster.brokers.values():
        broker.kill()
        cluster.wait_state(topic, 0, isr=set(cluster.brokers) - {broker.broker_id})
        broker.start()
        for partition in range(PARTITIONS):
            cluster.wait_state(topic, partition, isr=set(cluster.brokers))
    printed, _ = running[0].communicate(timeout=TOOL_S)
    assert f"{count} records sent" in printed.splitlines()[-1], printed
    assert len(read_values(cluster, topic)) == count


def lines(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def perf(tools: Tools, topic: str, count: int) -> str:
    done = subprocess.run(perf_command(tools, topic, count, -1), capture_output=True, text=True, timeout=TOOL_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def perf_command(tools: Tools, topic: str, count: int, records_per_s: int) -> list[str]:
    """Small batches, so that many are in flight."""
    options = ("--topic", topic, "--num-records", str(count), "--record-size", "100")
    properties = (f"bootstrap.servers={tools.cluster.bootstrap}", "acks=all", "batch.size=1000")
    return tools.command(PRODUCER_PERF, *options, "--throughput", str(records_per_s), "--producer-props", *properties)
