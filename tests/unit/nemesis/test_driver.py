from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from time import monotonic_ns

import pytest

from harness.nodes import firewall
from nemesis.active_faults import ActiveFaults
from nemesis.base import NOTHING_WANTED, ClusterView, Injection, Observation, Unavailable
from nemesis.catalogue import load_catalogue
from nemesis.driver import Nemesis, scheduled
from nemesis.faults import clock
from nemesis.faults.process import KILL, Kill, Pause, Stop
from nemesis.schedule import Mix, Slot, slots
from nemesis.targets import choose
from tests.support.fake_cluster import FakeView, Lines, Time

MIX = Mix((KILL,), ("one",), (1.0, 1.0), (4.0, 4.0), 1, 60.0, 8.0)


class Probe:
    """A fault that notes its calls; `fails` raises when it is applied."""

    def __init__(
        self, name: str, *, fails: bool = False, missing: str | None = None, cuts_nothing: bool = False
    ) -> None:
        self.kind = replace(KILL, name=name)
        self.fails, self.missing, self.cuts_nothing = fails, missing, cuts_nothing
        self.calls: list[str] = []

    def probe(self, view: ClusterView) -> str | None:
        return self.missing

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        if self.cuts_nothing:
            raise Unavailable("it cuts nothing")
        return Injection(self.kind.name, (target,), dict(wanted))

    def claims(self, injection: Injection) -> frozenset[str]:
        return frozenset(injection.targets)

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        self.calls.append("start")
        if self.fails:
            raise RuntimeError("no such device")
        return Observation(True, "there")

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        self.calls.append("stop")
        return Observation(True, "gone")


