from __future__ import annotations

import socket
import struct
import threading

import pytest

from harness.plan.run_file import parse_plan
from harness.systems.highwater.configuration import server_properties
from harness.systems.responses import broker_responds, zookeeper_responds
from harness.systems.zookeeper import configuration
from tests.support.fake_cluster import FakeNode

RUN = """
name = "x"
[system.settings]
"replica.lag.time.max.ms" = 3000
"auto.create.topics.enable" = false
[system.broker.2]
"replica.lag.time.max.ms" = 9000
"""


def test_server_properties_overrides_of_one_broker_win() -> None:
    plan = parse_plan("x.toml", RUN)
    first = server_properties(plan, FakeNode("n1", "10.0.0.1"), "10.0.0.9:2181").splitlines()
    second = server_properties(plan, FakeNode("n2", "10.0.0.2"), "10.0.0.9:2181").splitlines()
    assert first == [
        "broker.id=1",
        "listeners=PLAINTEXT://10.0.0.1:9092",
        "advertised.listeners=PLAINTEXT://10.0.0.1:9092",
        "log.dirs=/n1/data",
        "zookeeper.connect=10.0.0.9:2181",
        "lab.event.log=/n1/events.jsonl",
        "auto.leader.rebalance.enable=false",
        "offsets.topic.num.partitions=4",
        "transaction.state.log.num.partitions=4",
        "replica.lag.time.max.ms=3000",
        "auto.create.topics.enable=false",
    ]
    assert "replica.lag.time.max.ms=9000" in second
    assert "broker.id=2" in second


def test_configuration_one_server_has_no_server_lines_and_three_have_three() -> None:
    nodes = [FakeNode(f"zk{i}", f"10.0.0.{i}") for i in (1, 2, 3)]
    alone = configuration(nodes[:1], 0)
    assert "server." not in alone
    assert "minSessionTimeout=1000\nmaxSessionTimeout=120000\n" in alone
    member = configuration(nodes, 1)
    assert "clientPortAddress=10.0.0.2\n" in member
    assert "server.1=10.0.0.1:2888:3888\nserver.2=10.0.0.2:2888:3888\nserver.3=10.0.0.3:2888:3888\n" in member


def answered_by(answer: bytes) -> int:
    """A port that gives one connection this answer."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


GOOD = struct.pack(">iihi", 10, 0x68770001, 0, 0)


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        (GOOD, True),
        (struct.pack(">iihi", 10, 5, 0, 0), False),
        (struct.pack(">iihi", 10, 0x68770001, 35, 0), False),
        (GOOD[:7], False),
        (struct.pack(">i", -1), False),
        (b"", False),
    ],
)
def test_broker_responds_only_a_whole_response_to_this_request_without_error_counts(answer: bytes, good: bool) -> None:
    assert broker_responds("127.0.0.1", answered_by(answer), timeout_s=2.0) is good


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        (b"Zookeeper version: 3.9.3\nMode: standalone\n", True),
        (b"This ZooKeeper instance is not currently serving requests", False),
    ],
)
def test_zookeeper_responds_a_member_without_quorum_does_not_count(answer: bytes, good: bool) -> None:
    assert zookeeper_responds("127.0.0.1", answered_by(answer), timeout_s=2.0) is good


def test_responds_is_false_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert not broker_responds("127.0.0.1", port)
    assert not zookeeper_responds("127.0.0.1", port)
