from __future__ import annotations

import io

import pytest

from harness.runs.console import Console, Stats, plain, render


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def client(type_: str, f: str = "send", **fields: object) -> dict[str, object]:
    return {"kind": "client", "type": type_, "f": f, "partition": 0, "node": "n1", "error": None, **fields}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stats(clock: Clock) -> Stats:
    return Stats(clock)


def test_stats_rates_are_completions_per_second(stats: Stats, clock: Clock) -> None:
    for type_ in ["invoke"] * 9 + ["ok"] * 6 + ["fail"] * 2 + ["info"]:
        stats.on_line(client(type_))
    clock.now_s += 2.0
    picture = stats.picture()
    assert picture.rates == {"ok": 3.0, "fail": 1.0, "info": 0.5}
    assert picture.totals == {"ok": 6, "fail": 2, "info": 1}


def test_stats_old_completions_leave_the_rate(stats: Stats, clock: Clock) -> None:
    stats.on_line(client("ok"))
    for _ in range(5):
        clock.now_s += 1.0
        picture = stats.picture()
    assert picture.rates["ok"] == 0.0


def test_stats_phase_counts_down(stats: Stats, clock: Clock) -> None:
    stats.phase("main", 60.0)
    clock.now_s += 12.0
    assert (stats.picture().phase, stats.picture().left_s) == ("main", 48.0)


def test_stats_faults_are_active_from_start_to_stop(stats: Stats) -> None:
    start = {"kind": "nemesis", "type": "info", "f": "start", "fault": "pause", "fault_id": 3, "targets": ["n1"]}
    stats.on_line(start)
    assert stats.picture().faults == ["pause n1"]
    stats.on_line({**start, "f": "stop"})
    assert stats.picture().faults == []


def test_stats_partitions_take_leader_from_metadata_and_hw_from_polls(stats: Stats) -> None:
    stats.on_line(
        {
            "kind": "harness",
            "type": "info",
            "f": "leadership",
            "partition": 0,
            "leader": "n2",
            "epoch": 4,
            "isr": [2, 3],
        }
    )
    stats.on_line(client("ok", "poll", hw=17))
    stats.on_line(client("ok", "poll", hw=12))
    line = plain(stats.picture())
    assert "0:n2[2,3]@17" in line


def test_stats_last_error_names_operation_node_and_error(stats: Stats) -> None:
    stats.on_line(client("info", error="timeout"))
    assert "last error: send at n1: timeout" in plain(stats.picture())


def test_render_shows_every_part(stats: Stats) -> None:
    from rich.console import Console as RichConsole

    stats.phase("main", 10.0)
    stats.on_line(client("fail", error="NOT_ENOUGH_REPLICAS"))
    stats.on_line(
        {"kind": "harness", "type": "info", "f": "leadership", "partition": 1, "leader": None, "epoch": 2, "isr": [1]}
    )
    out = io.StringIO()
    RichConsole(file=out, width=120).print(render("highwater demo", stats.picture()))
    text = out.getvalue()
    for part in ("highwater demo", "main", "NOT_ENOUGH_REPLICAS", "partition 1", "leader -", "epoch 2"):
        assert part in text


def test_console_without_a_terminal_prints_plain_lines(stats: Stats) -> None:
    out = io.StringIO()
    console = Console("t", stats, out=out, plain_every_s=0.001)
    console.start()
    while "setup" not in out.getvalue():
        stats.on_line(client("ok"))
    console.say("a line that stays")
    console.close()
    assert "a line that stays" in out.getvalue()
    assert "\x1b" not in out.getvalue()