@pytest.fixture(autouse=True)
def no_firewall(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    healed: list[str] = []
    monkeypatch.setattr(firewall, "heal", lambda node: healed.append(node.name))
    return healed


def slot(number: int, kind: str, start_s: float, duration_s: float = 4.0, target: str = "n1") -> Slot:
    return Slot(number, 0, kind, target, {}, start_s, duration_s)


def test_carry_out_slots_starts_and_stops_each_in_order() -> None:
    view, lines, time = FakeView(), Lines(), Time()
    nemesis = Nemesis(MIX, 1, view, lines, clock_s=time)
    nemesis.carry_out([slot(0, "kill", 1.0), slot(1, "pause", 6.0, target="leader")], 0.0, MIX, time)
    assert lines.brief() == [
        ("start", "kill", ["n1"]),
        ("stop", "kill", ["n1"]),
        ("start", "pause", ["n2"]),
        ("stop", "pause", ["n2"]),
    ]
    assert all(line["observed"] for line in lines.lines)
    assert [line["fault_id"] for line in lines.lines] == [1, 1, 2, 2]
    assert time.now_s == 10.0
    assert not nemesis.active()


def test_carry_out_stopped_in_the_middle_takes_the_fault_back() -> None:
    view, lines, time = FakeView(), Lines(), Time(end_s=3.0)
    Nemesis(MIX, 1, view, lines, clock_s=time).carry_out([slot(0, "pause", 1.0), slot(1, "kill", 6.0)], 0.0, MIX, time)
    assert lines.brief() == [("start", "pause", ["n1"]), ("stop", "pause", ["n1"]), ("skipped", "kill", [])]
    assert view.node("n1").state == "S"


def test_carry_out_late_fault_that_would_reach_into_recovery_is_left_out() -> None:
    view, lines, time = FakeView(), Lines(), Time()
    time.now_s = 49.0  # Earlier faults took long; 49 + 4 is beyond 60 - 8.
    Nemesis(MIX, 1, view, lines, clock_s=time).carry_out([slot(0, "kill", 1.0)], 0.0, MIX, time)
    assert lines.brief() == [("skipped", "kill", [])]


def test_carry_out_fault_that_took_long_to_be_seen_is_in_force_for_a_while() -> None:
    time = Time()

    class Slow(Probe):
        def start(self, view: ClusterView, injection: Injection) -> Observation:
            time.now_s += 9.0
            return super().start(view, injection)

    nemesis = Nemesis(MIX, 1, FakeView(), Lines(), faults={"kill": Slow("kill")}, clock_s=time)
    nemesis.carry_out([slot(0, "kill", 1.0)], 0.0, MIX, time)
    assert time.now_s == 1.0 + 9.0 + 2.0


@pytest.mark.parametrize(
    ("kind", "role"),
    [("group", "group-coordinator"), ("transaction", "any broker: no transaction-coordinator is known")],
)
def test_carry_out_records_whether_a_coordinator_was_hit(kind: str, role: str) -> None:
    class Aimed(Probe):
        def draw(
            self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
        ) -> Injection:
            return Injection("kill", choose(target, rng, view), {"while": "up"})

    lines, time = Lines(), Time()
    nemesis = Nemesis(MIX, 1, FakeView(), lines, faults={"kill": Aimed("kill")}, clock_s=time)
    one = replace(slot(0, "kill", 1.0), target=f"{kind}-coordinator")
    nemesis.carry_out([one], 0.0, MIX, time)
    assert lines.lines[0]["params"] == {"while": "up", "role": role, "scheduled": 1}


def test_carry_out_fault_that_fails_is_recorded_and_reverted() -> None:
    probe, lines, time = Probe("kill", fails=True), Lines(), Time()
    nemesis = Nemesis(MIX, 1, FakeView(), lines, faults={"kill": probe}, clock_s=time)
    nemesis.carry_out([slot(0, "kill", 1.0)], 0.0, MIX, time)
    assert probe.calls == ["start", "stop"]
    assert lines.lines[0]["error"] == "RuntimeError: no such device"
    assert lines.lines[0]["observed"] is False
    assert lines.lines[1]["error"] is None


def test_carry_out_draw_that_cuts_nothing_is_recorded_as_unavailable() -> None:
    lines, time = Lines(), Time()
    nemesis = Nemesis(MIX, 1, FakeView(), lines, faults={"kill": Probe("kill", cuts_nothing=True)}, clock_s=time)
    nemesis.carry_out([slot(0, "kill", 1.0)], 0.0, MIX, time)
    assert lines.brief() == [("unavailable", "kill", [])]
    assert nemesis.unavailable == {"kill": "it cuts nothing"}


def test_run_unavailable_kinds_are_recorded_and_nothing_of_them_is_drawn() -> None:
    lines, stop = Lines(), threading.Event()
    stop.set()
    faults = {kind: Probe(kind, missing="no nft") for kind in load_catalogue().kinds}
    nemesis = Nemesis(MIX, 1, FakeView(), lines, faults=faults)
    nemesis.run(stop)
    assert lines.brief() == [("unavailable", "kill", [])]
    assert lines.lines[0]["error"] == "no nft"


def test_run_lane_that_fails_ends_the_nemesis_with_its_error() -> None:
    class Broken(Probe):
        def claims(self, injection: Injection) -> frozenset[str]:
            raise RuntimeError("no such lane")

    mix = Mix((KILL,), ("one",), (0.0, 0.0), (50.0, 50.0), 1, 60.0, 8.0)
    ended = threading.Event()
    nemesis = Nemesis(mix, 1, FakeView(), Lines(), faults={"kill": Broken("kill")})
    threading.Timer(0.1, ended.set).start()
    with pytest.raises(RuntimeError, match="no such lane"):
        nemesis.run(ended)


def test_active_faults_line_says_when_the_change_was_begun() -> None:
    began: list[int | None] = []

    class Begun(Lines):
        def nemesis(self, f: str, *, began_ns: int | None = None, **fields: object) -> None:
            began.append(began_ns)

    in_force = ActiveFaults(FakeView(), Begun(), {"pause": Pause()})
    before_ns = monotonic_ns()
    fault_id = in_force.admit(Injection("pause", ("n1",)))
    in_force.start(fault_id)
    in_force.stop(fault_id)
    assert [value is not None and before_ns <= value <= monotonic_ns() for value in began] == [True, True]


def test_stop_broker_that_died_while_it_stopped_is_not_seen_as_a_clean_stop() -> None:
    view = FakeView()
    view.node("n1").last_event = '{"e":"append"}'
    died = Stop().start(view, Injection("stop", ("n1",)))
    assert (died.seen, "no clean stop" in died.text) == (False, True)
    assert Stop().start(view, Injection("stop", ("n2",))).seen


def test_run_crash_without_a_fault_is_recorded_with_its_log() -> None:
    view, lines, stop = FakeView(), Lines(), threading.Event()
    view.crashes.append(("n3", "Traceback …"))
    stop.set()
    Nemesis(None, 1, view, lines).run(stop)
    assert [(line["f"], line["node"], line["log_tail"]) for line in lines.lines] == [("crash", "n3", "Traceback …")]


def test_active_faults_claimed_node_is_free_again_after_stop() -> None:
    in_force = ActiveFaults(FakeView(), Lines(), {"kill": Kill(), "pause": Pause()})
    first = in_force.claim(Injection("kill", ("n1",)))
    assert first is not None
    assert in_force.claim(Injection("pause", ("n1",))) is None
    assert in_force.claim(Injection("pause", ("n2",))) is not None
    in_force.start(first)
    in_force.stop(first)
    assert in_force.claim(Injection("pause", ("n1",))) is not None


def test_active_faults_stop_twice_records_once() -> None:
    lines = Lines()
    in_force = ActiveFaults(FakeView(), lines)
    fault_id = in_force.claim(Injection("pause", ("n1",)))
    assert fault_id is not None
    in_force.start(fault_id)
    assert in_force.stop(fault_id) is not None
    assert in_force.stop(fault_id) is None
    assert [line["f"] for line in lines.lines] == ["start", "stop"]


def test_heal_all_active_and_forgotten_faults_are_gone(no_firewall: list[str]) -> None:
    view, lines = FakeView(), Lines()
    in_force = ActiveFaults(view, lines)
    fault_id = in_force.claim(Injection("kill", ("n1",)))
    assert fault_id is not None
    in_force.start(fault_id)
    view.node("n2").state = "T"
    view.node("zk1").state = "T"
    view.node("n3").state = None
    assert in_force.heal_all() == []
    assert [node.state for node in [*view.brokers, *view.zookeepers]] == ["S"] * 4
    assert no_firewall == ["n1", "n2", "n3", "zk1"]
    assert {node.files[f"/{node.name}/faketime"] for node in view.brokers} == {clock.RIGHT}
    assert lines.brief() == [("start", "kill", ["n1"]), ("stop", "kill", ["n1"])]
    assert in_force.heal_all() == []
    assert len(lines.lines) == 2


def test_heal_all_one_node_unreachable_heals_the_others_and_says_so() -> None:
    view, lines = FakeView(), Lines()
    view.node("n1").broken = True
    view.node("n2").state = "T"
    errors = ActiveFaults(view, lines).heal_all()
    assert len(errors) == 1
    assert "unreachable" in errors[0]
    assert view.node("n2").state == "S"
    assert [line["f"] for line in lines.lines] == ["heal"]


def test_active_faults_line_of_a_file_fault_says_which_file() -> None:
    class Damage(Pause):
        def start(self, view: ClusterView, injection: Injection) -> Observation:
            return Observation(True, "damaged", "hw-0/0.log")

    lines = Lines()
    in_force = ActiveFaults(FakeView(), lines, {"pause": Damage()})
    fault_id = in_force.admit(Injection("pause", ("n1",)))
    in_force.start(fault_id)
    in_force.stop(fault_id)
    assert [line.get("file") for line in lines.lines] == ["hw-0/0.log", None]


def test_heal_all_says_which_fault_it_did_not_see_the_end_of() -> None:
    class Lasting(Pause):
        def stop(self, view: ClusterView, injection: Injection) -> Observation:
            return Observation(False, "still stopped")

    lines = Lines()
    in_force = ActiveFaults(FakeView(), lines, {"pause": Lasting()})
    fault_id = in_force.claim(Injection("pause", ("n1",)))
    assert fault_id is not None
    in_force.start(fault_id)
    assert in_force.heal_all() == [f"pause ({fault_id}): still stopped"]
    assert [line["f"] for line in lines.lines] == ["start", "stop", "heal"]


@pytest.mark.parametrize(("only", "left"), [(None, (1, 2, 3)), ((2,), (2,)), ((3, 1), (1, 3)), ((), ()), ((9,), ())])
def test_only_the_named_faults_of_the_schedule_are_carried_out(
    only: tuple[int, ...] | None, left: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each when and as it would be without the others left out."""
    carried: list[Slot] = []
    monkeypatch.setattr(Nemesis, "carry_out", lambda _self, lane, *_rest: carried.extend(lane))
    nemesis = Nemesis(
        replace(MIX, time_limit_s=24.0), 1, FakeView(), Lines(), faults={"kill": Probe("kill")}, only=only
    )
    over = threading.Event()
    over.set()
    nemesis.run(over)
    whole = slots(replace(MIX, time_limit_s=24.0), 1)
    assert [scheduled(one) for one in whole] == [1, 2, 3]
    assert carried == [one for one in whole if scheduled(one) in left]


def test_coming_is_the_soonest_fault_that_waits() -> None:
    told: list[str] = []

    class Asking(Time):
        def wait(self, timeout: float | None = None) -> bool:
            told.append(nemesis.coming())
            return super().wait(timeout)

    time = Asking()
    nemesis = Nemesis(MIX, 1, FakeView(), Lines(), clock_s=time)
    nemesis.carry_out([slot(0, "kill", 3.0), slot(1, "pause", 12.0, target="leader")], 0.0, MIX, time)
    assert (told[0], told[2]) == ("next: kill on n1 in 3 s", "next: pause on leader in 5 s")
    assert nemesis.coming() == told[1] == "", "a fault at work does not wait"
