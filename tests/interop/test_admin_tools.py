"""Kafka's own command line tools, on three real brokers: log dirs, offsets, producers, quotas and credentials."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster
from tests.support.reading import read_values

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300), pytest.mark.guarantee("K1")]

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


def run(classpath: str, cluster: Cluster, tool: str, *options: str, text: str = "") -> tuple[int, str]:
    """Exit code, and all that it printed. text: on its stdin."""
    command = ["java", "-Xmx128M", "-cp", classpath, tool, "--bootstrap-server", cluster.bootstrap, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, input=text)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """With ten records of an idempotent producer."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, replica_assignment=[[1, 2, 3]], num_partitions=1)])[name].result(20)
    cluster.wait_told(name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "acks": "all"})
    for _ in range(10):
        producer.produce(name, b"v" * 100, partition=0)
    assert producer.flush(30) == 0
    return name


def test_log_dirs_describes_each_brokers(classpath: str, cluster: Cluster, topic: str) -> None:
    code, said = run(classpath, cluster, LOG_DIRS, "--describe", "--topic-list", topic, "--broker-list", "1,2")
    assert code == 0
    (line,) = [line for line in said.splitlines() if line.startswith("{")]
    brokers = {one["broker"]: one["logDirs"] for one in json.loads(line)["brokers"]}
    assert set(brokers) == {1, 2}
    for broker_id, (log_dir,) in brokers.items():
        assert (log_dir["logDir"], log_dir["error"]) == (str(cluster.brokers[broker_id].folder / "data"), None)
        (partition,) = log_dir["partitions"]
        assert (partition["partition"], partition["offsetLag"], partition["isFuture"]) == (f"{topic}-0", 0, False)
        assert partition["size"] > 1000


@pytest.mark.parametrize(
    ("time", "offset"), [("-1", "10"), ("-2", "0"), ("-3", "9"), ("-4", "0"), ("earliest-local", "0"), ("-5", None)]
)
def test_get_offsets_knows_every_special_time(
    classpath: str, cluster: Cluster, topic: str, time: str, offset: str | None
) -> None:
    code, said = run(classpath, cluster, OFFSETS, "--topic", topic, "--time", time)
    assert code == 0, said
    found = [line for line in said.splitlines() if line.startswith(topic)]
    if time == "-3":  # which of the records with the largest timestamp comes first is the clock's to say
        assert found
        assert 0 <= int(found[0].split(":")[2]) < 10
    else:
        assert found == ([] if offset is None else [f"{topic}:0:{offset}"])


def test_transactions_describes_producers(classpath: str, cluster: Cluster, topic: str) -> None:
    code, said = run(classpath, cluster, TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0")
    assert code == 0, said
    head, row = [line.split() for line in said.splitlines() if line.startswith("ProducerId") or line[:1].isdigit()]
    found = dict(zip(head, row, strict=True))
    assert (found["ProducerEpoch"], found["LatestCoordinatorEpoch"], found["LastSequence"]) == ("0", "-1", "9")
    assert found["CurrentTransactionStartOffset"] == "None"


def test_leader_election_gives_the_lead_back_to_the_preferred_replica(
    classpath: str, cluster: Cluster, topic: str
) -> None:
    cluster.brokers[1].kill()
    cluster.wait_state(topic, 0, leader=2)
    cluster.brokers[1].start()
    cluster.wait_state(topic, 0, isr={1, 2, 3})
    which = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    code, said = run(classpath, cluster, ELECTION, *which)
    assert code == 0, said
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in said
    cluster.wait_state(topic, 0, leader=1)
    code, said = run(classpath, cluster, ELECTION, *which)
    assert code == 0, said
    assert f"Valid replica already elected for partitions {topic}-0" in said


def test_delete_records_moves_the_start_of_what_the_console_producer_sent(
    classpath: str, cluster: Cluster, tmp_path: Path
) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 3)])[name].result(20)
    cluster.wait_told(name)
    code, said = run(classpath, cluster, CONSOLE_PRODUCER, "--topic", name, text="a\nb\nc\n")
    assert code == 0, said
    assert read_values(cluster, name) == ["a", "b", "c"]
    file = tmp_path / "offsets.json"
    for offset, answer in ((2, "low_watermark: 2"), (9, "OffsetOutOfRange")):
        places = {"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": offset}]}
        file.write_text(json.dumps(places), encoding="utf-8")
        _, said = run(classpath, cluster, DELETE_RECORDS, "--offset-json-file", str(file))
        assert answer in said
        assert f"{name}:0:2" in run(classpath, cluster, OFFSETS, "--topic", name, "--time", "-2")[1].splitlines()


def test_configs_describes_no_quotas_and_sets_none(classpath: str, cluster: Cluster) -> None:
    assert run(classpath, cluster, CONFIGS, "--describe", "--entity-type", "users")[0] == 0
    assert run(classpath, cluster, CONFIGS, "--describe", "--entity-type", "clients", "--entity-name", "c")[0] == 0
    change = ("--alter", "--entity-type", "users", "--entity-name", "u", "--add-config")
    code, said = run(classpath, cluster, CONFIGS, *change, "producer_byte_rate=1000")
    assert code == 1
    assert "Quotas of clients cannot be altered: this broker keeps none." in said
    code, said = run(classpath, cluster, CONFIGS, *change, "SCRAM-SHA-256=[iterations=8192,password=pw]")
    assert code == 1
    assert "this broker serves no SASL mechanism and keeps no credentials" in said


def test_reassignment_to_another_log_dir_is_refused_not_forgotten(
    classpath: str, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    own = str(cluster.brokers[1].folder / "data")
    plan = {"topic": topic, "partition": 0, "replicas": [1, 2, 3]}
    file = tmp_path / "plan.json"
    for log_dir, refused in ((own, False), ("/nowhere", True)):
        text = json.dumps({"version": 1, "partitions": [plan | {"log_dirs": [log_dir, "any", "any"]}]})
        file.write_text(text, encoding="utf-8")
        code, said = run(classpath, cluster, REASSIGN, "--reassignment-json-file", str(file), "--execute")
        assert ("LogDirNotFoundException" in said) == refused, said
        assert code == int(refused)
