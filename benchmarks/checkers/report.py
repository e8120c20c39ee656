"""Table and plots of what was measured; pure. Results come in as rows, text goes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.checkers.fit import beyond_fixed, slope

CHECKERS, LINES, DUCKDB = "checkers, tables", "checkers, JSON lines", "DuckDB, tables"
"""Who judged which form of a history."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One history, judged once. size: micro-operations. planted, found: findings; wrong: those that lack, or that
    nothing was planted for. load: average of the machine over a minute when it was over. problem: why there is no
    judgement.
    """

    judge: str
    size: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    start_s: float
    planted: int
    found: int
    wrong: Sequence[str]
    load: float
    problem: str | None = None

    @property
    def right(self) -> bool:
        return self.problem is None and not self.wrong


def table(rows: Sequence[Measured], head: Sequence[str]) -> str:
    """The Markdown file."""
    lines = [
        "# The checkers at size",
        "",
        *head,
        "",
        "| judge | micro-operations | wall s | of it start | CPU s | per s of wall | peak MB | findings | load |",
        "|---|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    for row in rows:
        found = f"{row.found} of {row.planted}" if row.right else f"**wrong: {_wrong(row)}**"
        lines.append(
            f"| {row.judge} | {row.size:,} | {row.wall_s:.1f} | {row.start_s:.1f} | {row.cpu_s:.1f} | "
            f"{row.size / row.wall_s:,.0f} | {row.peak_bytes / 1e6:,.0f} | {found} | {row.load:.1f} |"
        )
    lines += [
        "",
        "Growth: the slope of a line through the logarithms (1: linear), and what a micro-operation more takes, "
        "between the two largest sizes.",
        "",
        "| judge | wall | CPU | peak memory | CPU µs a micro-operation | bytes a micro-operation |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for judge, mine in _by_judge(rows):
        wall, cpu, memory = ([(row.size, of(row)) for row in mine] for of in (_wall, _cpu, _memory))
        more_cpu, more_memory = beyond_fixed(cpu), beyond_fixed(memory)
        cells = [_number(slope(wall)), _number(slope(cpu)), _number(slope(memory))]
        cells += [_number(more_cpu and more_cpu * 1e6), _number(more_memory)]
        lines.append(f"| {judge} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _wrong(row: Measured) -> str:
    return row.problem or f"{len(row.wrong)}: {'; '.join(row.wrong[:3])}"


def _wall(row: Measured) -> float:
    return row.wall_s


def _cpu(row: Measured) -> float:
    return row.cpu_s


def _memory(row: Measured) -> float:
    return float(row.peak_bytes)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _by_judge(rows: Sequence[Measured]) -> list[tuple[str, list[Measured]]]:
    names = list(dict.fromkeys(row.judge for row in rows))
    judged = [(name, [row for row in rows if row.judge == name and row.problem is None]) for name in names]
    return [(name, mine) for name, mine in judged if mine]


_COLOURS = {CHECKERS: "#2a7f4f", LINES: "#3b6fb3", DUCKDB: "#b3402e"}
_LEFT, _TOP, _WIDTH, _HEIGHT = 70, 40, 300, 240
_GAP = 90


def svg(rows: Sequence[Measured]) -> str:
    """Wall time, CPU time and peak memory over the size, each on logarithmic axes."""
    panels = [("wall time, s", _wall, 1.0), ("CPU time, s", _cpu, 1.0), ("peak memory, MB", _memory, 1e-6)]
    width, height = len(panels) * (_WIDTH + _GAP) + _LEFT, _TOP + _HEIGHT + 70
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    judges = _by_judge(rows)
    for nth, (title, of, unit) in enumerate(panels):
        series = [(name, [(row.size, of(row) * unit) for row in mine]) for name, mine in judges]
        parts += _panel(title, series, _LEFT + nth * (_WIDTH + _GAP))
    for nth, (name, _) in enumerate(judges):
        x = _LEFT + nth * 200
        parts.append(f'<rect x="{x}" y="{height - 22}" width="12" height="12" fill="{_COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 18}" y="{height - 12}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]], left: float) -> list[str]:
    sizes = [size for _, points in series for size, _ in points]
    heights = [value for _, points in series for _, value in points if value > 0]
    parts = [f'<text x="{left}" y="{_TOP - 16}" font-size="13">{title}</text>']
    if not heights:
        return parts
    x_from, x_to = _decades(sizes)
    y_from, y_to = _decades(heights)

    def x_of(size: float) -> float:
        return left + _WIDTH * (math.log10(size) - x_from) / (x_to - x_from)

    def y_of(value: float) -> float:
        return _TOP + _HEIGHT * (1 - (math.log10(max(value, 10**y_from)) - y_from) / (y_to - y_from))

    for power in range(x_from, x_to + 1):
        x = x_of(10**power)
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_TOP + _HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">10^{power}</text>')
    for power in range(y_from, y_to + 1):
        y = y_of(10**power)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + _WIDTH}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10**power:g}</text>')
    for name, points in series:
        places = [(x_of(size), y_of(value)) for size, value in sorted(points)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{_COLOURS[name]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_COLOURS[name]}"/>' for x, y in places]
    return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around these values, at least one apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)
