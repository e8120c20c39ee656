"""Kafka's own console consumer with a group, and kafka-consumer-groups, against three brokers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from broker.tools import commands
from tests.interop.groups.test_members import ALL, Join, Send, committed
from tests.support.brokers import Cluster
from tests.support.group_members import Member, await_members, fresh

pytestmark = [pytest.mark.guarantee("K1", "group-rules")]
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.fixture
def tool(cluster: Cluster, classpath: str) -> Callable[..., str]:
    """Runs a tool of Kafka to its end; returns all it prints, of which errors are no part."""

    def run(main: str, *words: str, code: int = 0) -> str:
        command = ["java", "-Xmx256M", "-cp", classpath, main, "--bootstrap-server", cluster.bootstrap, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def ours(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Runs the same tool of highwater's; returns its lines, sorted."""

    def run(name: str, *words: str) -> list[str]:
        capfd.readouterr()
        assert commands.run(name, ["--bootstrap-server", cluster.bootstrap, *words]) == 0
        return lines_of(capfd.readouterr().out)

    return run


def lines_of(printed: str) -> list[str]:
    """Sorted, without empty ones and what Java's loggers say of themselves."""
    # The tool's last line may have no end, and then its log comes right behind.
    lines = printed.replace("log4j:", "\nlog4j:").splitlines()
    return sorted(line for line in lines if line and not line.startswith(("SLF4J", "log4j:")))


def rows(table: str, group: str) -> list[dict[str, str]]:
    """The group's lines in a table of kafka-consumer-groups, by the names of its columns."""
    lines = [line.split() for line in table.replace("COORDINATOR (ID)", "COORDINATOR ID").splitlines() if line.strip()]
    names = next(line for line in lines if line[0] == "GROUP")
    return [dict(zip(names, line, strict=False)) for line in lines if line[0] == group]


def read_to_group(tool: Callable[..., str], topic: str, group: str, count: int) -> list[str]:
    words = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(count))
    printed = tool(_CONSOLE, *words, "--timeout-ms", "30000")
    return [line for line in printed.splitlines() if line.isdigit()]


def test_console_consumer_reads_with_a_group_and_goes_on_where_it_ended(
    cluster: Cluster, topic: str, send: Send, tool: Callable[..., str]
) -> None:
    group = fresh("g")
    sent = send(0, 90)
    assert sorted(read_to_group(tool, topic, group, 90), key=int) == [str(n) for n in range(90)]
    assert len(sent) == 90
    assert committed(cluster, group, topic) == dict.fromkeys(ALL, 30)
    send(90, 120)
    assert sorted(read_to_group(tool, topic, group, 30), key=int) == [str(n) for n in range(90, 120)]


def test_consumer_groups_tool_shows_offsets_members_and_state(
    topic: str, join: Join, send: Send, tool: Callable[..., str], ours: Callable[..., list[str]]
) -> None:
    group = fresh("g")
    sent = send(0, 90)
    member: Member = join("confluent-kafka", group)
    await_members(lambda: member.values == sent and sum(member.committed.values()) == 90, "all is read", [member])
    assert group in tool(_GROUPS, "--list").split()
    assert [line.split() for line in tool(_GROUPS, "--list", "--state", "Stable").splitlines() if group in line] == [
        [group, "Stable"]
    ]
    described = tool(_GROUPS, "--describe", "--group", group)
    assert ours("groups", "--describe", "--group", group) == lines_of(described)
    offsets = rows(described, group)
    assert {(row["TOPIC"], row["PARTITION"], row["CURRENT-OFFSET"], row["LAG"]) for row in offsets} == {
        (topic, str(partition), "30", "0") for partition in ALL
    }
    [shown] = rows(tool(_GROUPS, "--describe", "--group", group, "--members"), group)
    assert (shown["#PARTITIONS"], shown["HOST"]) == ("3", "/127.0.0.1")
    [state] = rows(tool(_GROUPS, "--describe", "--group", group, "--state"), group)
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == ("range", "Stable", "1")
    refused = tool(_GROUPS, "--delete", "--group", group, code=0)
    assert "is not empty" in refused
    member.leave()


def test_consumer_groups_tool_resets_and_deletes(
    cluster: Cluster, topic: str, join: Join, send: Send, tool: Callable[..., str]
) -> None:
    group = fresh("g")
    sent = send(0, 90)
    member = join("confluent-kafka", group)
    await_members(lambda: member.values == sent and sum(member.committed.values()) == 90, "all is read", [member])
    member.leave()
    tool(_GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "10", "--execute")
    assert committed(cluster, group, topic) == dict.fromkeys(ALL, 10)
    tool(_GROUPS, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert committed(cluster, group, topic)[0] < 0
    assert committed(cluster, group, topic)[1] == 10
    assert "was successful" in tool(_GROUPS, "--delete", "--group", group)
    assert group not in tool(_GROUPS, "--list").split()
