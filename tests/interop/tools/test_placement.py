"""`highwater reassign`, `leader-election`, `log-dirs` and `transactions` against three brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.tools.conftest import Tool
from tests.support.brokers import Cluster, wait_until
from tests.support.group_members import fresh

pytestmark = pytest.mark.guarantee("tools")


@pytest.fixture
def topic(cluster: Cluster, tool: Tool) -> str:
    """One partition on brokers 1 and 2."""
    name = fresh("t")
    tool("topics", "--create", "--topic", name, "--replica-assignment", "1:2")
    cluster.wait_told(name)
    return name


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    """In an open transaction, with a record in it."""
    made = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": fresh("x")})
    made.init_transactions(30)
    made.begin_transaction()
    yield made
    made.purge()


def leader(tool: Tool, topic: str) -> str:
    return tool("topics", "--describe", "--topic", topic)[1].split("\t")[3]


def plan(tmp_path: Path, topic: str, *replicas: int, **more: object) -> str:
    file = tmp_path / "plan.json"
    entry = {"topic": topic, "partition": 0, "replicas": list(replicas), **more}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return str(file)


def test_replicas_move_and_throttles_go_when_it_is_verified(tool: Tool, topic: str, tmp_path: Path) -> None:
    file = plan(tmp_path, topic, 3, 2)
    begun = tool("reassign", "--execute", "--reassignment-json-file", file, "--throttle", "1000000")
    current = {"topic": topic, "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    assert begun[0] == "Current partition replica assignment"
    assert json.loads(begun[2]) == {"version": 1, "partitions": [current]}
    assert begun[-1] == f"Successfully started partition reassignment for {topic}-0"

    def verified() -> bool:
        return f"Reassignment of partition {topic}-0 is completed." in tool(
            "reassign", "--verify", "--reassignment-json-file", file, "--preserve-throttles"
        )

    wait_until(verified, "the reassignment is over")
    assert any("throttled.replicas" in line for line in tool("configs", "--describe", "--topic", topic))
    assert tool("reassign", "--verify", "--reassignment-json-file", file)[-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    wait_until(lambda: len(tool("configs", "--describe", "--topic", topic)) == 1, "throttles are gone")
    assert len(tool("configs", "--describe", "--broker", "3")) == 1
    assert tool("reassign", "--list") == ["No partition reassignments found."]
    assert tool("reassign", "--cancel", "--reassignment-json-file", file, "--preserve-throttles") == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
    ]


def test_replicas_are_proposed_and_wrong_plans_refused(tool: Tool, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    shown = tool("reassign", "--generate", "--topics-to-move-json-file", str(file), "--broker-list", "3,2")
    (proposed,) = json.loads(shown[-1])["partitions"]
    assert sorted(proposed["replicas"]) == [2, 3]
    words = ("--execute", "--reassignment-json-file")
    assert tool("reassign", *words, plan(tmp_path, topic, 9), code=1) == ["Error: Unknown broker id 9"]
    assert tool("reassign", *words, plan(tmp_path, topic), code=1) == ["Error: Partition replica list cannot be empty"]
    assert tool("reassign", *words, plan(tmp_path, topic, 1, 1), code=1) == [
        f"Error: Partition replica lists may not contain duplicate entries: {topic}-0 contains multiple entries for 1"
    ]


def test_replica_in_a_log_dir_is_looked_up(cluster: Cluster, tool: Tool, topic: str, tmp_path: Path) -> None:
    own = str(cluster.brokers[1].folder / "data")
    file = plan(tmp_path, topic, 1, 2, log_dirs=[own, "any"])
    words = ("--verify", "--reassignment-json-file", file, "--preserve-throttles")
    assert tool("reassign", *words)[2] == f"Reassignment of replica {topic}-0-1 completed successfully."
    file = plan(tmp_path, topic, 1, 2, log_dirs=["/nowhere", "any"])
    assert tool("reassign", *words)[2] == (
        f"Partition {topic}-0 on broker 1 is not being moved from log dir {own} to /nowhere."
    )
    shown = tool("log-dirs", "--describe", "--topic-list", topic, "--broker-list", "1,3")
    assert shown[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 1,3",
    ]
    first, third = json.loads(shown[2])["brokers"]
    assert [one["partition"] for one in first["logDirs"][0]["partitions"]] == [f"{topic}-0"]
    assert (first["logDirs"][0]["logDir"], first["logDirs"][0]["error"]) == (own, None)
    assert third["logDirs"][0]["partitions"] == []
    assert tool("log-dirs", "--describe", "--broker-list", "9", code=1) == []


def test_preferred_leader_is_elected_where_another_leads(tool: Tool, topic: str, tmp_path: Path) -> None:
    one = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert tool("leader-election", *one) == [f"Valid replica already elected for partitions {topic}-0"]
    assert leader(tool, topic) == "Leader: 1"
    file = plan(tmp_path, topic, 2, 1)
    tool("reassign", "--execute", "--reassignment-json-file", file)
    wait_until(lambda: tool("reassign", "--list") == ["No partition reassignments found."], "the order is another")

    def elected() -> bool:
        (line,) = tool("leader-election", "--election-type", "preferred", "--path-to-json-file", file)
        return line == f"Valid replica already elected for partitions {topic}-0"

    wait_until(elected, "the first replica leads")
    wait_until(lambda: leader(tool, topic) == "Leader: 2", "and is told of")
    assert tool("leader-election", "--election-type", "unclean", "--topic", topic, "--partition", "7", code=1) == [
        f"Error completing leader election (UNCLEAN) for partition: {topic}-7: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: The partition does not exist."
    ]


def test_transaction_is_listed_described_and_ended(tool: Tool, topic: str, producer: Producer) -> None:
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(30) == 0
    rows = [line.split() for line in tool("transactions", "list")]
    assert rows[0] == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    (name,) = {row[0] for row in rows[1:] if row[3] == "Ongoing"}
    described = tool("transactions", "describe", "--transactional-id", name)[1].split()
    assert (described[1], described[4], described[8]) == (name, "Ongoing", f"{topic}-0")
    where = ("--topic", topic, "--partition", "0")
    (state,) = [line.split() for line in tool("transactions", "describe-producers", *where)[1:]]
    assert (state[0], state[-1]) == (described[2], "0")
    assert tool("transactions", "list", "--duration-filter", "600000") == tool("transactions", "list")[:1]
    assert tool("transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")[1:] == []
    assert tool("transactions", "abort", *where, "--start-offset", "5", code=1) == []
    assert tool("transactions", "abort", *where, "--start-offset", "0") == []
    (state,) = [line.split() for line in tool("transactions", "describe-producers", *where)[1:]]
    assert state[-1] == "None"
    producer.abort_transaction(30)
    assert tool("transactions", "describe", "--transactional-id", "no-such", code=1) == []
