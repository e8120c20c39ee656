"""Kafka's own tools move replicas between the log dirs of brokers, follow the move, and read what comes of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.broker.writing import Writer, create, read
from tests.support.brokers import Cluster, running_cluster, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400), pytest.mark.guarantee("K1")]

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
DUMP = "kafka.tools.DumpLogSegments"
TOPIC = "t"
RECORDS = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Brokers with two log dirs each, `a` and `b`."""
    folder = tmp_path_factory.mktemp("moves")
    dirs = {i: {"log.dirs": f"{folder}/broker-{i}/a,{folder}/broker-{i}/b"} for i in (1, 2, 3)}
    settings = {"min.insync.replicas": "2", "log.segment.bytes": "4194304"}
    with running_cluster(folder, settings=settings, overrides=dirs) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def run(classpath: str, tool: str, *options: str) -> str:
    """What it printed."""
    command = ["java", "-Xmx128M", "-cp", classpath, tool, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def homes(cluster: Cluster) -> dict[int, Path]:
    """The dir of each broker's replica."""
    return {i: found.parent for i, broker in cluster.brokers.items() for found in broker.folder.glob(f"*/{TOPIC}-0")}


def test_replicas_are_moved_by_a_plan_with_log_dirs(classpath: str, cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, 1, TOPIC)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for n in range(RECORDS):
        producer.produce(TOPIC, (b"%d" % n).ljust(10_000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    before = homes(cluster)
    after = {i: path.parent / ("b" if path.name == "a" else "a") for i, path in before.items()}
    file = tmp_path / "plan.json"
    plan = {"topic": TOPIC, "partition": 0, "replicas": [1, 2, 3], "log_dirs": [str(after[i]) for i in (1, 2, 3)]}
    file.write_text(json.dumps({"version": 1, "partitions": [plan]}), encoding="utf-8")
    options = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file))
    writer = Writer(cluster, TOPIC)
    try:
        said = run(classpath, REASSIGN, *options, "--execute", "--replica-alter-log-dirs-throttle", "200000")
        assert said.count("Successfully started moving log directory to ") == 3
        where = ("--describe", "--topic-list", TOPIC, "--broker-list", "1")
        said = run(classpath, LOG_DIRS, "--bootstrap-server", cluster.bootstrap, *where)
        (line,) = [line for line in said.splitlines() if line.startswith("{")]
        (told,) = json.loads(line)["brokers"]
        found = {Path(one["logDir"]): one["partitions"][0] for one in told["logDirs"]}
        assert found[after[1]]["isFuture"]
        assert found[after[1]]["offsetLag"] > 0
        assert not found[before[1]]["isFuture"]
        assert "is still in progress" in run(classpath, REASSIGN, *options, "--verify", "--preserve-throttles")
        faster = ("--additional", "--replica-alter-log-dirs-throttle", "100000000")
        run(classpath, REASSIGN, *options, "--execute", *faster)

        def verified() -> bool:
            said = run(classpath, REASSIGN, *options, "--verify", "--preserve-throttles")
            return said.count("completed successfully") == 3

        wait_until(verified, "the moves are over", 120)
        writer.wait_for_more(50)
    finally:
        writer.stop()
    said = run(classpath, REASSIGN, *options, "--verify")
    assert "Clearing broker-level throttles on brokers 1,2,3" in said
    assert read(cluster, RECORDS + writer.sent) == [*range(RECORDS), *range(writer.sent)]
    wait_until(lambda: homes(cluster) == after, "nothing is left where they were")
    assert cluster.brokers[1].stop() == 0
    files = ",".join(sorted(map(str, after[1].glob(f"{TOPIC}-0/*.log"))))
    dumped = run(classpath, DUMP, "--files", files, "--deep-iteration")
    assert dumped.count("isvalid: true") > 0
    assert "isvalid: false" not in dumped
