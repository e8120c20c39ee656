"""`highwater produce` and `consume` against three brokers, beside librdkafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.clients.java_tools import parse_consumed, parse_produced
from broker.tools import commands
from tests.interop.tools.conftest import Tool
from tests.support.brokers import ROOT, Cluster, wait_until
from tests.support.group_members import fresh
from tests.support.watermarks import watermarks

pytestmark = pytest.mark.guarantee("tools")
Feed = Callable[..., int]


@pytest.fixture
def topic(cluster: Cluster, tool: Tool) -> str:
    """Of three partitions."""
    name = fresh("t")
    tool("topics", "--create", "--topic", name, "--partitions", "3")
    cluster.wait_told(name)
    return name


@pytest.fixture
def feed(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    """feed(topic, bytes of standard input, *words): exit code of `produce`."""

    def run(topic: str, data: bytes, *words: str) -> int:
        (tmp_path / "input").write_bytes(data)
        with (tmp_path / "input").open("rb") as file:
            monkeypatch.setattr("sys.stdin", file)
            return commands.run("produce", ["--bootstrap-server", cluster.bootstrap, "--topic", topic, *words])

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_lines_come_back_from_librdkafka_and_from_consume(
    cluster: Cluster, topic: str, feed: Feed, tool: Tool, codec: str
) -> None:
    lines = [b"%d" % number for number in range(3000)]
    assert feed(topic, b"\n".join(lines), "--compression-codec", codec) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "check.crcs": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    found = consumer.consume(3000, 30)
    consumer.close()
    assert sorted(int(message.value() or b"") for message in found) == list(range(3000))
    read = tool("consume", "--topic", topic, "--from-beginning", "--max-messages", "3000")
    assert sorted(map(int, read)) == list(range(3000))


def test_keys_headers_and_nulls_are_sent_and_shown(topic: str, feed: Feed, tool: Tool) -> None:
    words = ("--property", "parse.key=true", "--property", "parse.headers=true", "--property", "null.marker=NUL")
    assert feed(topic, b"h:1,i:NUL\tk\tv\nNUL\tNUL\tw\nNUL\tk\tNUL\n", *words, "--sync") == 0
    prints = [
        word for name in ("key", "headers", "offset", "partition") for word in ("--property", f"print.{name}=true")
    ]
    shown = tool("consume", "--topic", topic, "--from-beginning", "--max-messages", "3", *prints)
    by_key = [line.split("\t")[2:] for line in shown if line.split("\t")[3] == "k"]
    assert by_key == [["h:1,i:null", "k", "v"], ["NO_HEADERS", "k", "null"]]
    assert [line.split("\t")[2:] for line in shown if line.split("\t")[3] != "k"] == [["NO_HEADERS", "null", "w"]]


def test_keys_go_where_librdkafkas_murmur2_sends_them(cluster: Cluster, topic: str, feed: Feed, tool: Tool) -> None:
    keys = [f"key-{number}" for number in range(30)]
    feed(topic, "".join(f"{key}\tours\n" for key in keys).encode(), "--property", "parse.key=true")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, b"theirs", key=key)
    assert producer.flush(30) == 0
    words = ("--property", "print.key=true", "--property", "print.partition=true")
    shown = [
        line.split("\t")
        for line in tool("consume", "--topic", topic, "--from-beginning", "--max-messages", "60", *words)
    ]
    where = {(key, value): partition for partition, key, value in shown}
    assert {key: where[key, "ours"] for key in keys} == {key: where[key, "theirs"] for key in keys}


def test_one_partition_is_read_from_an_offset(topic: str, feed: Feed, tool: Tool) -> None:
    feed(topic, b"".join(b"k\t%d\n" % number for number in range(10)), "--property", "parse.key=true")
    shown = tool(
        "consume", "--topic", topic, "--from-beginning", "--max-messages", "1", "--property", "print.partition=true"
    )
    partition = shown[0].split("\t")[0].removeprefix("Partition:")
    words = ("--topic", topic, "--partition", partition, "--max-messages", "3")
    assert tool("consume", *words, "--offset", "5") == ["5", "6", "7"]
    assert tool("consume", *words, "--offset", "earliest") == ["0", "1", "2"]
    assert tool("consume", *words, "--offset", "latest", "--timeout-ms", "200") == []
    assert (
        tool(
            "consume",
            *words,
            "--offset",
            "99",
            "--timeout-ms",
            "60000",
            "--consumer-property",
            "auto.offset.reset=none",
            code=1,
        )
        == []
    )


def test_aborted_records_are_not_shown_to_read_committed(cluster: Cluster, topic: str, tool: Tool) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": fresh("x")})
    producer.init_transactions(30)
    for value, commit in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    words = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages")
    # The aborted one comes first: whoever reads committed records is shown the other as the first.
    assert tool("consume", *words, "1", "--isolation-level", "read_committed") == ["committed"]
    assert tool("consume", *words, "2") == ["aborted", "committed"]


def test_group_goes_on_where_it_was_and_shares_with_librdkafka(
    cluster: Cluster, topic: str, feed: Feed, tool: Tool
) -> None:
    group = fresh("g")
    feed(topic, b"".join(b"%d\n" % number for number in range(300)), "--batch-size", "1")
    words = ("--topic", topic, "--group", group, "--from-beginning")
    first = tool("consume", *words, "--max-messages", "100")
    second = tool("consume", *words, "--max-messages", "200")
    assert sorted(map(int, first + second)) == list(range(300))
    other = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "heartbeat.interval.ms": 200})
    other.subscribe([topic])
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.tools", "consume", "--bootstrap-server", cluster.bootstrap, *words]
        + ["--consumer-property", "heartbeat.interval.ms=200"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:

        def shared() -> bool:
            other.poll(0.1)
            rows = tool("groups", "--describe", "--group", group, "--members")[2:]
            return sorted(row.split()[4] for row in rows) == ["1", "2"]

        wait_until(shared, "both have a part")
        process.send_signal(signal.SIGTERM)

        def alone() -> bool:
            other.poll(0.1)
            return len(other.assignment()) == 3

        wait_until(alone, "who left has given up its part at once")
        assert process.wait(30) == 143
        assert process.stderr is not None
        assert process.stderr.read() == b"Processed a total of 0 messages\n"
    finally:
        process.kill()
        process.communicate()
        other.close()


def test_performance_tools_count_what_they_send_and_read(
    cluster: Cluster, topic: str, tool: Tool, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--topic", topic, "--num-records", "2000", "--record-size", "50", "--throughput", "-1"]
    code = commands.run("perf", ["producer", *words, "--producer-props", f"bootstrap.servers={cluster.bootstrap}"])
    sent = capfd.readouterr().out
    assert code == 0
    assert parse_produced(sent)[0] == 2000
    words = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--messages", "2000", "--timeout", "20000"]
    assert commands.run("perf", ["consumer", *words]) == 0
    assert parse_consumed(capfd.readouterr().out)[0] == 2000


def test_producer_follows_a_leader_that_dies(cluster: Cluster, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line once, although the leader of the only partition was killed in between."""
    name = fresh("t")
    tool("topics", "--create", "--topic", name, "--replica-assignment", "1:2:3")
    cluster.wait_told(name)
    reading, writing = os.pipe()
    ended: list[int] = []
    words = ["--bootstrap-server", cluster.bootstrap, "--topic", name, "--timeout", "10"]
    words += ["--message-send-max-retries", "1000"]
    with os.fdopen(reading, "rb") as source:
        monkeypatch.setattr("sys.stdin", source)
        sending = threading.Thread(target=lambda: ended.append(commands.run("produce", words)))
        sending.start()
        try:
            for number in range(200):
                os.write(writing, b"%d\n" % number)
                if number == 100:
                    wait_until(lambda: _end_offset(cluster, name) > 0, "records have come")
                    cluster.brokers[1].kill()
        finally:
            os.close(writing)
            sending.join(60)
    cluster.brokers[1].start()
    assert ended == [0]
    read = tool("consume", "--topic", name, "--from-beginning", "--max-messages", "200")
    assert list(map(int, read)) == list(range(200))


def _end_offset(cluster: Cluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    try:
        return watermarks(consumer, topic)[1]
    finally:
        consumer.close()
