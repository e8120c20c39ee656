"""`highwater topics`, `configs` and `groups` against three brokers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from broker.tools import commands
from tests.interop.tools.conftest import Tool
from tests.support.brokers import Cluster, wait_until
from tests.support.group_members import fresh

pytestmark = pytest.mark.guarantee("tools")


def test_topic_is_created_described_enlarged_and_deleted(cluster: Cluster, tool: Tool) -> None:
    name = fresh("t")
    words = ("--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=1000")
    assert tool("topics", "--create", "--topic", name, *words) == [f"Created topic {name}."]
    assert tool("topics", "--create", "--topic", name, code=1) == [
        f"Error while executing topic command : Topic '{name}' already exists."
    ]
    assert tool("topics", "--create", "--topic", name, "--if-not-exists") == []
    cluster.wait_told(name)
    assert name in tool("topics", "--list")
    head, *partitions = tool("topics", "--describe", "--topic", name)
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 3"
        r"\tConfigs: min.insync.replicas=2,retention.ms=1000",
        head,
    )
    for index, line in enumerate(partitions):
        fields = dict(field.split(": ") for field in line.strip().split("\t"))
        assert fields["Partition"] == str(index)
        assert fields["Leader"] == fields["Replicas"].split(",")[0]
        assert sorted(fields["Isr"].split(",")) == ["1", "2", "3"]
    assert len(partitions) == 2
    assert tool("topics", "--alter", "--topic", name, "--partitions", "3", "--replica-assignment", "1:2:3", code=1) == [
        "Error while executing topic command : Increasing the number of partitions by 1 but 0 assignments provided."
    ]
    assert tool("topics", "--alter", "--topic", name, "--partitions", "3") == []
    wait_until(lambda: len(tool("topics", "--describe", "--topic", name)) == 4, "the new partition is told of")
    assert tool("topics", "--describe", "--under-replicated-partitions", "--topic", name) == []
    assert tool("topics", "--delete", "--topic", name) == []
    wait_until(lambda: name not in tool("topics", "--list"), "the topic is gone")
    assert tool("topics", "--describe", "--topic", name, code=1) == [
        f"Error while executing topic command : Topic '{name}' does not exist as expected"
    ]
    assert tool("topics", "--describe", "--topic", name, "--if-exists") == []


def test_topic_is_found_by_its_id_and_placed_by_hand(cluster: Cluster, tool: Tool) -> None:
    name = fresh("t")
    tool("topics", "--create", "--topic", name, "--replica-assignment", "3:1,2:3")
    cluster.wait_told(name)
    lines = tool("topics", "--describe", "--topic", name)
    assert [line.split("\t")[4] for line in lines[1:]] == ["Replicas: 3,1", "Replicas: 2,3"]
    topic_id = re.findall(r"TopicId: (\S+)", lines[0])[0]
    assert tool("topics", "--describe", "--topic-id", topic_id) == lines


def test_first_broker_of_the_list_may_be_down(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    assert commands.run("topics", ["--bootstrap-server", f"127.0.0.1:1,{cluster.bootstrap}", "--list"]) == 0
    assert capfd.readouterr().err.startswith("WARN Connection to 127.0.0.1:1: [Errno 111] Connection refused.")


def test_nobody_there_is_an_error_after_the_time_that_the_settings_give(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=300\nretry.backoff.ms=50\nssl.truststore.location=x\n")
    words = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(file), "--list"]
    assert commands.run("topics", words) == 1
    out, err = capfd.readouterr()
    assert out.startswith(
        "Error while executing topic command : Timed out waiting for a node assignment. Call: listTopics"
    )
    assert "WARN setting ssl.truststore.location is not known to this client and has no effect\n" in err


def test_settings_of_a_topic_are_changed_and_shown_with_their_sources(cluster: Cluster, tool: Tool) -> None:
    name = fresh("t")
    tool("topics", "--create", "--topic", name)
    cluster.wait_told(name)
    change = ("--add-config", "retention.ms=99,cleanup.policy=[compact,delete]")
    assert tool("configs", "--alter", "--entity-type", "topics", "--entity-name", name, *change) == [
        f"Completed updating config for topic {name}."
    ]
    shown = [
        f"Dynamic configs for topic {name} are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        "DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=99 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=99}",
    ]
    wait_until(lambda: tool("configs", "--describe", "--topic", name) == shown, "the change is told of")
    tool("configs", "--alter", "--topic", name, "--delete-config", "cleanup.policy")
    wait_until(lambda: tool("configs", "--describe", "--topic", name) == [shown[0], shown[2]], "one is gone")
    assert tool("configs", "--alter", "--topic", name, "--delete-config", "no.such", code=1) == []
    assert tool("configs", "--alter", "--topic", name, "--add-config", "retention.ms=soon", code=1) == []
    everything = tool("configs", "--describe", "--topic", name, "--all")
    assert everything[0] == f"All configs for topic {name} are:"
    assert len(everything) > 20


def test_settings_of_a_broker_are_shown_and_quotas_are_refused_with_the_reason(tool: Tool) -> None:
    lines = tool("configs", "--describe", "--entity-type", "brokers", "--entity-name", "2", "--all")
    assert (
        "  broker.id=2 sensitive=false synonyms={STATIC_BROKER_CONFIG:broker.id=2, DEFAULT_CONFIG:broker.id=-1}"
        in lines
    )
    assert (
        tool("configs", "--describe", "--entity-type", "brokers")[-1]
        == "Default configs for brokers in the cluster are:"
    )
    assert tool("configs", "--describe", "--entity-type", "users") == []
    assert tool("configs", "--alter", "--user", "u", "--add-config", "producer_byte_rate=10", code=1) == []


def test_group_is_listed_described_reset_and_deleted(cluster: Cluster, tool: Tool) -> None:
    name, group = fresh("t"), fresh("g")
    tool("topics", "--create", "--topic", name, "--partitions", "2")
    cluster.wait_told(name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        producer.produce(name, b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "client.id": "me"}
    )
    consumer.subscribe([name])
    assert len(consumer.consume(10, 30)) == 10
    consumer.commit(asynchronous=False)
    assert group in tool("groups", "--list")
    blank, head, *rows = tool("groups", "--describe", "--group", group)
    assert (blank, head.split()[:6]) == (
        "",
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"],
    )
    assert [row.split()[:6] for row in rows] == [[group, name, str(n), "5", "5", "0"] for n in range(2)]
    assert [row.split()[-2:] for row in rows] == [["/127.0.0.1", "me"]] * 2
    assert tool("groups", "--describe", "--group", group, "--members", "--verbose")[2].split()[-2:] == ["2", "(0,1)"]
    assert tool("groups", "--describe", "--group", group, "--state")[2].split()[-3:] == ["range", "Stable", "1"]
    words = ("--reset-offsets", "--group", group, "--topic", name)
    assert "is inactive, but the current state is Stable." in tool("groups", *words, "--to-earliest", "--execute")[1]
    assert "GroupNotEmptyException: The group is not empty." in tool("groups", "--delete", "--group", group)[2]
    consumer.close()
    assert [row.split() for row in tool("groups", *words, "--shift-by", "-2", "--execute")[2:]] == [
        [group, name, str(n), "3"] for n in range(2)
    ]
    assert [row.split()[3] for row in tool("groups", "--describe", "--group", group)[2:]] == ["3", "3"]
    assert tool("groups", *words[:3], "--topic", f"{name}:1", "--to-offset", "99", "--export", "--dry-run") == [
        f"{name},1,5",
        "",
    ]
    assert tool("groups", "--delete-offsets", "--group", group, "--topic", f"{name}:0")[0].startswith("Request succeed")
    assert [row.split()[2] for row in tool("groups", "--describe", "--group", group)[2:]] == ["1"]
    assert tool("groups", "--delete", "--group", group) == [
        f"Deletion of requested consumer groups ('{group}') was successful."
    ]
    assert tool("groups", "--describe", "--group", group) == ["", f"Error: Consumer group '{group}' does not exist."]
