"""A broker process's start and stop: what is refused, with which words and exit code, and what a clean stop leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from broker.log.files import checkpoints
from broker.log.files.batch_scan import walk
from broker.model.ids import TopicPartition
from tests.support.brokers import ROOT, Broker, Cluster, running_cluster, wait_until

pytestmark = pytest.mark.guarantee("C1")

SESSION = {"zookeeper.session.timeout.ms": "2000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"auto.create.topics.enable": "true"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), brokers=1, settings=settings) as running:
        yield running


def _other(cluster: Cluster, folder: Path, broker_id: int, **settings: str) -> Broker:
    """A broker's folder and settings; not started."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Broker(folder, broker_id, cluster.zookeeper.connect, {**SESSION, **named}, [], ROOT)


def _run(broker: Broker, *arguments: str) -> tuple[int, str]:
    """Exit code and what it said, of a broker that is expected to end by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "broker.cli", "--config", str(broker.config), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    return done.returncode, done.stderr


def _brokers_known(broker: Broker) -> int:
    """How many brokers it tells its clients of; it serves, then."""
    return len(AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=10).brokers)


def test_second_broker_with_the_id_of_a_live_one_is_refused_by_both_addresses(cluster: Cluster, tmp_path: Path) -> None:
    second = _other(cluster, tmp_path / "second", 1)
    code, said = _run(second)
    assert code == 1
    assert "broker.id=1 is already registered" in said
    assert cluster.brokers[1].address in said
    assert second.address in said
    assert "Traceback" not in said
    assert cluster.live() == {1}


def test_copy_of_a_live_brokers_data_dir_is_refused_and_takes_nothing_from_it(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.brokers[1]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce("cloned", b"value", partition=0)
    assert producer.flush(30) == 0
    registered, epoch = cluster.zk.get("/brokers/ids/1")[1].czxid, (cluster.state("cloned", 0) or {})["leader_epoch"]
    clone = _other(cluster, tmp_path / "clone", 1)
    shutil.copytree(first.folder / "data", clone.folder / "data")
    assert (clone.folder / "data" / "zookeeper-session.json").exists(), "what could end the live broker's session"
    code, said = _run(clone)
    assert code == 1
    assert "broker.id=1 is already registered" in said
    assert first.address in said
    assert "A copied data folder needs its own broker.id" in said
    assert "Traceback" not in said
    assert cluster.zk.get("/brokers/ids/1")[1].czxid == registered, "the live broker keeps its session"
    assert (cluster.state("cloned", 0) or {})["leader_epoch"] == epoch
    producer.produce("cloned", b"value", partition=0)
    assert producer.flush(30) == 0


def test_log_dir_in_use_names_dir_and_process(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.brokers[1]
    assert first.process is not None
    code, said = _run(_other(cluster, tmp_path / "second", 2, log_dirs=str(first.folder / "data")))
    assert code == 1
    assert f"log dir {first.folder / 'data'} is in use by another broker (pid {first.process.pid})" in said
    assert "Traceback" not in said


def test_log_dir_of_another_broker_is_refused_and_left_as_it_was(cluster: Cluster, tmp_path: Path) -> None:
    first = _other(cluster, tmp_path / "first", 2)
    first._command = [sys.executable, "-m", "broker.cli"]
    first.start()
    wait_until(lambda: 2 in cluster.live() and _brokers_known(first) == 2, lambda: first.output)
    assert first.stop() == 0
    mark = first.folder / "data" / checkpoints.CLEAN_SHUTDOWN
    before = mark.read_text()
    code, said = _run(first, "--override", "broker.id=3")
    assert code == 1
    assert "broker.id is 2, this broker's is 3" in said
    assert mark.read_text() == before


def test_broker_without_an_id_is_given_one_and_keeps_it(cluster: Cluster, tmp_path: Path) -> None:
    nameless = _other(cluster, tmp_path / "nameless", -1)
    nameless._command = [sys.executable, "-m", "broker.cli"]
    given: list[set[int]] = []
    for _ in range(2):
        nameless.start()
        wait_until(lambda: len(cluster.live()) == 2 and _brokers_known(nameless) == 2, lambda: nameless.output)
        given.append(cluster.live() - {1})
        assert nameless.stop() == 0
    first, second = given
    assert first == second
    assert min(first) > 1000, "beyond reserved.broker.max.id"


def test_port_in_use_names_the_address_and_costs_no_clean_mark(cluster: Cluster, tmp_path: Path) -> None:
    second = _other(cluster, tmp_path / "second", 2)
    second._command = [sys.executable, "-m", "broker.cli"]
    second.start()
    wait_until(lambda: 2 in cluster.live() and _brokers_known(second) == 2, lambda: second.output)
    assert second.stop() == 0
    mark = second.folder / "data" / checkpoints.CLEAN_SHUTDOWN
    before = mark.read_text()
    with socket.create_server(("127.0.0.1", second.port)):
        code, said = _run(second)
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{second.port}" in said
    assert said.count("Address already in use") == 1
    assert said.count(str(second.port)) == 1, "the address is named once"
    assert "Traceback" not in said
    assert mark.read_text() == before


def test_port_that_the_system_chose_is_the_one_that_clients_are_told(cluster: Cluster, tmp_path: Path) -> None:
    second = _other(cluster, tmp_path / "second", 2, listeners="PLAINTEXT://127.0.0.1:0")
    second._command = [sys.executable, "-m", "broker.cli"]
    second.start()
    wait_until(lambda: "broker 2 is up on " in second.output, lambda: second.output)
    (port,) = [line.rpartition(" ")[2] for line in second.output.splitlines() if "broker 2 is up on " in line]
    registered = json.loads(cluster.zk.get("/brokers/ids/2")[0])
    assert registered["endpoints"] == [f"PLAINTEXT://127.0.0.1:{port}"]
    assert registered["port"] == int(port) > 0
    assert second.stop() == 0


@pytest.mark.parametrize(
    ("override", "code", "words"),
    [
        ("num.partitions=zero", 2, "Invalid value zero for configuration num.partitions: Not a number"),
        ("listeners=PLAINTEXT://nowhere", 2, "listeners='PLAINTEXT://nowhere': must look like PLAINTEXT://host:9092"),
        (
            "replica.truncation=never",
            2,
            "Invalid value never for configuration replica.truncation: String must be one of",
        ),
        ("=5", 2, "--override '=5': must be NAME=VALUE"),
        ("no-equals-sign", 2, "--override 'no-equals-sign': must be NAME=VALUE"),
        ("zookeeper.connect=127.0.0.1:1", 1, "no ZooKeeper responded at zookeeper.connect=127.0.0.1:1 within 1000 ms"),
    ],
)
def test_setting_that_cannot_work_is_named_with_its_value(
    cluster: Cluster, tmp_path: Path, override: str, code: int, words: str
) -> None:
    second = _other(cluster, tmp_path / "second", 2, zookeeper_connection_timeout_ms="1000")
    found, said = _run(second, "--override", override)
    assert found == code
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("kind", "why"),
    [("folder", "Is a directory"), ("no-folder", "No such file or directory"), ("pipe", "No such device or address")],
)
def test_event_log_that_cannot_be_opened_is_named_with_what_would_be_right(
    cluster: Cluster, tmp_path: Path, kind: str, why: str
) -> None:
    wanted = tmp_path / "missing" / "log" if kind == "no-folder" else tmp_path / kind
    if kind == "folder":
        wanted.mkdir()
    elif kind == "pipe":
        os.mkfifo(wanted)
    second = _other(cluster, tmp_path / "second", 2)
    code, said = _run(second, "--override", f"lab.event.log={wanted}")
    assert code == 1
    assert f"highwater-broker: lab.event.log='{wanted}' cannot be opened: {why}: give a file" in said
    assert "Traceback" not in said


def test_missing_config_file_is_named(cluster: Cluster, tmp_path: Path) -> None:
    second = _other(cluster, tmp_path / "second", 2)
    second.config.unlink()
    code, said = _run(second)
    assert code == 2
    assert str(second.config) in said


def test_unknown_setting_is_reported_and_the_broker_runs(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1, settings={"confluent.metrics.enable": "true"}) as cluster:
        assert "settings that this broker does not know: confluent.metrics.enable" in cluster.brokers[1].output


def test_signal_during_the_start_takes_effect_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # Somebody listens there, and never answers: the start waits for ZooKeeper.
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = {"zookeeper.connection.timeout.ms": "60000"}
        broker = Broker(tmp_path / "b", 1, address, settings, [sys.executable, "-m", "broker.cli"], ROOT)
        broker.start()
        connection, _ = silent.accept()
        with connection:
            started = time.monotonic()
            assert broker.stop() == 0
            assert time.monotonic() - started < 10
            assert "SIGTERM before the start was done" in broker.output


def test_clean_stop_leaves_the_mark_exact_checkpoints_and_whole_files(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for n in range(50):
        producer.produce("stopped", b"value-%d" % n, partition=0)
    assert producer.flush(30) == 0
    registered = cluster.zk.get("/brokers/ids/1")[1].czxid
    started = time.monotonic()
    assert broker.stop() == 0
    assert time.monotonic() - started < 10, "the last broker has nobody to wait for"
    data = broker.folder / "data"
    tp = TopicPartition("stopped", 0)
    mark = json.loads((data / checkpoints.CLEAN_SHUTDOWN).read_text())
    assert mark == {"version": 0, "brokerEpoch": registered}
    assert checkpoints.read_offsets(str(data / checkpoints.RECOVERY_POINTS))[tp] == 50
    assert checkpoints.read_offsets(str(data / checkpoints.HIGH_WATERMARKS))[tp] == 50
    segment = data / "stopped-0" / f"{0:020d}.log"
    with segment.open("rb") as file:
        batches = list(walk(file.fileno(), 0, segment.stat().st_size, verify_crc=True))
    assert batches[-1].last_offset == 49
    assert (data / "stopped-0" / f"{50:020d}.snapshot").exists()
    assert not cluster.live(), "the session was ended, not left to expire"
    assert broker.events()[-1]["e"] == "stop"
    broker.start()
    wait_until(lambda: cluster.live() == {1}, lambda: broker.output)

    def recovered_events() -> list[dict[str, object]]:
        return [e for e in _of_last_life(broker) if e["e"] == "recovered" and e["p"] == "stopped-0"]

    wait_until(lambda: bool(recovered_events()), lambda: broker.output)
    (recovered,) = recovered_events()
    assert (recovered["leo"], recovered["hw"], recovered["clean"]) == (50, 50, True)


def _of_last_life(broker: Broker) -> list[dict[str, object]]:
    events = broker.events()
    return [event for event in events if event["i"] == events[-1]["i"]]


def test_second_signal_ends_a_stop_that_waits(tmp_path: Path) -> None:
    settings = {"controlled.shutdown.retry.backoff.ms": "60000", "zookeeper.session.timeout.ms": "60000"}
    with running_cluster(tmp_path, brokers=2, settings=settings) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        controller = cluster.controller()
        assert controller is not None
        (stopped,) = [broker for i, broker in cluster.brokers.items() if i != controller]
        wait_until(lambda: _brokers_known(stopped) == 2, "the controller's word")
        assert stopped.process is not None
        cluster.brokers[controller].pause()
        stopped.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "SIGTERM: stopping" in stopped.output, lambda: stopped.output)
        stopped.process.send_signal(signal.SIGTERM)
        assert stopped.process.wait(20) == 1
        stopped.process = None
        assert "SIGTERM again: stopping at once" in stopped.output
        assert not (stopped.folder / "data" / checkpoints.CLEAN_SHUTDOWN).exists()


def _restarted_with(broker: Broker, cluster: Cluster, program: str) -> None:
    """What runs is this broker, with a part of it replaced."""
    assert broker.stop() == 0
    broker._command = [sys.executable, "-c", program]
    broker.start()
    wait_until(lambda: cluster.live() == {1} and _brokers_known(broker) == 1, lambda: broker.output)


_CLOSE = """
import sys, threading, time
from broker import cli
from broker.server import broker_server, data_plane

