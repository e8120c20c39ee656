"""What of a partition is left where some of its blocks are open: their records, and the whole of each send that reaches
into one. All else is settled.

Runs in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.columns.numbers import MOST, Mask, Numbers, among
from checkers.settled.blocks import counted, grouped, touch
from checkers.settled.drained import UNREAD
from checkers.settled.loose import LOUD, PLACED, SILENT, Loose
from checkers.settled.marks import Sends
from checkers.settled.scans import BLOCK, SHIFT


@dataclass(frozen=True, slots=True)
class Judged:
    """A partition of which it is known what is open. blocks: all in which there is something, ascending; of each how
    many records were read, and `compared` (`drained.compared`). open: those that are not settled, ascending. denied:
    see `denied.denied`.
    """

    sends: Sends
    loose: Loose
    blocks: Numbers
    returned: Numbers
    compared: Numbers
    open: Numbers
    denied: Mask


@dataclass(frozen=True, slots=True)
class Rest:
    """parts: of every block that has records which are not settled its number, `head` and `tail`: they are those below
    `head`, and from `tail` on. In one that is not open they are of sends that reach into a neighbour that is. loose:
    sends that nothing acknowledged and that are not settled, ascending. whole: which sends of `Judged.sends` are
    settled. counts: see `Settled.counts`, with `returned` instead of `reads`.
    """

    parts: tuple[Numbers, Numbers, Numbers]
    loose: Numbers
    whole: Mask
    counts: Mapping[str, int]


def rest_of(judged: Judged, more: Numbers) -> Rest:
    """more: blocks that are open besides."""
    sends, blocks = judged.sends, np.union1d(judged.open, more)
    touching = touch(blocks, sends.base, sends.last)
    parts = _parts(sends, touching, blocks)
    loud = judged.loose.op[judged.loose.rows(LOUD)]
    of_placed = sends.op[touching & ~sends.acked]
    whole = ~touching
    return Rest(parts, np.union1d(loud, of_placed), whole, _counts(judged, whole, blocks, parts))


def _parts(sends: Sends, touching: Mask, blocks: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    reaching = touching & (sends.base >> SHIFT != sends.last >> SHIFT)
    base, last = sends.base[reaching], sends.last[reaching]
    block, whose = counted(base >> SHIFT, last >> SHIFT)
    base, last, begin = base[whose], last[whose], block << SHIFT
    head = np.where(base <= begin, last + 1, begin)
    tail = np.where(base > begin, base, begin + BLOCK)
    endless = np.full(len(blocks), MOST)
    number, heads, tails = (np.concatenate(pair) for pair in ((blocks, block), (endless, head), (endless, tail)))
    order, starts = grouped(number)
    if not len(starts):
        return number, heads, tails
    return number[order][starts], np.maximum.reduceat(heads[order], starts), np.minimum.reduceat(tails[order], starts)


def _counts(judged: Judged, whole: Mask, blocks: Numbers, parts: tuple[Numbers, Numbers, Numbers]) -> dict[str, int]:
    sends, loose = judged.sends, judged.loose
    n = sends.last - sends.base + 1
    silent = loose.rows(SILENT)
    of_silent = loose.fate == SILENT
    return {
        "acked": int(n[whole & sends.acked].sum()),
        "found": int(n[whole & ~sends.acked].sum()),
        "batches": int(np.count_nonzero(whole & (n > 1))),
        "unknown": int(np.count_nonzero(silent & ~loose.failed)),
        "failed": int(np.count_nonzero(silent & loose.failed)),
        "silent_batches": int(np.count_nonzero(of_silent & (loose.of[loose.starts] > 1))),
        "returned": int(judged.returned.sum()),
        "compared": _compared(judged, blocks, parts),
    }


def _compared(judged: Judged, blocks: Numbers, parts: tuple[Numbers, Numbers, Numbers]) -> int:
    begin = judged.blocks << SHIFT
    number, heads, tails = parts
    beside, at = among(number, judged.blocks)
    at = np.where(beside, at, 0)
    head = np.where(beside, np.append(heads, 0)[at], begin)
    tail = np.where(beside, np.append(tails, 0)[at], begin + BLOCK)
    closed = ~among(blocks, judged.blocks)[0] & (judged.compared != UNREAD)
    return int((np.maximum(tail - head, 0) * judged.compared)[closed].sum())


def placed_sends(loose: Loose) -> Sends:
    """Of sends that nothing acknowledged, those of which all was read where one batch stands."""
    rows = np.flatnonzero(loose.rows(PLACED))
    order, starts = grouped(loose.op[rows])
    rows = rows[order]
    if not len(starts):
        nothing, never = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        return Sends(nothing, nothing, nothing, nothing, nothing, nothing, never, never)
    n, no = len(starts), np.zeros(len(starts), np.bool_)
    return Sends(
        op=loose.op[rows][starts],
        base=np.minimum.reduceat(loose.low[rows], starts),
        last=np.maximum.reduceat(loose.low[rows], starts),
        process=np.zeros(n, np.int64),
        invoke=np.minimum.reduceat(loose.invoke[rows], starts),
        complete=np.full(n, MOST),
        acked=no,
        sentinel=no,
    )
