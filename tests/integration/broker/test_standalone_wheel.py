"""The broker without the lab: a wheel installed without extras, against an external ZooKeeper."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.brokers import ROOT, running_cluster


def _run(*argv: str | Path) -> str:
    # With the work tree on the path pip would take the wheel for installed already.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, env=env)
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def test_broker_only_wheel_runs_against_an_external_zookeeper(tmp_path: Path) -> None:
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("highwater-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    installed = _run(python, "-m", "pip", "list", "--format=freeze").lower()
    assert "kazoo" in installed
    assert not [name for name in ("pyspark", "paramiko", "docker", "confluent", "pytest") if name in installed]

    command = [str(tmp_path / "venv" / "bin" / "highwater-broker")]
    with running_cluster(tmp_path / "cluster", brokers=1, command=command, source=tmp_path) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        producer.produce("alone", b"hello", partition=0)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition("alone", 0, 0)])
        message = consumer.poll(20)
        consumer.close()
        assert message is not None
        assert message.error() is None
        assert message.value() == b"hello"
        assert cluster.brokers[1].stop() == 0
