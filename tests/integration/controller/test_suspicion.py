"""Elections and takeovers on suspicion, against a real ZooKeeper: once per registration, never against a successor."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import ControllerMoved, LeaderAndIsr
from broker.core.controller.stored import Term
from broker.runtime.lifecycle.failure_detector import Suspect
from broker.zk import paths
from tests.integration.controller.conftest import Cluster, Node
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("C10")


def suspect_of(asking: Node, broker: int) -> Suspect:
    """What `asking` would act on, once it knows of the broker's registration."""

    def prepared() -> Suspect | None:
        found: list[Suspect | None] = []
        asking.controller.prepare_suspicion(broker, found.append)
        return eventually(lambda: found, "a suspect, or none")[0]

    return eventually(prepared, f"a suspicion of broker {broker}")


def test_suspected_leader_is_replaced_though_its_session_lives(cluster: Cluster) -> None:
    nodes = {i: cluster.add(i) for i in (1, 2, 3)}
    cluster.create_topic("t", {0: (2, 3, 1), 1: (3, 2, 1)}, {"min.insync.replicas": "2"})
    cluster.await_leader("t", 2)
    cluster.await_leader("t", 3, 1)
    controller = cluster.active()
    assert controller is nodes[1]
    controller.controller.act_on_suspicion(suspect_of(controller, 2))
    state = cluster.await_leader("t", 3)
    assert state.isr == (3, 1)

    def shrunk() -> LeaderAndIsr | None:
        found = cluster.state("t", 1)
        return found if found is not None and 2 not in found.isr else None

    follower = eventually(shrunk, "2 out of the ISR")
    assert follower.leader == 3
    assert cluster.client.get(paths.broker_id(2)) is not None

    def suspicion_lines() -> list[object]:
        lines = [fields for event, fields in list(cluster.log) if event == "election"]
        return [fields for fields in lines if fields["reason"] == "suspected"]

    eventually(lambda: len(suspicion_lines()) == 2, "two lines on it")


def test_registration_is_suspected_once_whoever_is_controller(cluster: Cluster) -> None:
    nodes = {i: cluster.add(i) for i in (1, 2, 3)}
    cluster.create_topic("t", {0: (2, 3, 1)})
    cluster.await_leader("t", 2)
    suspect = suspect_of(nodes[1], 2)
    nodes[1].controller.act_on_suspicion(suspect)
    cluster.await_leader("t", 3)
    nodes[1].controller.reachable(2)
    # Its link is back, and goes again: under another controller too.
    nodes[1].stop()
    cluster.remove(nodes[1])
    controller = cluster.active()
    cluster.create_topic("u", {0: (2, 3, 1)})
    cluster.await_leader("u", 2)
    controller.controller.act_on_suspicion(suspect_of(controller, 2))
    controller.controller.act_on_suspicion(suspect_of(controller, 2))
    cluster.create_topic("v", {0: (2, 3)})
    cluster.await_leader("v", 2)
    state = cluster.state("u")
    assert state is not None
    assert state.leader == 2, "its session decides now"


def test_partition_at_its_minimum_waits_for_the_session(cluster: Cluster) -> None:
    nodes = {i: cluster.add(i) for i in (1, 2)}
    cluster.create_topic("t", {0: (2, 1)}, {"min.insync.replicas": "2"})
    cluster.create_topic("u", {0: (2, 1)})
    cluster.await_leader("t", 2)
    cluster.await_leader("u", 2)
    nodes[1].controller.act_on_suspicion(suspect_of(nodes[1], 2))
    cluster.await_leader("u", 1)
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (2, (2, 1))


def test_killed_controller_is_replaced_in_one_step_and_its_leaderships_with_it(cluster: Cluster) -> None:
    nodes = {i: cluster.add(i) for i in (1, 2, 3)}
    cluster.create_topic("t", {0: (1, 2, 3)})
    before = cluster.await_leader("t", 1)
    suspect = suspect_of(nodes[2], 1)
    assert suspect.controller_version is not None
    nodes[2].controller.act_on_suspicion(suspect)
    after = cluster.await_leader("t", 2)
    assert after.controller_epoch == before.controller_epoch + 1
    assert after.isr == (2, 3)
    eventually(lambda: not nodes[1].controller.active, "the old one to resign")
    assert nodes[2].controller.active


def test_late_remover_does_not_hit_the_successor(cluster: Cluster) -> None:
    nodes = {i: cluster.add(i) for i in (1, 2, 3)}
    late = suspect_of(nodes[3], 1)
    nodes[2].controller.act_on_suspicion(suspect_of(nodes[2], 1))
    eventually(lambda: nodes[2].controller.active, "2 to be controller")
    nodes[3].controller.act_on_suspicion(late)
    cluster.create_topic("t", {0: (3, 2)})
    cluster.await_leader("t", 3)
    assert nodes[2].controller.active
    assert not nodes[3].controller.active


def test_write_of_the_replaced_controller_is_refused(cluster: Cluster) -> None:
    nodes = {i: cluster.add(i) for i in (1, 2, 3)}
    suspect = suspect_of(nodes[2], 1)
    assert suspect.controller_version is not None
    nodes[2].controller.act_on_suspicion(suspect)
    eventually(lambda: nodes[2].controller.active, "2 to be controller")
    old = Term(1, suspect.controller_version)
    try:
        nodes[1].store.spend_suspicion(old, 3, nodes[3].epoch)
    except ControllerMoved:
        return
    raise AssertionError("a deposed controller wrote")


def test_notes_of_registrations_that_are_gone_are_dropped(cluster: Cluster) -> None:
    nodes = {i: cluster.add(i) for i in (1, 2, 3)}
    nodes[1].controller.act_on_suspicion(suspect_of(nodes[1], 3))
    eventually(lambda: cluster.client.children(paths.SUSPICIONS), "the note")
    nodes[3].stop()
    cluster.remove(nodes[3])
    nodes[1].stop()
    cluster.remove(nodes[1])
    cluster.active()
    eventually(lambda: not cluster.client.children(paths.SUSPICIONS), "no note")
