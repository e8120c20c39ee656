"""Steps of a story as lines on a terminal.

Decides widths and how lines are broken. Must not know where steps come from.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.report.steps import Step

_WIDEST = 120
_NARROWEST = 40
_LANE = 16


def terminal_width() -> int:
    """Columns that are used."""
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))


def steps_told(steps: Sequence[Step], width: int) -> Iterator[str]:
    """Lines of at most `width` characters: time, lanes, sentence."""
    lane = min(max((len(_where(step)) for step in steps), default=0), _LANE)
    for step in steps:
        first = f"{step.at_s:12.3f} s  {_where(step):{lane}} "
        yield from wrapped(step.text, width, " " * (lane + 17), first)


def _where(step: Step) -> str:
    """The column of the diagram that a step is in, or the two that its arrow connects."""
    return f"{step.lanes[0]} > {step.to}" if step.to is not None else ", ".join(step.lanes)


def wrapped(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Nothing that a run recorded may move the terminal's cursor."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return textwrap.wrap(clean, width, initial_indent=indent if first is None else first, subsequent_indent=indent) or [
        ""
    ]
