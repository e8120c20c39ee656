"""The command itself: a real cluster on local nodes, faults, drain, evidence, and what is left of an aborted run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from harness.operations.history import read_lines, recover
from harness.runs.store import RunStore, read_json
from tests.support.processes import command_lines
from tests.support.wait import eventually
from tests.support.zookeeper import running_zookeeper

pytestmark = pytest.mark.guarantee("H5")

SETTINGS = """
[system.settings]
"zookeeper.session.timeout.ms" = 2500
"replica.lag.time.max.ms" = 3000
"replica.fetch.backoff.ms" = 200
"replica.socket.timeout.ms" = 3000
"controller.socket.timeout.ms" = 3000
"controlled.shutdown.retry.backoff.ms" = 500
"auto.create.topics.enable" = false
[topic]
partitions = 2
[topic.config]
"min.insync.replicas" = 2
"""
STORE = "a store of 50 %25"
"""What Spark, Java and a sandbox might each read differently."""
LOAD = """
name = "short"
seed = 11
[workload]
rate = 150.0
time_limit_s = 12
producers = 4
consumers = 3
[faults]
kinds = ["kill", "pause"]
interval_s = [1.0, 1.5]
duration_s = [3.0, 4.0]
[limits]
drain_s = 40
"""


def command(file: Path, store: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "harness.commands", "test", str(file), "--store", str(store), *options]


def run(
    tmp_path: Path, text: str, *options: str, stdout: int = subprocess.PIPE
) -> tuple[subprocess.CompletedProcess[str], RunStore]:
    file = tmp_path / "run.toml"
    file.write_text(text)
    done = subprocess.run(
        command(file, tmp_path / STORE, *options),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=280,
        check=False,
    )
    return done, RunStore((tmp_path / STORE / "latest").resolve())


def test_test_records_a_run_under_faults_with_drains_and_evidence(tmp_path: Path) -> None:
    # Nobody reads its output (`| head`), which must not change how the run goes.
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done, store = run(tmp_path, LOAD + SETTINGS, "--no-analysis", stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == 0, done.stderr
    lines: list[dict[str, Any]] = list(read_lines(store.history))
    acknowledged = [line for line in lines if line["f"] == "send" and line["type"] == "ok"]
    assert len(acknowledged) > 200
    faults = [line for line in lines if line["kind"] == "nemesis" and line["f"] != "skipped"]
    assert {line["f"] for line in faults} == {"start", "stop"}
    assert all(0 < line["began_ns"] <= line["time_ns"] for line in faults)
    assert all(line["observed"] for line in faults), faults
    complete = {
        (line["phase"], line["partition"], line["reader"], line["leader"])
        for line in lines
        if line["f"] == "drain-complete"
    }
    for node in ("n1", "n2", "n3"):
        for partition in (0, 1):
            for reader in ("wire", "confluent"):
                assert (f"drain-{node}", partition, reader, node) in complete
    evidence = {line["node"]: line.get("error") for line in lines if line["f"] == "evidence"}
    assert evidence == dict.fromkeys(("n1", "n2", "n3", "zk1"))
    for node in ("n1", "n2", "n3"):
        assert (store.evidence / node / "events.jsonl").stat().st_size > 0
    assert recover(store.history).torn_bytes == 0
    assert read_json(store.run_json)["finished"] is True


def test_test_with_an_ensemble_of_somebody_elses_uses_it_and_leaves_nothing_there(tmp_path: Path) -> None:
    quiet = LOAD[: LOAD.index("[faults]")].replace("time_limit_s = 12", "time_limit_s = 2") + SETTINGS
    with running_zookeeper(tmp_path / "zookeeper") as server:
        done, store = run(tmp_path, quiet, "--no-analysis", "--zookeeper", server.connect)
        assert done.returncode == 0, done.stderr + done.stdout
        client = KazooClient(server.connect)
        client.start(20)
        left = client.get_children("/")
        client.stop()
        client.close()
    assert left == ["zookeeper"]
    lines = list(read_lines(store.history))
    assert [line for line in lines if line["f"] == "send" and line["type"] == "ok"]
    assert {line["node"] for line in lines if line["f"] == "evidence"} == {"n1", "n2", "n3"}
    assert read_json(store.run_json)["external_zookeeper"] == server.connect


@pytest.mark.spark
def test_test_judges_the_run_and_names_the_report(tmp_path: Path) -> None:
    done, store = run(tmp_path, LOAD + SETTINGS)
    results = read_json(store.results)
    assert done.returncode == {"valid": 0, "unknown": 2}[str(results["verdict"])], done.stdout + done.stderr
    assert str(results["sentence"]) in done.stdout
    assert f"report: {store.report}" in done.stdout
    assert store.report.is_file()
    assert store.junit.is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_test_ended_in_the_middle_leaves_a_history_and_no_processes(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "run.toml"
    file.write_text(LOAD.replace("time_limit_s = 12", "time_limit_s = 300") + SETTINGS)
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(file, tmp_path / "store", "--no-analysis"), stdout=output, stderr=subprocess.STDOUT
        )
    history = tmp_path / "store" / "latest" / "history.jsonl"
    try:
        end_s = time.monotonic() + 90
        while not _sends(history) > 50:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.2)
    finally:
        process.send_signal(number)
        process.wait(60)
    if number == signal.SIGINT:
        assert process.returncode == 255, log.read_text()
        assert "aborted by SIGINT" in log.read_text()
    root = str((tmp_path / "store" / "latest").resolve())
    eventually(lambda: not command_lines(root), "none of its processes is left", timeout_s=60)
    found = recover(history)
    assert found.invocations > 25
    assert found.open <= 10


def _sends(history: Path) -> int:
    try:
        return sum(line["f"] == "send" for line in read_lines(history))
    except OSError:
        return 0