broker_server._SAME_SIGNAL_S = {same_signal_s}
real = data_plane.DataPlane.close

def close(plane, clean):
    print("closing", flush=True)
    {waits}
    real(plane, clean)

data_plane.DataPlane.close = close
sys.exit(cli.main())
"""


@pytest.mark.patches
def test_second_signal_ends_a_close_that_does_not_end(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1) as cluster:
        broker = cluster.brokers[1]
        _restarted_with(broker, cluster, _CLOSE.format(same_signal_s=0.5, waits="threading.Event().wait()"))
        process = broker.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "closing" in broker.output, lambda: broker.output)

        def ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        wait_until(ended, lambda: broker.output)
        assert process.returncode == -signal.SIGTERM
        broker.process = None


@pytest.mark.patches
def test_signal_that_comes_twice_at_once_leaves_a_close_alone(tmp_path: Path) -> None:
    """As from a launcher that tells the group, and then the process."""
    with running_cluster(tmp_path, brokers=1) as cluster:
        broker = cluster.brokers[1]
        go_on = tmp_path / "go-on"
        waits = f"while not __import__('os').path.exists({str(go_on)!r}): time.sleep(0.01)"
        _restarted_with(broker, cluster, _CLOSE.format(same_signal_s=3600, waits=waits))
        process = broker.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "closing" in broker.output, lambda: broker.output)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        go_on.touch()
        assert process.wait(20) == 0
        broker.process = None
        assert (broker.folder / "data" / checkpoints.CLEAN_SHUTDOWN).exists()
