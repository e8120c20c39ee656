"""A plot of the ratios to Kafka as SVG text; pure.

One bar a quantity that has a target on its ratio, on a logarithmic axis through 1; a tick marks the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.report.metrics import METRICS
from benchmarks.report.summary import Line

_LEFT, _WIDTH, _ROW, _TOP = 470, 420, 20, 40
_DECADES = 1.5
_COLOURS = {True: "#2a7f4f", False: "#b3402e", None: "#888888"}
"""By whether the target is met; None where it is not judged."""


def svg(lines: Sequence[Line]) -> str:
    """The whole file."""
    shown = [line for line in lines if line.ratio is not None and line.target is not None and line.target.of == "ratio"]
    height = _TOP + _ROW * len(shown) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 80}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="16" font-size="13">highwater / Apache Kafka; the mark is what is to be reached</text>',
    ]
    for value in (0.05, 0.1, 0.33, 1, 2, 5, 10, 20):
        x = position(value)
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{height - 22}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="#555">{value:g}</text>')
    for index, line in enumerate(shown):
        parts += _bar(line, _TOP + index * _ROW)
    parts.append("</svg>\n")
    return "\n".join(parts)


def position(ratio: float) -> float:
    """x of a ratio; those beyond the axis stand at its ends."""
    exponent = max(-_DECADES, min(_DECADES, math.log10(ratio) if ratio > 0 else -_DECADES))
    return _LEFT + _WIDTH * (exponent + _DECADES) / (2 * _DECADES)


def _bar(line: Line, y: int) -> list[str]:
    assert line.ratio is not None
    assert line.target is not None
    from_x, to_x = sorted((position(1), position(line.ratio)))
    mark = position(line.target.limit)
    label = escape(f"{line.row}: {METRICS[line.metric].label}")
    return [
        f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{label}</text>',
        f'<rect x="{from_x:.1f}" y="{y + 3}" width="{max(to_x - from_x, 1):.1f}" height="{_ROW - 8}" '
        f'fill="{_COLOURS[line.met]}"/>',
        f'<line x1="{mark:.1f}" y1="{y}" x2="{mark:.1f}" y2="{y + _ROW - 2}" stroke="black" stroke-width="2"/>',
        f'<text x="{_LEFT + _WIDTH + 8}" y="{y + 12}">{line.ratio:.2f}</text>',
    ]
