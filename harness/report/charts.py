"""Which charts a run has: latency and rate, who led, each partition's lag and in-sync replicas, clocks.

Decides titles, units, and what is drawn in which colour. Takes series.json as docs/results-format.md has it. Must not
know how a chart is drawn: that is templates/charts.js, for which `data` is written into the page. What a fault does is
read from its `effects`, so that faults of other packages are drawn as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.curves import Points, Stretch, Timeline, counted, per_second, unbroken

_EFFECTS = ("stops-process", "cuts-links", "skews-clock", "damages-files")
_OTHER_EFFECT = "other"
_CALLBACKS = frozenset({"assign", "revoke", "lost", "process"})
"""Invoked and completed at once: how long they take says nothing."""
_OTHERS = 8
"""So many colours there are for operations beside send and poll, and for brokers half of it."""
_LAST_CLOCK_S = 2.0
"""A broker that runs is heard of four times a second."""


@dataclass(frozen=True, slots=True)
class Line:
    """name: as the legend has it. colour: a `--c-…` of report.css. shape: `step`, `line` or `dots`."""

    name: str
    colour: str
    points: Points
    shape: str = "step"
    weight: str = "normal"


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a strip: a state for each stretch, and its colour."""

    name: str
    stretches: Sequence[tuple[Stretch, str]]


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: lines over a vertical axis in `unit`, or lanes. group: charts of one group stand together.

    effects: only faults with one of these are marked in it; empty: all.
    """

    group: str
    title: str
    note: str
    unit: str = ""
    lines: Sequence[Line] = ()
    lanes: Sequence[Lane] = ()
    log: bool = False
    height: int = 170
    effects: Sequence[str] = ()


def all_charts(series: Mapping[str, Any], brokers: Mapping[int, str]) -> list[Chart]:
    """Every chart that series.json has data for, in the page's order. brokers: broker id → name of its node."""
    end_s = series.get("duration_ns", 0) / 1e9
    partitions = {
        name: Timeline(data, int(series.get("duration_ns", 0)))
        for name, data in sorted(series.get("partitions", {}).items())
    }
    charts = _latencies(series)
    if series.get("rate"):
        charts.append(_rate(series["rate"], end_s))
    if any(timeline.leaders for timeline in partitions.values()):
        charts.append(_leaders(partitions, brokers))
    for name, timeline in partitions.items():
        charts += _partition(name, timeline, brokers)
    if any(clock.get("points") for clock in series.get("clock", [])):
        charts.append(_clocks(series["clock"], brokers))
    return charts


def data(charts: Sequence[Chart], faults: Sequence[Mapping[str, Any]], end_s: float) -> str:
    """What templates/charts.js draws, as JSON that may stand inside a <script> element."""
    value = {
        "end": round(end_s, 3),
        "bands": [band(fault, end_s) for fault in faults],
        "charts": [_json(chart) for chart in charts],
    }
    # `</script>` or `<!--` in a name would end the element.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def band(fault: Mapping[str, Any], end_s: float) -> dict[str, Any]:
    """A fault as a span behind all charts; one that was not taken back lasts until the end."""
    from_s = fault["start_ns"] / 1e9
    to_s = fault["stop_ns"] / 1e9 if fault.get("stop_ns") is not None else end_s
    effects = list(fault.get("effects") or ())
    return {
        "n": fault.get("fault_id"),
        "label": f"{fault['fault']} {', '.join(fault.get('targets', []))}".strip(),
        "from": round(from_s, 3),
        "to": round(max(to_s, from_s), 3),
        "effects": effects,
        "colour": next((effect for effect in _EFFECTS if effect in effects), _OTHER_EFFECT),
    }


def _json(chart: Chart) -> dict[str, Any]:
    return {
        "unit": chart.unit,
        "log": chart.log,
        "height": chart.height,
        "effects": list(chart.effects),
        "lines": [
            {
                "name": line.name,
                "colour": line.colour,
                "shape": line.shape,
                "weight": line.weight,
                "points": line.points,
            }
            for line in chart.lines
        ],
        "lanes": [
            {"name": lane.name, "stretches": [[s.from_s, s.to_s, colour, s.text] for s, colour in lane.stretches]}
            for lane in chart.lanes
        ],
    }


