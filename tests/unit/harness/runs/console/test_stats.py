from __future__ import annotations

import pytest

from harness.runs.console import figures
from harness.runs.console.picture import Phase
from harness.runs.console.stats import Stats
from tests.unit.harness.runs.console.conftest import Clock


def client(type_: str, f: str = "send", **fields: object) -> dict[str, object]:
    return {"kind": "client", "type": type_, "f": f, "partition": 0, "node": "n1", "error": None, **fields}


def leadership(partition: int, leader: str | None, isr: list[int]) -> dict[str, object]:
    line = {"kind": "harness", "type": "info", "f": "leadership", "epoch": 4}
    return {**line, "partition": partition, "leader": leader, "isr": isr}


def send(stats: Stats, index: int, took_ms: float, outcome: str = "ok") -> None:
    stats.on_line(client("invoke", index=index, time_ns=1_000_000))
    stats.on_line(client(outcome, invoke=index, time_ns=1_000_000 + round(took_ms * 1e6)))


def test_stats_rates_are_completions_per_second(stats: Stats, clock: Clock) -> None:
    for type_ in ["invoke"] * 9 + ["ok"] * 6 + ["fail"] * 2 + ["info"]:
        stats.on_line(client(type_))
    clock.now_s += 2.0
    picture = stats.picture()
    assert picture.rates == {"ok": 3.0, "fail": 1.0, "info": 0.5}
    assert picture.totals == {"ok": 6, "fail": 2, "info": 1}
    assert stats.operations == 9


def test_stats_old_completions_leave_the_rate_and_stay_in_the_total(stats: Stats, clock: Clock) -> None:
    stats.on_line(client("ok"))
    clock.now_s += figures.RATE_WINDOW_S + 1
    picture = stats.picture()
    assert (picture.rates["ok"], picture.totals["ok"]) == (0.0, 1)


def test_stats_latency_is_from_an_invocation_to_its_own_acknowledgement(stats: Stats) -> None:
    for index in range(100):
        send(stats, index, took_ms=index + 1)
    picture = stats.picture()
    assert (picture.p50_ms, picture.p99_ms) == (50.0, 99.0)


def test_stats_latency_is_of_acknowledged_sends_alone(stats: Stats) -> None:
    send(stats, 1, 900.0, "info")
    send(stats, 2, 800.0, "fail")
    stats.on_line(client("invoke", "poll", index=3, time_ns=0))
    stats.on_line(client("ok", "poll", invoke=3, time_ns=700_000_000))
    assert stats.picture().p50_ms is None
    send(stats, 4, 5.0)
    assert stats.picture().p99_ms == 5.0


def test_stats_old_latencies_are_not_shown(stats: Stats, clock: Clock) -> None:
    send(stats, 1, 5.0)
    clock.now_s += figures.LATENCY_WINDOW_S + 1
    assert stats.picture().p50_ms is None


def test_stats_phases_count_with_what_is_still_to_come(stats: Stats, clock: Clock) -> None:
    assert (stats.picture().phase.name, stats.picture().phase.number) == ("setup", 1)
    stats.phase("setup", 60.0)
    clock.now_s += 5.0
    stats.phase("main", 30.0)
    clock.now_s += 12.0
    picture = stats.picture()
    assert picture.phase == Phase("main", 2, 7, 30.0, 12.0)
    assert picture.elapsed_s == 17.0


def test_stats_phase_that_only_the_history_tells_of_counts_once(stats: Stats) -> None:
    """The rotation's rounds begin so; a phase that the run began itself comes from the history too."""
    for name in ("setup", "main", "heal", "final", "drain-current"):
        stats.phase(name, 10.0)
        stats.on_line({"kind": "harness", "type": "info", "f": "phase", "phase": name})
    stats.on_line({"kind": "harness", "type": "info", "f": "phase", "phase": "drain-n1"})
    assert (stats.picture().phase.name, stats.picture().phase.place) == ("drain-n1", "phase 6 of 7")


def test_stats_phase_that_begins_again_at_once_is_the_same_one_with_more_time(stats: Stats, clock: Clock) -> None:
    """Final phases say `final` once for what settles and once for the last writes."""
    stats.phase("final", 10.0)
    clock.now_s += 8.0
    stats.phase("final", 10.0)
    assert stats.picture().phase == Phase("final", 1, 4, 18.0, 8.0)


