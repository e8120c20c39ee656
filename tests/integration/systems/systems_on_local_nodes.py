"""A real ZooKeeper and a small stand-in for the broker, on namespaces. Run by test_systems.py."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from harness.nodes.base import Node, NodeSet
from harness.nodes.factory import make_nodes
from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.systems.coordination import Coordination
from harness.systems.highwater import system as highwater
from harness.systems.highwater.system import DAEMON, HighwaterSystem
from harness.systems.waiting import SystemFailed
from harness.systems.zookeeper import DAEMON as ZOOKEEPER
from harness.systems.zookeeper import ZooKeeperEnsemble
from nemesis.base import Injection
from nemesis.catalogue import load_catalogue
from nemesis.faults.process import Kill
from nemesis.waiting import until

STANDIN = Path(__file__).parent / "standin"


@contextmanager
def opened(folder: Path, brokers: int, zookeepers: int) -> Iterator[NodeSet]:
    nodes = make_nodes("local", brokers, zookeepers, run_dir=folder, source=STANDIN)
    nodes.open()
    try:
        yield nodes
    finally:
        nodes.close()


def plan(extra: str = "") -> Plan:
    text = f"""
name = "standin"
seed = 1
[system]
start_order = [2, 1, 3]
[system.settings]
"auto.create.topics.enable" = false
[system.broker.3]
"broker.rack" = "b"
[topic]
name = "hw"
partitions = 1
{extra}
"""
    return parse_plan("standin.toml", text, load_catalogue().kinds)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[HighwaterSystem]:
    with opened(tmp_path, 3, 1) as nodes:
        made = HighwaterSystem(nodes.nodes, plan('[faults]\nkinds = ["clock-step"]'))
        try:
            made.setup()
            yield made
        finally:
            made.teardown()


def test_ensemble_of_three_elects_and_survives_one_kill(tmp_path: Path) -> None:
    with opened(tmp_path, 1, 3) as nodes:
        servers: list[Node] = [nodes.nodes[f"zk{i}"] for i in (1, 2, 3)]
        ensemble = ZooKeeperEnsemble(servers)
        ensemble.start()
        client = KazooClient(ensemble.connect, timeout=4.0)
        client.start(timeout=20)
        try:
            client.create("/probe", b"1")
            servers[0].signal(ZOOKEEPER, signal.SIGKILL)
            assert servers[0].wait_gone(ZOOKEEPER, 5.0)
            assert client.retry(client.get, "/probe")[0] == b"1"
            ensemble.start_server(servers[0])
        finally:
            client.stop()
            client.close()
        ensemble.collect(servers[1], tmp_path / "evidence")
        found = list((tmp_path / "evidence" / "zookeeper" / "version-2").iterdir())
        logs = [path for path in found if path.name.startswith("log.")]
        assert logs
        assert all(path.stat().st_size <= 8 << 20 for path in logs), "a preallocated log must stay small"
        ensemble.kill()


def test_system_life_from_setup_to_evidence(system: HighwaterSystem, tmp_path: Path) -> None:
    view = system.view()
    assert view.controller() == "n2", "the first of start_order controls"
    assert system.coordination.registered() == frozenset({1, 2, 3})
    assert [name for name, _, _ in system.bootstrap()] == ["n1", "n2", "n3"]
    assert "broker.rack=b" in view.node("n3").read_text(f"{view.node('n3').root}/server.properties")
    assert view.clock_file("n1") is not None

    # A kill that was announced is no crash, and its restart answers.
    kill, injection = Kill(), Injection("kill", ("n1",))
    assert kill.start(view, injection).seen
    assert system.crashed() == []
    assert kill.stop(view, injection).seen
    assert system.crashed() == []

    # An end that nobody announced is told once, with the log's end; a restart makes it tellable again.
    for _ in range(2):
        view.node("n3").write_text(f"{view.node('n3').root}/data/die", "")
        assert view.node("n3").wait_gone(DAEMON, 10.0)
        told = system.crashed()
        assert [name for name, _ in told] == ["n3"]
        assert "told to die" in told[0][1]
        assert system.crashed() == []
        system.start_broker("n3")

    # Coordination knows partitions by Kafka's znode, and says None while ZooKeeper does not answer.
    client = KazooClient(system.zookeeper.connect)
    client.start()
    state = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 4, "isr": [2, 3]}
    client.create("/brokers/topics/hw/partitions/0/state", json.dumps(state).encode(), makepath=True)
    client.stop()
    client.close()
    assert view.leader(0) == "n2"
    assert list(view.isr(0)) == ["n2", "n3"]
    assert view.leader(1) is None
    view.node("zk1").signal(ZOOKEEPER, signal.SIGSTOP)
    # A thread of it may still answer one that comes at once.
    assert until(lambda: view.leader(0) is None, 15.0)
    view.node("zk1").signal(ZOOKEEPER, signal.SIGCONT)
    assert until(lambda: view.leader(0), 15.0) == "n2"

    evidence = tmp_path / "evidence"
    assert sorted(system.collect(evidence)) == [("n1", None), ("n2", None), ("n3", None), ("zk1", None)]
    for name in ("n1", "n2", "n3"):
        assert (evidence / name / "data" / "hw-0" / "00000000000000000000.log").stat().st_size >= 7
        assert (evidence / name / "logs" / "broker.log").exists()
        assert json.loads((evidence / name / "events.jsonl").read_text().splitlines()[0])["e"] == "tick"
    assert list((evidence / "zk1" / "zookeeper" / "version-2").glob("log.*"))

    for name in ("n1", "n2"):
        system.stop_broker(name)
        assert view.node(name).pid(DAEMON) is None
    assert system.crashed() == []


def test_broker_that_hangs_on_sigterm_is_killed_and_reported(
    system: HighwaterSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = system.view().node("n1")
    evidence = tmp_path / "evidence"
    assert dict(system.collect(evidence))["n1"] is None
    assert system.stop_broker("n2") is None
    monkeypatch.setattr(highwater, "STOP_TIMEOUT_S", 1.0)
    node.signal(DAEMON, signal.SIGSTOP)
    assert system.stop_broker("n1") == "did not end within 1 s of SIGTERM and was killed"
    assert node.pid(DAEMON) is None
    assert system.crashed() == []

    # What it logs after its evidence was copied is copied by itself.
    node.run(["sh", "-c", f'echo "its last words" >> "{node.root}/logs/broker.log"'])
    assert system.collect_logs(evidence) == []
    assert "its last words" not in (evidence / "n1" / "logs" / "broker.log").read_text()
    assert "its last words" in (evidence / "n1" / "logs-after" / "broker.log").read_text()
    node.run(["rm", "-r", f"{node.root}/logs"])
    ((name, why),) = system.collect_logs(evidence)
    assert (name, "FileNotFoundError" in why) == ("n1", True)


def test_node_that_was_copied_in_part_is_not_taken_for_one_that_was_copied(
    system: HighwaterSystem, tmp_path: Path
) -> None:
    node = system.view().node("n1")
    node.run(["rm", "-r", f"{node.root}/logs"])
    evidence = tmp_path / "evidence"
    told = dict(system.collect(evidence))
    assert "FileNotFoundError" in (told["n1"] or "")
    assert {name for name, why in told.items() if why is None} == {"n2", "n3", "zk1"}
    assert sorted(path.name for path in evidence.iterdir()) == ["n1.part", "n2", "n3", "zk1"]
    assert (evidence / "n1.part" / "data").is_dir(), "what could be copied is there to be looked at"


def test_broker_that_cannot_start_is_reported_with_its_log(system: HighwaterSystem) -> None:
    system.stop_broker("n1")
    node = system.view().node("n1")
    node.write_text(f"{node.root}/server.properties", "nonsense=1\n")
    with pytest.raises(SystemFailed, match=r"n1: broker ended before it responded; the end of (?s:.*)KeyError"):
        system.start_broker("n1")


def test_coordination_without_server_returns_none() -> None:
    assert Coordination("127.0.0.1:1").controller() is None