def _latencies(series: Mapping[str, Any]) -> list[Chart]:
    """Send and poll with three quantiles each, all other operations with one."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in series.get("latency", ()):
        rows.setdefault(row["f"], []).append(row)
    charts = []
    for f, what in (("send", "Sends"), ("poll", "Polls")):
        if f not in rows:
            continue
        lines = [
            Line(name, f"{f}-{name[1:]}", per_second((r["second"], r[f"{name}_ms"]) for r in rows[f]), weight=weight)
            for name, weight in (("p50", "bold"), ("p95", "normal"), ("p99", "dashed"))
        ]
        for outcome, name in (("fail", "failed"), ("info", "no answer")):
            dots = [
                [round(p["t_s"], 3), max(round(p["ms"], 2), 0.01)]
                for p in series.get("latency_points", ())
                if p["f"] == f and p["outcome"] == outcome
            ]
            if dots:
                lines.append(Line(name, outcome, dots, "dots"))
        note = "How long they took, per second of the run: half, 95 % and 99 % were faster than the lines. "
        note += "Dots: single ones that failed, or that got no answer (a sample where there are many)."
        charts.append(Chart("Latency and rate", f"{what}: latency", note, "ms", lines, log=True))
    others = sorted(rows.keys() - {"send", "poll"} - _CALLBACKS, key=lambda f: (-len(rows[f]), f))
    if others:
        left_out = f" Not drawn: {', '.join(others[_OTHERS:])}." if others[_OTHERS:] else ""
        lines = [
            Line(f.replace("_", " "), f"o{nth}", per_second((r["second"], r["p95_ms"]) for r in rows[f]))
            for nth, f in enumerate(others[:_OTHERS], 1)
        ]
        note = f"95 % of the operations of each second were faster than the line.{left_out}"
        charts.append(Chart("Latency and rate", "Other operations: latency", note, "ms", lines, log=True))
    return charts


def _rate(rows: Sequence[Mapping[str, Any]], end_s: float) -> Chart:
    def answered(name: str, colour: str, chosen: Sequence[Mapping[str, Any]]) -> list[Line]:
        return [Line(name, colour, counted(((r["second"], r["ok"]) for r in chosen), end_s))] if chosen else []

    lines = [
        *answered("sends", "send-50", [r for r in rows if r["f"] == "send"]),
        *answered("polls", "poll-50", [r for r in rows if r["f"] == "poll"]),
        *answered("other operations", "o1", [r for r in rows if r["f"] not in ("send", "poll")]),
        Line("failed", "fail", counted(((r["second"], r["fail"]) for r in rows), end_s)),
        Line("no answer", "info", counted(((r["second"], r["info"]) for r in rows), end_s)),
    ]
    note = "How many of them succeeded in each second; how many of all failed, or got no answer."
    return Chart("Latency and rate", "Operations per second", note, "/s", lines)


def _leaders(partitions: Mapping[str, Timeline], brokers: Mapping[int, str]) -> Chart:
    lanes = [
        Lane(name, [(stretch, broker_colour(int(stretch.state))) for stretch in timeline.leaderships(brokers)])
        for name, timeline in partitions.items()
    ]
    note = "A stretch begins when that broker became leader, and ends when another one did."
    return Chart("Leadership", "Who led each partition", note, lanes=lanes)


def _partition(name: str, timeline: Timeline, brokers: Mapping[int, str]) -> list[Chart]:
    group = f"Partition {name}"
    uncommitted, behind = timeline.lags()
    called = {broker: brokers.get(broker, f"broker {broker}") for broker in timeline.brokers}
    charts = []
    roles = {b: timeline.roles(b, called[b]) for b in timeline.brokers}
    if any(roles.values()):
        lanes = [
            Lane(called[b], [(s, broker_colour(b) + ("" if s.state == "leader" else "-light")) for s in stretches])
            for b, stretches in roles.items()
        ]
        note = "Full colour: leader. Light: in-sync replica (ISR), which has all committed records. Empty: neither."
        charts.append(Chart(group, "Leader and in-sync replicas", note, lanes=lanes))
    lags = [Line(f"{called[b]} behind", broker_colour(b), points) for b, points in sorted(behind.items())]
    if uncommitted:
        lags.insert(0, Line("not committed", "ink", uncommitted, weight="bold"))
    if lags:
        note = "Records that the leader had and its in-sync replicas had not all copied (LEO − HW), and how many a "
        note += "replica lacked of the leader's log."
        charts.append(Chart(group, "Lag", note, "records", lags, height=120))
    marks = [Line(f"HW, {called[b]} led", broker_colour(b), p) for b, p in sorted(timeline.watermark().items())]
    if marks:
        note = "The leader's high watermark: records below it are committed and may be read."
        charts.append(Chart(group, "High watermark", note, "offset", marks, height=120))
    return charts


def _clocks(clocks: Sequence[Mapping[str, Any]], brokers: Mapping[int, str]) -> Chart:
    numbers = {name: broker for broker, name in brokers.items()}
    lines = [
        Line(c["node"], broker_colour(numbers.get(c["node"], nth)), unbroken(c["points"], _LAST_CLOCK_S), "line")
        for nth, c in enumerate(clocks, 1)
        if c.get("points")
    ]
    note = "How far each running broker's wall clock was ahead, as read by the broker itself. Marked: faults of clocks."
    return Chart("Clocks", "Wall clocks", note, "ms", lines, effects=("skews-clock",))


def broker_colour(broker: int) -> str:
    """The same for a broker in all charts and diagrams."""
    return f"b{(broker - 1) % _OTHERS + 1}"