def test_stats_tell_of_each_phase_as_it_begins(stats: Stats, clock: Clock) -> None:
    told: list[tuple[str, float | None, float]] = []
    stats.on_phase = lambda phase, took_s: told.append((phase.name, phase.limit_s, took_s))
    stats.phase("setup", 60.0)
    clock.now_s += 4.0
    stats.phase("main")
    stats.phase("main")
    assert told == [("setup", 60.0, 0.0), ("main", None, 4.0)]


def test_stats_what_goes_on_ends_with_its_phase(stats: Stats, clock: Clock) -> None:
    stats.phase("final", 10.0)
    clock.now_s += 3.0
    stats.doing("evidence", 20.0)
    assert (stats.picture().doing, stats.picture().phase.limit_s) == ("evidence", 23.0)
    stats.phase("drain-current", 10.0)
    assert (stats.picture().doing, stats.picture().phase.limit_s) == ("", 10.0)


def test_stats_faults_are_active_from_start_to_stop_and_done_after_it(stats: Stats, clock: Clock) -> None:
    start = {"kind": "nemesis", "type": "info", "f": "start", "fault": "pause", "fault_id": 3, "targets": ["n1"]}
    stats.on_line(start)
    clock.now_s += 2.5
    picture = stats.picture()
    assert [(fault.text, fault.age_s) for fault in picture.faults] == [("pause n1", 2.5)]
    assert picture.faults_done == 0
    stats.on_line({**start, "f": "stop"})
    assert (list(stats.picture().faults), stats.picture().faults_done) == ([], 1)


def test_stats_fault_that_was_skipped_is_not_done(stats: Stats) -> None:
    line = {"kind": "nemesis", "type": "info", "fault": "pause", "fault_id": 0, "targets": []}
    stats.on_line({**line, "f": "skipped"})
    stats.on_line({**line, "f": "stop"})
    assert stats.picture().faults_done == 0


def test_stats_ask_what_comes_next_when_a_picture_is_made(stats: Stats) -> None:
    stats.coming = lambda: "next: kill on n2 in 3 s"
    assert stats.picture().coming == "next: kill on n2 in 3 s"


def test_stats_partitions_take_leader_from_metadata_and_offsets_from_polls(stats: Stats) -> None:
    stats.on_line(leadership(0, "n2", [2, 3]))
    stats.on_line(client("ok", "poll", hw=17, next_position=9))
    stats.on_line(client("ok", "poll", hw=12, next_position=5))
    ((index, line),) = stats.picture().partitions
    assert (index, line.leader, line.isr, line.hw, line.lag) == (0, "n2", (2, 3), 17, 8)


def test_stats_worst_partition_comes_first(stats: Stats) -> None:
    """Without a leader, then the smallest ISR, then the largest lag."""
    stats.on_line(leadership(0, "n1", [1, 2, 3]))
    stats.on_line(leadership(1, "n1", [1, 2, 3]))
    stats.on_line(leadership(2, "n1", [1]))
    stats.on_line(leadership(3, None, [1, 2]))
    stats.on_line(client("ok", "poll", partition=1, hw=100, next_position=10))
    stats.on_line(client("ok", "poll", partition=4, hw=900, next_position=10))
    assert [index for index, _ in stats.picture().partitions] == [3, 2, 1, 0, 4]


def test_stats_last_error_names_operation_node_and_error_and_grows_old(stats: Stats, clock: Clock) -> None:
    stats.on_line(client("info", error="timeout"))
    clock.now_s += 7.0
    picture = stats.picture()
    assert (picture.last_error, picture.last_error_age_s) == ("send at n1: timeout", 7.0)


@pytest.mark.parametrize("outcome", ["ok", None])
def test_stats_memory_is_bounded(clock: Clock, outcome: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many operations there are, and however many of them never come out."""
    monkeypatch.setattr(figures, "OPEN_MOST", 50)
    stats = Stats(clock_s=clock)
    for index in range(3 * figures.SAMPLES):
        clock.now_s += 0.1
        stats.on_line(client("invoke", index=index, time_ns=index))
        if outcome is not None:
            stats.on_line(client(outcome, invoke=index, time_ns=index + 1))
    latencies, per_second = stats._latencies, stats._per_second
    assert len(latencies._open) == (0 if outcome else 50)
    assert len(latencies._done) == (figures.SAMPLES if outcome else 0)
    assert len(per_second._past) <= figures.KEPT_S
