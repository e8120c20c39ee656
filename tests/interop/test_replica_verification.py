"""kafka-replica-verification reads all replicas of a topic, followers' too, and finds them the same."""

from __future__ import annotations

import re
import subprocess

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster

pytestmark = pytest.mark.guarantee("K1")
_REPORT = re.compile(r"max lag is (-?\d+) for partition (\S+) at offset (-?\d+) among (\d+) partitions")


def test_tool_sees_every_replica_at_the_leaders_end(cluster: Cluster, classpath: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic("verified", 2, replica_assignment=[[1, 2, 3], [2, 3, 1]])
    admin.create_topics([topic])["verified"].result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(200):
        producer.produce("verified", b"x" * 100, partition=number % 2)
    assert producer.flush(20) == 0
    command = ["java", "-cp", classpath, "org.apache.kafka.tools.ReplicaVerificationTool"]
    command += ["--broker-list", cluster.bootstrap, "--topics-include", "verified", "--report-interval-ms", "200"]
    command += ["--max-wait-ms", "200"]
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert tool.stdout is not None
    lines: list[str] = []
    try:
        for line in tool.stdout:
            lines.append(line.rstrip())
            found = _REPORT.search(line)
            if (found is not None and found[1] == "0") or len(lines) > 40:
                break
    finally:
        tool.kill()
        tool.communicate()
    assert found is not None, lines
    assert found[1] == "0", lines
    assert found[2].startswith("verified-"), lines
    assert found[4] == "2", lines
    assert not [line for line in lines if "unmatched checksum" in line or "doesn't match" in line]
