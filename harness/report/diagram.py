"""A story as a sequence diagram: one column for the clients and for each node, one row for each step, drawn as SVG.

Decides positions, and what of a record's life is drawn as a bar: on a node's line from the step by which its log held
the record's offset to the step by which it was cut; another record at that offset has another colour. Must not know how
steps came about. Colours are classes and properties of report.css. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from harness.report.steps import Step

_TIMES = 66
"""Width of the column of times, in px as all that follows."""
_LANE = 106
_ROW = 34
_HEAD = 34
_CHARACTER = 6.0
_ARROWS = frozenset({"refused", "silence", "cut"})
"""Kinds of steps that are drawn in the colour of what goes wrong."""


def svg(steps: Sequence[Step], lanes: Sequence[str]) -> str:
    """lanes: clients and nodes, from left to right; steps of others are drawn at the first."""
    used = list(dict.fromkeys([*lanes, *(lane for step in steps for lane in step.lanes)]))
    width, height = _TIMES + _LANE * len(used), _HEAD + _ROW * len(steps) + 14
    columns = {lane: _TIMES + _LANE * nth + _LANE / 2 for nth, lane in enumerate(used)}
    parts = [
        f'<svg class="sequence" viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img" '
        f'aria-label="Sequence of the steps beside">'
    ]
    for lane, x in columns.items():
        parts.append(f'<line class="lifeline" x1="{x}" x2="{x}" y1="{_HEAD - 6}" y2="{height}"/>')
        parts.append(f'<rect class="head" x="{x - 46}" y="2" width="92" height="22" rx="4"/>')
        parts.append(f'<text x="{x}" y="17" text-anchor="middle">{escape(lane)}</text>')
    rows = {nth: _HEAD + _ROW * nth + _ROW / 2 for nth in range(len(steps))}
    parts += _bars(steps, columns, rows, height)
    for nth, step in enumerate(steps):
        y = rows[nth]
        parts.append(f'<text class="time" x="2" y="{y + 4}">{nth + 1}</text>')
        parts.append(f'<text class="time" x="{_TIMES - 4}" y="{y + 4}" text-anchor="end">{step.at_s:,.3f}</text>')
        parts += _step(step, columns, y)
    return "".join([*parts, "</svg>"])


def _step(step: Step, columns: dict[str, float], y: float) -> list[str]:
    """An arrow where a step goes to somebody else, otherwise a box on each of its lanes."""
    kind = f"{step.kind} wrong" if step.kind in _ARROWS else step.kind
    title = f"<title>{escape(step.text)}</title>"
    lanes = [lane for lane in step.lanes if lane in columns]
    if step.to is not None and step.to in columns and lanes and step.to != lanes[0]:
        start, stop = columns[lanes[0]], columns[step.to]
        towards = 1 if stop > start else -1
        tip = stop - towards * 6
        middle = (start + stop) / 2
        return [
            f'<g class="step {kind}">{title}<line x1="{start}" x2="{tip}" y1="{y + 5}" y2="{y + 5}"/>',
            f'<path class="tip" d="M{stop},{y + 5}l{-towards * 9},-5v10z"/>',
            _label(step.label, middle, y - 1, abs(stop - start) - 8),
            "</g>",
        ]
    parts = [f'<g class="step {kind}">{title}']
    for lane in lanes or list(columns)[:1]:
        x = columns[lane]
        parts.append(f'<rect x="{x - _LANE / 2 + 3}" y="{y - 10}" width="{_LANE - 6}" height="21" rx="10"/>')
        parts.append(_label(step.label, x, y + 4, _LANE - 12))
    return [*parts, "</g>"]


def _label(text: str, x: float, y: float, room: float) -> str:
    fits = int(max(room, 60) / _CHARACTER)
    shown = text if len(text) <= fits else text[: fits - 1] + "…"
    return f'<text x="{x}" y="{y}" text-anchor="middle">{escape(shown)}</text>'


def _bars(steps: Sequence[Step], columns: dict[str, float], rows: dict[int, float], height: float) -> list[str]:
    """Where a node's log held the offset, and where a node was stopped or cut off.

    What a leader appends there once more is another record: the log of a leader was below the offset before.
    """
    parts = []
    appended = [nth for nth, step in enumerate(steps) if step.kind == "append"]
    another = rows[appended[1]] if len(appended) > 1 else None
    for lane, x in columns.items():
        for from_y, to_y in _spans(_holds(steps, lane), rows, height):
            name = "holds" if another is None or from_y < another else "another"
            parts.append(f'<rect class="{name}" x="{x - 5}" y="{from_y}" width="10" height="{to_y - from_y}"/>')
        for from_y, to_y in _spans(_stopped(steps, lane), rows, height):
            parts.append(f'<line class="stopped" x1="{x}" x2="{x}" y1="{from_y}" y2="{to_y}"/>')
    return parts


def _holds(steps: Sequence[Step], lane: str) -> Iterable[tuple[int, bool]]:
    """(row, whether the lane's log holds the offset from there on)."""
    for nth, step in enumerate(steps):
        if step.kind in ("append", "copy") and lane == (step.to or step.lanes[0]):
            yield nth, True
        elif step.kind == "cut" and lane in step.lanes:
            yield nth, False


def _stopped(steps: Sequence[Step], lane: str) -> Iterable[tuple[int, bool]]:
    for nth, step in enumerate(steps):
        if lane in step.lanes and step.stops:
            yield nth, True
        elif lane in step.lanes and step.kind == "healed":
            yield nth, False


def _spans(changes: Iterable[tuple[int, bool]], rows: dict[int, float], height: float) -> Iterable[tuple[float, float]]:
    since: float | None = None
    for nth, on in changes:
        if on and since is None:
            since = rows[nth]
        elif not on and since is not None:
            yield since, rows[nth]
            since = None
    if since is not None:
        yield since, height
