"""Every fault for real, on nodes with a small daemon in the broker's place. Run by test_faults.py in a sandbox.

FAULTS_ON: kind of the nodes, local by default.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from harness.nodes import disks, firewall
from harness.nodes.base import DaemonSpec, Node
from harness.nodes.factory import make_nodes
from harness.tools.faketime import faketime_environment
from nemesis.active_faults import ActiveFaults
from nemesis.bare import BareView
from nemesis.base import BROKER, Observation
from nemesis.catalogue import available, load_catalogue
from nemesis.faults import reach
from nemesis.faults.clock import RIGHT, samples
from nemesis.faults.process import process_state
from nemesis.waiting import until
from tests.support.fake_cluster import Lines

PORT = 9092

# A broker as far as faults can tell: it accepts connections, logs its two clocks, and says when it was stopped.
_DAEMON = """
import json, os, signal, socket, sys, time

def stop(number, frame):
    # Not through the file object: it may be in the middle of a line.
    os.write(log.fileno(), b'{"e": "stop"}\\n')
    os._exit(0)

signal.signal(signal.SIGTERM, stop)
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
server.settimeout(0.05)
with open(sys.argv[3], "a", buffering=1) as log:
    while True:
        m = time.monotonic_ns()
        print(json.dumps({"e": "tick", "w": time.time_ns(), "m": m}), file=log)
        try:
            server.accept()[0].close()
        except TimeoutError:
            pass
