"""Charts of a run with fault bands behind them: latency, rate, each partition's HW, LEO and ISR, clocks.

All share one time axis in seconds since the run's start. Takes series.json as docs/results-format.md has it. What a
fault does is read from its `effects`, so that faults of other packages are drawn as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

_OUTCOME = {"ok": "#2a7a4b", "fail": "#c8860d", "info": "#b3261e"}
_BROKER = ("#1f5fa8", "#b5541c", "#5b3f9e", "#2a7a4b", "#8a6d00", "#a0307a")
_EFFECT = {
    "stops-process": "#d9480f",
    "cuts-links": "#c2255c",
    "skews-clock": "#0b7285",
    "damages-files": "#7048e8",
}
_OTHER_FAULT = "#868e96"
"""The colour of a fault that names none of these effects."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure: `html` is a div and its script, without the library."""

    title: str
    note: str
    html: str


def library() -> str:
    """The chart library's JavaScript, to be put in the page once."""
    return str(get_plotlyjs())


def all_charts(series: dict[str, Any], faults: list[dict[str, Any]]) -> list[Chart]:
    """Every chart that series.json has data for, in the page's order."""
    bands = series.get("faults") or faults
    end_s = series.get("duration_ns", 0) / 1e9
    charts = []
    if series.get("latency_points"):
        charts.append(_latency(series, bands, end_s))
    if series.get("rate"):
        charts.append(_rate(series, bands, end_s))
    charts += [_partition(name, data, bands, end_s) for name, data in sorted(series.get("partitions", {}).items())]
    if any(clock.get("points") for clock in series.get("clock", [])):
        charts.append(_clock(series, bands, end_s))
    return charts


def _latency(series: dict[str, Any], bands: list[dict[str, Any]], end_s: float) -> Chart:
    figure = _figure(bands, end_s, "ms", log=True)
    points = series["latency_points"]
    for outcome, colour in _OUTCOME.items():
        for f, symbol in (("send", "circle"), ("poll", "x"), ("list_offsets", "diamond")):
            chosen = [p for p in points if p["outcome"] == outcome and p["f"] == f]
            if chosen:
                figure.add_scattergl(
                    x=[round(p["t_s"], 3) for p in chosen],
                    y=[max(p["ms"], 0.01) for p in chosen],
                    mode="markers",
                    name=f"{f} {outcome}",
                    marker={"color": colour, "size": 4, "symbol": symbol, "opacity": 0.6},
                )
    sends = [row for row in series.get("latency", []) if row["f"] == "send"]
    figure.add_scatter(
        x=[row["second"] for row in sends],
        y=[row["p99_ms"] for row in sends],
        mode="lines",
        name="send p99",
        line={"color": "#333", "width": 1},
    )
    return Chart("Latency", "Every dot is one request (sampled where there are many).", _html(figure, 380))


def _rate(series: dict[str, Any], bands: list[dict[str, Any]], end_s: float) -> Chart:
    figure = _figure(bands, end_s, "operations per second")
    for outcome, colour in _OUTCOME.items():
        totals: dict[int, int] = {}
        for row in series["rate"]:
            totals[row["second"]] = totals.get(row["second"], 0) + row[outcome]
        figure.add_scatter(
            x=sorted(totals),
            y=[totals[second] for second in sorted(totals)],
            mode="lines",
            name=outcome,
            line={"color": colour, "shape": "hv", "width": 1.5},
        )
    return Chart("Rate", "Completions per second by outcome.", _html(figure, 280))


def _partition(name: str, data: dict[str, Any], bands: list[dict[str, Any]], end_s: float) -> Chart:
    figure = _figure(bands, end_s, "offset")
    brokers = sorted({point[1] for key in ("hw", "leo") for point in data.get(key, [])})
    for key, dash, width in (("leo", "dot", 1), ("hw", "solid", 2)):
        for position, broker in enumerate(brokers):
            points = [point for point in data.get(key, []) if point[1] == broker]
            figure.add_scatter(
                x=[point[0] for point in points],
                y=[point[2] for point in points],
                mode="lines",
                name=f"{key.upper()} {broker}",
                line={"color": _BROKER[position % len(_BROKER)], "dash": dash, "width": width, "shape": "hv"},
            )
    for t_s, broker, epoch in data.get("leader", []):
        figure.add_vline(
            x=t_s,
            line={"color": "#555", "width": 1, "dash": "dash"},
            annotation={"text": f"leader {broker} (epoch {epoch})", "font": {"size": 9}, "textangle": -90},
            annotation_position="bottom right",
        )
    isr = data.get("isr", [])
    figure.add_scatter(
        x=[point[0] for point in isr],
        y=[len(point[1]) for point in isr],
        text=["ISR " + ", ".join(map(str, point[1])) for point in isr],
        hoverinfo="x+text",
        mode="lines+markers",
        name="ISR size",
        yaxis="y2",
        line={"color": "#999", "shape": "hv", "width": 1},
    )
    figure.update_layout(
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "title": "ISR",
            "dtick": 1,
            "rangemode": "tozero",
            "showgrid": False,
        }
    )
    return Chart(f"Partition {name}", "HW (solid) and LEO (dotted) by broker, ISR size, elections.", _html(figure, 320))


def _clock(series: dict[str, Any], bands: list[dict[str, Any]], end_s: float) -> Chart:
    figure = _figure([b for b in bands if "skews-clock" in b.get("effects", ())], end_s, "ms ahead of the harness")
    for position, clock in enumerate(series["clock"]):
        figure.add_scatter(
            x=[point[0] for point in clock["points"]],
            y=[point[1] for point in clock["points"]],
            mode="lines",
            name=clock["node"],
            line={"color": _BROKER[position % len(_BROKER)], "width": 1.5},
        )
    return Chart("Clocks", "Wall clock of each running broker, as read from the broker itself.", _html(figure, 280))


def _figure(bands: list[dict[str, Any]], end_s: float, unit: str, *, log: bool = False) -> go.Figure:
    figure = go.Figure()
    for band in bands:
        start_s = band["start_ns"] / 1e9
        stop_s = band["stop_ns"] / 1e9 if band.get("stop_ns") is not None else end_s
        figure.add_vrect(
            x0=start_s,
            x1=max(stop_s, start_s + 0.05),
            fillcolor=_colour(band),
            opacity=0.14,
            line_width=0,
            annotation={"text": f"{band['fault']} {','.join(band.get('targets', []))}", "font": {"size": 9}},
            annotation_position="top left",
        )
    figure.update_layout(
        template="plotly_white",
        margin={"l": 60, "r": 50, "t": 16, "b": 40},
        xaxis={"title": "seconds since the start", "range": [0, end_s]},
        yaxis={"title": unit, "type": "log" if log else "linear"},
        legend={"orientation": "h", "y": -0.25},
        hovermode="closest",
    )
    return figure


def _colour(band: dict[str, Any]) -> str:
    """By the first effect that the fault has, in the order of `_EFFECT`."""
    effects = band.get("effects", ())
    return next((colour for effect, colour in _EFFECT.items() if effect in effects), _OTHER_FAULT)


def _html(figure: go.Figure, height_px: int) -> str:
    figure.update_layout(height=height_px)
    return str(
        figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True})
    )
