"""Under which faults nobody could lead any partition, by the ISRs of the time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from checkers.coverage.leaders import InSync, Leaderless, leaderless
from checkers.history.faults import Fault
from checkers.history.run_info import NodeInfo, RunInfo
from tests.support.known_faults import effects_of
from tests.support.run_info import run_info

pytestmark = pytest.mark.guarantee("H8")

S = 1_000_000_000
NODES = ("n1", "n2", "n3", "zk1")


def info(min_isr: int = 1) -> RunInfo:
    """Serves again within 5 s."""
    nodes = tuple(NodeInfo(name, "zookeeper" if name == "zk1" else "broker", None, 0) for name in NODES)
    times = {"session_timeout_ms": 2000, "request_timeout_ms": 3000}
    return run_info(nodes=nodes, min_insync_replicas=min_isr, partitions=("hw-0", "hw-1"), **times)


def fault(id_: int, kind: str, target: str, from_s: float, until_s: float | None, back_s: float | None = None) -> Fault:
    """back_s: from when on it was being taken back; until_s: when it was seen gone."""
    others = [node for node in NODES if node != target]
    grudge = {target: others, **{other: [target] for other in others}}
    params = json.dumps({"grudge": grudge}) if kind == "isolate" else None
    stop_ns, began_ns = (None if at is None else int(at * S) for at in (until_s, back_s))
    return Fault(
        *(id_, kind, (target,), int(from_s * S), stop_ns, True, ""),
        params_json=params,
        stop_began_ns=began_ns,
        effects=effects_of(kind),
    )


def isrs(**versions: Sequence[tuple[float, str]]) -> Mapping[str, Sequence[InSync]]:
    """Partition's number, as _0 → since when (s) which members, as "13"."""
    return {
        f"hw{p.replace('_', '-')}": [InSync(int(at * S), frozenset(f"n{n}" for n in isr)) for at, isr in found]
        for p, found in versions.items()
    }


ALONE = isrs(_0=[(0, "123"), (5, "3")], _1=[(0, "123"), (6, "3")])
BOTH, WRITES, NONE = ({1}, {1}), ({1}, set[int]()), (set[int](), set[int]())


def found(result: Leaderless) -> tuple[set[int], set[int]]:
    return set(result.writes), set(result.polls)


@pytest.mark.parametrize(
    ("kind", "target", "expected"), [("kill", "n3", BOTH), ("isolate", "n3", WRITES), ("kill", "n2", NONE)]
)
def test_nobody_leads_while_the_last_in_sync_of_all_partitions_is_hit(
    kind: str, target: str, expected: tuple[set[int], set[int]]
) -> None:
    assert found(leaderless(info(), [fault(1, kind, target, 10, 20)], ALONE)) == expected


def test_one_partition_that_somebody_may_lead_is_enough() -> None:
    led = isrs(_0=[(0, "123"), (5, "3")], _1=[(0, "123"), (6, "23")])
    assert found(leaderless(info(), [fault(1, "kill", "n3", 10, 20)], led)) == NONE


def test_partition_whose_isr_is_not_known_may_be_led_by_anybody() -> None:
    hit = [fault(1, "kill", "n3", 10, 20)]
    assert found(leaderless(info(), hit, {"hw-0": ALONE["hw-0"]})) == NONE
    assert found(leaderless(info(), hit, isrs(_0=[(5, "3")], _1=[(11, "3")]))) == BOTH, "for a second anybody"


@pytest.mark.parametrize(("again_s", "expected"), [(14.9, BOTH), (15.0, NONE)])
def test_who_may_lead_for_long_enough_has_to(again_s: float, expected: tuple[set[int], set[int]]) -> None:
    """Of ten seconds the first, in which the ISR still has another member, or the last, in which it has one again."""
    later = isrs(_0=[(0, "123"), (again_s, "3")], _1=[(0, "3")])
    assert found(leaderless(info(), [fault(1, "kill", "n3", 10, 20)], later)) == expected
    sooner = isrs(_0=[(0, "3"), (30 - again_s, "23")], _1=[(0, "3")])
    assert found(leaderless(info(), [fault(1, "kill", "n3", 10, 20)], sooner)) == expected


def test_short_times_are_no_long_one() -> None:
    """The ISR grows and shrinks again."""
    turns = isrs(_0=[(0, "23"), (13, "3"), (14, "23"), (17, "3"), (18, "23")], _1=[(0, "3")])
    assert found(leaderless(info(), [fault(1, "kill", "n3", 10, 20)], turns)) == BOTH


def test_fault_around_takes_who_is_left() -> None:
    """A link is cut while one member is away, the other follows it."""
    cut, away = fault(1, "isolate", "n1", 10, 20), fault(2, "kill", "n3", 8, 16, 14)
    last = isrs(_0=[(0, "3")], _1=[(0, "13")])
    assert found(leaderless(info(), [cut, away], last))[0] == {1, 2}
    assert found(leaderless(info(), [cut, fault(2, "kill", "n3", 8, 14)], last))[0] == {2}, "back for six seconds"


def test_broker_that_is_slow_to_come_back_is_excused_for_ten_seconds() -> None:
    cut, slow = fault(1, "isolate", "n1", 10, 30), fault(2, "kill", "n3", 8, 30, 9)
    last = isrs(_0=[(0, "3")], _1=[(0, "13")])
    assert 1 not in leaderless(info(), [cut, slow], last).writes


def test_effect_that_was_not_seen_excuses_nothing() -> None:
    cut, away = fault(1, "isolate", "n1", 10, 20), fault(2, "kill", "n3", 8, 22)
    last = isrs(_0=[(0, "13")], _1=[(0, "3")])
    unseen = Fault(*(2, "kill", ("n3",), 8 * S, 22 * S, False, ""), effects=away.effects)
    assert found(leaderless(info(), [cut, away], last))[0] == {1, 2}
    assert 1 not in leaderless(info(), [cut, unseen], last).writes


def test_fault_that_nobody_took_back_is_endless() -> None:
    assert found(leaderless(info(), [fault(1, "kill", "n3", 10, None)], ALONE)) == BOTH
    grown = isrs(_0=[(0, "3"), (40, "23")], _1=[(0, "3")])
    assert found(leaderless(info(), [fault(1, "kill", "n3", 10, None)], grown)) == NONE


def test_who_may_lead_needs_the_minimum_beside_it() -> None:
    two = isrs(_0=[(0, "13")], _1=[(0, "13")])
    hit = [fault(1, "isolate", "n1", 10, 20), fault(2, "kill", "n2", 5, 25)]
    assert 1 in leaderless(info(min_isr=2), hit, two).writes
    assert 1 not in leaderless(info(min_isr=1), hit, two).writes