"""


class View(BareView):
    """Restarts the small daemon as a system restarts its broker."""

    def restart_broker(self, node: str) -> None:
        one = self.node(node)
        if one.pid(self.daemon(node)) is None:
            self.launch(one)

    def launch(self, node: Node) -> None:
        control = self.clock_file(node.name)
        assert control is not None
        assert node.faketime_library is not None
        if not node.exists(control):
            node.write_text(control, RIGHT)
        argv = (node.python, "-c", _DAEMON, node.address, str(PORT), self.event_log(node.name))
        env = faketime_environment(node.faketime_library, control)
        node.start(DaemonSpec(self.daemon(node.name), argv, env))
        assert until(lambda: answers(node), 10.0), f"{node.name}'s daemon does not answer"
        pid = node.pid(self.daemon(node.name))
        node.run(["rm", "-f", f"/dev/shm/faketime_shm_{pid}", f"/dev/shm/sem.faketime_sem_{pid}"])


def answers(node: Node) -> bool:
    try:
        socket.create_connection((node.address, PORT), timeout=0.3).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    root = Path(__file__).resolve().parents[3]
    kind = os.environ.get("FAULTS_ON", "local")
    nodes = make_nodes(kind, 3, 1, run_dir=tmp_path_factory.mktemp("run"), source=root, mounts=True)
    nodes.open()
    try:
        made = View([nodes.nodes[f"n{i}"] for i in (1, 2, 3)], [nodes.nodes["zk1"]])
        for node in [*made.broker_nodes, *made.zookeeper_nodes]:
            made.launch(node)
        yield made
    finally:
        nodes.close()


@pytest.fixture
def in_force(view: View) -> Iterator[ActiveFaults]:
    made = ActiveFaults(view, Lines())
    yield made
    assert made.heal_all() == []


def apply(in_force: ActiveFaults, fault: str, target: str, **wanted: object) -> tuple[int, Observation]:
    injection = in_force.faults[fault].draw(Random(7), in_force.view, target, wanted)
    fault_id = in_force.claim(injection)
    assert fault_id is not None
    return fault_id, in_force.start(fault_id)


def revert(in_force: ActiveFaults, fault_id: int) -> Observation:
    observation = in_force.stop(fault_id)
    assert observation is not None
    return observation


def links(*pairs: tuple[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(pairs) | frozenset((b, a) for a, b in pairs)


def every_link(view: View) -> frozenset[tuple[str, str]]:
    names = [node.name for node in [*view.broker_nodes, *view.zookeeper_nodes]]
    return frozenset((a, b) for a in names for b in names if a != b)


def heard(view: View) -> frozenset[tuple[str, str]]:
    return reach.exchange([*view.broker_nodes, *view.zookeeper_nodes]).links


def test_available_on_local_nodes_is_everything(view: View) -> None:
    assert {name: missing for name, missing in available(view) if missing is not None} == {}
    assert {name for name, _ in available(view)} == set(load_catalogue().kinds)


def test_kill_is_seen_gone_and_comes_back_with_another_pid(view: View, in_force: ActiveFaults) -> None:
    before = view.node("n1").pid(BROKER)
    fault_id, seen = apply(in_force, "kill", "n1")
    assert seen.seen, seen.text
    assert not answers(view.node("n1"))
    back = revert(in_force, fault_id)
    assert back.seen, back.text
    assert view.node("n1").pid(BROKER) not in (None, before)
    assert answers(view.node("n1"))


def test_stop_two_targets_are_seen_gone_and_come_back(view: View, in_force: ActiveFaults) -> None:
    fault_id, seen = apply(in_force, "stop", "majority")
    assert seen.seen, seen.text
    assert sum(answers(node) for node in view.broker_nodes) == 1
    assert revert(in_force, fault_id).seen
    assert all(answers(node) for node in view.broker_nodes)


def test_kill_of_nothing_is_not_observed(view: View, in_force: ActiveFaults) -> None:
    view.node("n3").signal(BROKER, signal.SIGKILL)
    assert view.node("n3").wait_gone(BROKER, 5.0)
    _, seen = apply(in_force, "kill", "n3")
    assert not seen.seen
    assert "no broker was running" in seen.text


def test_pause_is_seen_in_proc_and_ends(view: View, in_force: ActiveFaults) -> None:
    fault_id, seen = apply(in_force, "pause", "n2")
    assert seen.seen, seen.text
    assert process_state(view, "n2") == "T"
    assert revert(in_force, fault_id).seen
    assert process_state(view, "n2") in ("S", "R")


def test_isolate_cuts_one_node_both_ways_and_nothing_else(view: View, in_force: ActiveFaults) -> None:
    fault_id, seen = apply(in_force, "isolate", "n2")
    assert seen.seen, seen.text
    assert heard(view) == every_link(view) - links(("n2", "n1"), ("n2", "n3"), ("n2", "zk1"))
    assert answers(view.node("n2")), "the harness keeps reaching every node"
    assert revert(in_force, fault_id).seen
    assert heard(view) == every_link(view)


def test_one_way_cut_silences_one_direction_only(view: View, in_force: ActiveFaults) -> None:
    fault_id, seen = apply(in_force, "one-way", "n1", direction="from")
    assert seen.seen, seen.text
    assert heard(view) == every_link(view) - {("n1", "n2"), ("n1", "n3"), ("n1", "zk1")}
    assert revert(in_force, fault_id).seen


@pytest.mark.parametrize("fault", ["halves", "majority-ring", "cut-zookeeper"])
def test_other_partitions_are_observed_and_taken_back(view: View, in_force: ActiveFaults, fault: str) -> None:
    fault_id, seen = apply(in_force, fault, "n3")
    assert seen.seen, seen.text
    assert revert(in_force, fault_id).seen


def test_partition_whose_rules_vanished_is_not_observed(
    view: View, in_force: ActiveFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firewall, "cut", lambda *args, **kwargs: None)
    _, seen = apply(in_force, "isolate", "n1")
    assert not seen.seen, seen.text


def test_clock_step_moves_the_wall_clock_alone_and_back(view: View, in_force: ActiveFaults) -> None:
    fault_id, seen = apply(in_force, "clock-step", "n1", offset_s=-604_800.0)
    assert seen.seen, seen.text
    assert abs(samples(view, "n1")[-1].ahead_s + 604_800) < 0.1
    assert abs(samples(view, "n2")[-1].ahead_s) < 0.1
    back = revert(in_force, fault_id)
    assert back.seen, back.text


def test_clock_drift_begins_where_the_clock_is(view: View, in_force: ActiveFaults) -> None:
    fault_id, seen = apply(in_force, "clock-drift", "n2", rate=1.5)
    assert seen.seen, seen.text
    first = samples(view, "n2")[-1]
    assert 0.3 < first.ahead_s < 8, "a drift must not begin with a jump"
    assert revert(in_force, fault_id).seen


def test_clock_strobe_shows_both_clocks(view: View, in_force: ActiveFaults) -> None:
    fault_id, seen = apply(in_force, "clock-strobe", "n3", delta_s=60.0)
    assert seen.seen, seen.text
    assert revert(in_force, fault_id).seen


def test_clock_of_a_silent_daemon_is_not_observed(
    view: View, in_force: ActiveFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.faults.clock.OBSERVE_S", 1.5)
    view.node("n1").signal(BROKER, signal.SIGSTOP)
    _, seen = apply(in_force, "clock-step", "n1", offset_s=100.0)
    assert not seen.seen
    assert "logged nothing" in seen.text
    view.node("n1").signal(BROKER, signal.SIGCONT)


def test_heal_all_after_faults_nobody_remembers(view: View) -> None:
    forgotten = ActiveFaults(view, Lines())
    for fault, target in (("isolate", "n1"), ("pause", "n2"), ("kill", "n3")):
        apply(forgotten, fault, target)
    lines = Lines()
    assert ActiveFaults(view, lines).heal_all() == []
    assert lines.lines == []
    assert heard(view) == every_link(view)
    assert all(answers(node) for node in view.broker_nodes)


# A broker that has written, and synced the half of it.
_WRITE = """
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(file, b"synced")
os.fsync(file)
folder = os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY)
os.fsync(folder)
os.write(file, b", not synced")
"""


def _left(node: Node, path: str) -> str:
    """What is in the file, without zeros at its end: the journal may have committed its length, which takes 5 s."""
    return node.read_text(path).rstrip("\0")


@pytest.fixture
def on_disks(view: View) -> Iterator[View]:
    places = [(node, view.data_folder(node.name)) for node in view.broker_nodes]
    for place in places:
        disks.attach(*place)
    yield view
    for node, folder in places:
        disks.detach(node, folder)
        assert not disks.attached(node, folder)


def test_power_failure_of_all_costs_each_what_it_had_not_synced(on_disks: View, in_force: ActiveFaults) -> None:
    paths = {node.name: f"{on_disks.data_folder(node.name)}/00.log" for node in on_disks.broker_nodes}
    before = {name: on_disks.node(name).pid(BROKER) for name in paths}
    for name, path in paths.items():
        node = on_disks.node(name)
        node.run([node.python, "-c", _WRITE, path])
        assert node.read_text(path) == "synced, not synced"
    fault_id, seen = apply(in_force, "power-failure", "all")
    assert seen.seen, seen.text
    assert "n2: segments of 18 bytes, after the cut of" in seen.text
    assert not any(answers(node) for node in on_disks.broker_nodes)
    assert {_left(on_disks.node(name), path) for name, path in paths.items()} == {"synced"}
    assert revert(in_force, fault_id).seen
    assert all(on_disks.node(name).pid(BROKER) not in (None, before[name]) for name in paths)


def test_power_failure_of_one_node_costs_that_one_alone(on_disks: View, in_force: ActiveFaults) -> None:
    for node in on_disks.broker_nodes:
        node.run([node.python, "-c", _WRITE, f"{on_disks.data_folder(node.name)}/00.log"])
    fault_id, seen = apply(in_force, "power-failure-unsynced", "n3")
    assert seen.seen, seen.text
    assert revert(in_force, fault_id).seen
    left = [_left(node, f"{on_disks.data_folder(node.name)}/00.log") for node in on_disks.broker_nodes]
    assert left == ["synced, not synced", "synced, not synced", "synced"]


def test_power_comes_back_where_a_file_stays_open_for_a_moment(on_disks: View, in_force: ActiveFaults) -> None:
    """As do those of a process that was killed, and is gone for who waits for it."""
    node, path = on_disks.node("n3"), f"{on_disks.data_folder('n3')}/00.log"
    node.run([node.python, "-c", _WRITE, path])
    node.run(["sh", "-c", 'exec 3< "$1"; sleep 0.5 > /dev/null 2>&1 &', "sh", path])
    _, seen = apply(in_force, "power-failure-unsynced", "n3")
    assert seen.seen, seen.text
    assert _left(node, path) == "synced"


def test_power_of_a_node_without_a_disk_of_its_own_does_not_fail(view: View, in_force: ActiveFaults) -> None:
    _, seen = apply(in_force, "power-failure", "n1")
    assert not seen.seen
    assert "its data is on no disk of its own" in seen.text
    assert answers(view.node("n1"))


_BATCHES = 20


def _fill_data(view: View) -> None:
    """Files as a broker would have them; batches are only as real as their lengths."""
    for node in view.broker_nodes:
        batch = bytes(8) + (188).to_bytes(4, "big") + bytes(188)
        folder = f"{view.data_folder(node.name)}/hw-0"
        node.run(["mkdir", "-p", folder])
        node.run(
            [node.python, "-c", "import sys; open(sys.argv[1], 'wb').write(bytes.fromhex(sys.argv[2]))",
             f"{folder}/{0:020d}.log", (batch * _BATCHES).hex()]
        )  # fmt: skip
        node.write_text(f"{folder}/{0:020d}.index", "index")
        node.write_text(f"{view.data_folder(node.name)}/recovery-point-offset-checkpoint", "0\n1\nhw 0 7\n")


def _bytes_of(node: Node, path: str) -> bytes:
    program = "import sys; print(open(sys.argv[1], 'rb').read().hex())"
    return bytes.fromhex(node.run([node.python, "-c", program, path]).stdout)


def test_bitflip_changes_one_bit_of_one_replica_and_no_leader_epoch(view: View, in_force: ActiveFaults) -> None:
    _fill_data(view)
    segment = f"{view.data_folder('n2')}/hw-0/{0:020d}.log"
    before = _bytes_of(view.node("n2"), segment)
    others = [_bytes_of(view.node(name), f"{view.data_folder(name)}/hw-0/{0:020d}.log") for name in ("n1", "n3")]
    for seed in range(5):
        fault_id, seen = apply(in_force, "bitflip", "n2", file="segment", seed=seed, **{"while": "up"})
        assert seen.seen, seen.text
        assert revert(in_force, fault_id).seen
        after = _bytes_of(view.node("n2"), segment)
        changed = [at for at in range(len(before)) if before[at] != after[at]]
        assert len(changed) == 1
        assert (before[changed[0]] ^ after[changed[0]]).bit_count() == 1
        assert not 12 <= changed[0] % 200 < 16
        before = after
    assert [
        _bytes_of(view.node(name), f"{view.data_folder(name)}/hw-0/{0:020d}.log") for name in ("n1", "n3")
    ] == others


def test_truncate_file_and_remove_file_happen_while_the_broker_is_down(view: View, in_force: ActiveFaults) -> None:
    _fill_data(view)
    segment = f"{view.data_folder('n2')}/hw-0/{0:020d}.log"
    before = view.node("n2").pid(BROKER)
    fault_id, seen = apply(in_force, "truncate-file", "n2", file="segment", **{"while": "down"})
    assert seen.seen, seen.text
    assert not answers(view.node("n2"))
    assert len(_bytes_of(view.node("n2"), segment)) < 200 * _BATCHES
    assert revert(in_force, fault_id).seen
    assert view.node("n2").pid(BROKER) not in (None, before)
    fault_id, seen = apply(in_force, "remove-file", "n2", file="index", **{"while": "down"})
    assert seen.seen, seen.text
    assert not view.node("n2").exists(f"{view.data_folder('n2')}/hw-0/{0:020d}.index")
    assert revert(in_force, fault_id).seen
