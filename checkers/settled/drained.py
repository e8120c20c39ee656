"""Blocks that drains read: those that came to their end have to have read all of it.

Of one partition. Runs in Spark's Python workers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from checkers.columns.numbers import Mask, Numbers
from checkers.settled.blocks import grouped
from checkers.settled.marks import Answers
from checkers.settled.scans import BLOCK, SHIFT

UNREAD = -1
Turn = tuple[str | None, str | None, str | None]
"""Phase, leader, reader of a drain."""


def compared(answers: Answers, finished: Sequence[Turn], blocks: Numbers) -> Numbers:
    """Of each block from how many leaders, and in how many rounds, both readers' drains read all of it; UNREAD where a
    drain read some of it, or one that came to its end did not read it. finished: drains that did. blocks: ascending.
    """
    islands = _islands(answers)
    for turn in finished:
        islands.setdefault(turn, (blocks[:0], blocks[:0]))
    done = set(finished)
    # Of a drain that is not all known nobody can say what it read.
    doubtful = np.full(len(blocks), any(None in turn for turn in finished))
    begin = blocks << SHIFT
    last = begin + BLOCK - 1
    whole_by: dict[Turn, Mask] = defaultdict(lambda: np.zeros(len(blocks), np.bool_))
    for turn, (starts, ends) in islands.items():
        at = np.searchsorted(starts, begin, side="right") - 1
        whole = (at >= 0) & (np.append(ends, 0)[at] > last)
        some = np.searchsorted(starts, last, side="right") > np.searchsorted(ends, begin, side="right")
        doubtful |= ~whole & (some | (turn in done))
        whole_by[turn] |= whole
    rounds = {(phase, leader) for phase, leader, _ in islands}
    both = [whole_by[*turn, "wire"] & whole_by[*turn, "confluent"] for turn in rounds]
    n = np.sum(both, axis=0, dtype=np.int64) if both else np.zeros(len(blocks), np.int64)
    return np.where(doubtful, UNREAD, n)


def _islands(answers: Answers) -> dict[Turn, tuple[Numbers, Numbers]]:
    """Of each turn the disjoint ranges [start, end) that its polls passed over, in ascending order.

    As `checkers.black_box.lost.covered_ranges`.
    """
    drains = np.flatnonzero(answers.text("phase") >= 0)
    if not len(drains):
        return {}
    texts = [answers.text(name)[drains] for name in ("phase", "leader", "reader")]
    position, further = (answers.of(name)[0][drains] for name in ("position", "next"))
    order, starts = grouped(*texts)
    found = {}
    for first, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = order[first:end]
        rows = rows[np.lexsort((further[rows], position[rows]))]
        reached = np.maximum.accumulate(further[rows])
        opens = np.flatnonzero(np.append(True, position[rows][1:] > reached[:-1]))
        ends = np.append(reached[opens[1:] - 1], reached[-1])
        phase, leader, reader = (
            answers.name_of(name, int(text[rows[0]]))
            for name, text in zip(("phase", "leader", "reader"), texts, strict=True)
        )
        found[phase, leader, reader] = position[rows][opens], ends
    return found
