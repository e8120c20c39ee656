"""The broker without the lab: a wheel installed without extras, against an external ZooKeeper."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.brokers import ROOT, running_cluster


def _run(*argv: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    # With the work tree on the path pip would take the wheel for installed already.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, env=env, cwd=cwd)
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def _install(wheel: Path, into: Path) -> Path:
    """The interpreter of a new environment that has the wheel and what it requires."""
    venv.create(into, with_pip=True)
    python = into / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return python


def _serves_and_stops(python: Path, tmp_path: Path) -> None:
    command = [str(python.parent / "highwater-broker")]
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
        words = ("--bootstrap-server", cluster.bootstrap)
        highwater = python.parent / "highwater"
        assert "alone" in _run(highwater, "topics", *words, "--list", cwd=tmp_path).splitlines()
        read = ("--topic", "alone", "--partition", "0", "--offset", "earliest", "--max-messages", "1")
        assert _run(highwater, "consume", *words, *read, cwd=tmp_path) == "hello\n"
        assert cluster.brokers[1].stop() == 0
        log = cluster.brokers[1].folder / "data" / "alone-0" / f"{0:020d}.log"
        dumped = _run(python.parent / "highwater-dump-log", "--files", log, "--print-data-log", cwd=tmp_path)
        assert dumped.splitlines()[-1].endswith(" payload: hello")


def test_broker_only_wheel_runs_against_an_external_zookeeper(tmp_path: Path) -> None:
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("highwater-*.whl")
    python = _install(wheel, tmp_path / "venv")
    installed = _run(python, "-m", "pip", "list", "--format=freeze").lower()
    assert "kazoo" in installed
    assert not [name for name in ("pyspark", "paramiko", "docker", "confluent", "pytest") if name in installed]
    _lab_says_what_it_lacks(python.parent / "highwater", tmp_path)
    assert _run(python.parent / "highwater", "topics", "--help", cwd=tmp_path).startswith("usage: highwater topics ")
    _serves_and_stops(python, tmp_path)


def _lab_says_what_it_lacks(highwater: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [highwater, *argv], capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path, check=False
        )

    for argv in ((), ("test", "none.toml")):
        refused = run(*argv)
        assert refused.returncode == 254, refused.stderr
        assert "pyspark" in refused.stderr
        assert refused.stderr.endswith("get them with: pip install 'highwater[lab]'\n")
    found = run("doctor")
    assert (found.returncode, found.stderr) == (1, "")
    assert re.search(r"\nPython packages +missing  missing: pyspark, ", found.stdout), found.stdout
    assert "\nfault: kill" in found.stdout
    assert "\nPython packages: pip install 'highwater[lab]'\n" in found.stdout


@pytest.mark.nightly
def test_compiled_wheel_is_of_this_machine_s_kind_and_runs_compiled(tmp_path: Path) -> None:
    # In a copy: the compiler writes beside what it compiles.
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "store"))
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", ".")
    _run(*build, cwd=copy, HIGHWATER_COMPILE="1")
    (wheel,) = (tmp_path / "dist").glob("highwater-*.whl")
    assert not wheel.name.endswith("-any.whl")
    python = _install(wheel, tmp_path / "venv")
    loader = _run(python, "-c", "import broker.net.loop as m; print(type(m.__loader__).__name__)", cwd=tmp_path)
    assert loader.strip() == "ExtensionFileLoader"
    _serves_and_stops(python, tmp_path)
