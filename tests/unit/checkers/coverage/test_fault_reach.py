"""Which faults leave too few brokers to acknowledge a write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from checkers.coverage.fault_reach import can_acknowledge, reads_impossible, writes_impossible
from checkers.history.faults import Fault
from checkers.history.run_info import NodeInfo, RunInfo
from tests.support.known_faults import effects_of
from tests.support.run_info import run_info

pytestmark = pytest.mark.guarantee("H8")

EVERYONE = ("n1", "n2", "n3", "zk1")


def of_kind(kind: str, targets: Sequence[str], params: str | None) -> Fault:
    return Fault(1, kind, tuple(targets), 0, None, True, "", params_json=params, effects=effects_of(kind))


def able(fault: str, targets: Sequence[str] = (), grudge: Mapping[str, Sequence[str]] | None = None) -> bool:
    params = None if grudge is None else json.dumps({"grudge": grudge})
    return can_acknowledge([of_kind(fault, targets, params)], brokers=EVERYONE[:3], zookeepers=EVERYONE[3:], min_isr=2)


def cut(*links: tuple[str, str]) -> dict[str, list[str]]:
    """Both ways."""
    grudge: dict[str, list[str]] = {}
    for one, other in links:
        grudge.setdefault(one, []).append(other)
        grudge.setdefault(other, []).append(one)
    return grudge


@pytest.mark.parametrize("fault", ["kill", "stop", "pause"])
def test_can_acknowledge_process_faults_need_min_isr_brokers(fault: str) -> None:
    assert able(fault, ["n1"])
    assert not able(fault, ["n1", "n2"])


def test_can_acknowledge_clock_faults_stop_nobody() -> None:
    assert able("clock-step", ["n1", "n2", "n3"])


def test_can_acknowledge_one_isolated_broker_leaves_two() -> None:
    assert able("isolate", ["n1"], cut(("n1", "n2"), ("n1", "n3"), ("n1", "zk1")))


def test_can_acknowledge_one_way_cut_is_a_cut() -> None:
    deaf = {"n2": ["n1", "n3", "zk1"], "n3": ["n1"]}
    assert not able("one-way", ["n2"], deaf)
    assert able("one-way", ["n2"], {"n2": ["n1", "n3", "zk1"]})


def test_can_acknowledge_halves_of_four_nodes_leave_no_two_brokers_with_zookeeper() -> None:
    halves = cut(("n1", "n2"), ("n1", "n3"), ("zk1", "n2"), ("zk1", "n3"))
    assert not able("halves", ["n1", "zk1"], halves)


def test_can_acknowledge_ring_of_four_nodes_leaves_no_pair() -> None:
    assert not able("majority-ring", EVERYONE, cut(("n1", "n3"), ("n2", "zk1")))


def test_can_acknowledge_cut_from_zookeeper_ends_sessions() -> None:
    assert able("cut-zookeeper", ["n1"], cut(("n1", "zk1")))
    assert not able("cut-zookeeper", ["n1", "n2"], cut(("n1", "zk1"), ("n2", "zk1")))


@pytest.mark.parametrize(
    ("effects", "acknowledged"),
    [(("stops-process",), False), (("cuts-links",), False), (("skews-clock",), True), ((), True)],
)
def test_can_acknowledge_kind_of_another_package_is_known_by_its_effects(
    effects: Sequence[str], acknowledged: bool
) -> None:
    params = json.dumps({"grudge": cut(("n1", "zk1"), ("n2", "zk1"))})
    frost = Fault(1, "frost", ("n1", "n2"), 0, None, True, "", params_json=params, effects=frozenset(effects))
    assert can_acknowledge([frost], brokers=EVERYONE[:3], zookeepers=EVERYONE[3:], min_isr=2) is acknowledged


def test_can_acknowledge_cut_without_readable_params_excuses_nothing() -> None:
    assert can_acknowledge([of_kind("halves", ["n1"], "{")], brokers=["n1"], zookeepers=["zk1"], min_isr=1)
    assert can_acknowledge([of_kind("halves", ["n1"], "[]")], brokers=["n1"], zookeepers=["zk1"], min_isr=1)


def test_can_acknowledge_three_zookeepers_need_two() -> None:
    def with_three(*links: tuple[str, str]) -> bool:
        servers = ["zk1", "zk2", "zk3"]
        params = json.dumps({"grudge": cut(*links)})
        return can_acknowledge([of_kind("halves", [], params)], brokers=["n1", "n2"], zookeepers=servers, min_isr=2)

    assert with_three(("n1", "zk1"))
    assert not with_three(("n1", "zk1"), ("n1", "zk2"))


def three_brokers() -> RunInfo:
    nodes = [NodeInfo(name, "zookeeper" if name == "zk1" else "broker", None, 0) for name in EVERYONE]
    return run_info(nodes=tuple(nodes), min_insync_replicas=1)


def in_force(fault: Fault, fault_id: int, from_ns: int, until_ns: int | None, **over: Any) -> Fault:
    return replace(fault, fault_id=fault_id, start_ns=from_ns, stop_ns=until_ns, **over)


def test_reads_are_impossible_while_every_broker_is_down_and_under_nothing_else() -> None:
    faults = [
        of_kind("kill", ["n1", "n2", "n3"], None),
        of_kind("kill", ["n1", "n3"], None),
        of_kind("isolate", ["n1", "n2", "n3"], None),
    ]
    one_by_one = [in_force(one, nth, 10 * nth, 10 * nth + 5) for nth, one in enumerate(faults)]
    assert reads_impossible(three_brokers(), one_by_one) == {0}


APART = json.dumps({"grudge": cut(("n1", "zk1"), ("n3", "zk1"), ("n1", "n2"), ("n3", "n2"), ("n1", "n3"))})
STOPPED, ISOLATED = of_kind("stop", ["n2"], None), of_kind("isolate", ["n1", "n3"], APART)


@pytest.mark.parametrize(
    ("around", "impossible"),
    [
        (in_force(STOPPED, 8, 5, 30), {7}),
        (in_force(STOPPED, 8, 10, 20), {7, 8}),
        (in_force(STOPPED, 8, 5, None), {7}),
        (in_force(STOPPED, 8, 11, 30), set()),
        (in_force(STOPPED, 8, 5, 19), set()),
        # It was taken back for a while before that was seen.
        (in_force(STOPPED, 8, 5, 30, stop_began_ns=19), set()),
        (in_force(STOPPED, 8, 5, 30, observed=False), set()),
    ],
)
def test_writes_are_impossible_where_a_fault_takes_what_another_one_leaves_all_its_time(
    around: Fault, impossible: set[int]
) -> None:
    assert writes_impossible(three_brokers(), [in_force(ISOLATED, 7, 10, 20), around]) == impossible


def test_fault_that_nobody_took_back_is_left_alone_by_one_that_ended() -> None:
    info = three_brokers()
    assert writes_impossible(info, [in_force(ISOLATED, 7, 10, None), in_force(STOPPED, 8, 5, 30)]) == set()
    assert writes_impossible(info, [in_force(ISOLATED, 7, 10, None), in_force(STOPPED, 8, 5, None)]) == {7}


def test_reads_are_impossible_where_two_faults_stop_all() -> None:
    two, third = of_kind("pause", ["n1", "n3"], None), in_force(STOPPED, 8, 5, 30)
    assert reads_impossible(three_brokers(), [in_force(two, 7, 10, 20), third]) == {7}
    assert reads_impossible(three_brokers(), [in_force(ISOLATED, 7, 10, 20), third]) == set()
