"""Blocks that are not settled though all agree in them: what orders, times, polls or drains say is not said by records.

Of one partition; each function gives numbers of blocks, not distinct, and marks what one kind of rule may name, or
needs to see: where a rule compares a record with the earliest, or highest, of many, both are marked. Too many marks
cost time alone. Runs in Spark's Python workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from checkers.columns.numbers import LEAST, MOST, Mask, Numbers, numbers
from checkers.settled.answers import FULL, OK, PLAIN, POLL
from checkers.settled.blocks import between, counted, is_in
from checkers.settled.scans import BLOCK, SHIFT

MOST_BLOCKS = 1024
"""That are counted off in one span of an answer; of wider ones those are marked in which there is something."""


@dataclass(frozen=True, slots=True)
class Sends:
    """Sends that stand at [base, last]: acknowledged, or read though nothing acknowledged them; of these `complete` is
    MOST.
    """

    op: Numbers
    base: Numbers
    last: Numbers
    process: Numbers
    invoke: Numbers
    complete: Numbers
    acked: Mask
    sentinel: Mask


@dataclass(frozen=True, slots=True)
class Answers:
    """Columns of `answers.answers_of`, each with where it is known; texts as numbers, -1 for none."""

    rows: pa.Table

    def of(self, name: str) -> tuple[Numbers, Mask]:
        return numbers(self.rows.column(name).combine_chunks())

    def is_kind(self, bits: int) -> Mask:
        mask: Mask = (self.of("kind")[0] & bits) == bits
        return mask

    def text(self, name: str) -> Numbers:
        found: Numbers = self.rows.column(name).combine_chunks().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return found.astype(np.int64)

    def name_of(self, name: str, number: int) -> str | None:
        """The text that a number of `text` stands for."""
        return self.rows.column(name).combine_chunks().dictionary[number].as_py() if number >= 0 else None

    def least(self, *names: str) -> tuple[Numbers, Mask]:
        """Of each row the least of what is known of these."""
        columns = [self.of(name) for name in names]
        return np.minimum.reduce([np.where(there, one, MOST) for one, there in columns]), self._any(columns)

    def most(self, *names: str) -> Numbers:
        """Of each row the greatest of what is known of these."""
        found: Numbers = np.maximum.reduce([np.where(there, one, LEAST) for one, there in map(self.of, names)])
        return found

    @staticmethod
    def _any(columns: list[tuple[Numbers, Mask]]) -> Mask:
        mask: Mask = np.logical_or.reduce([there for _, there in columns])
        return mask


def spans(first: Numbers, last: Numbers, blocks: Numbers) -> Numbers:
    """As `between`, of spans as wide as an answer may say. blocks: all in which there is something.

    From the first to the last offset of the wide spans all is marked.
    """
    begin, end = first >> SHIFT, last >> SHIFT
    wide = end - begin >= MOST_BLOCKS
    narrow = counted(begin[~wide], end[~wide])[0]
    if not wide.any():
        return narrow
    hull = (blocks >= begin[wide].min()) & (blocks <= end[wide].max())
    return np.concatenate([narrow, blocks[hull]])


@dataclass(frozen=True, slots=True)
class Late:
    """Sends that were begun after something above them was there, or was told, or after they were read themselves."""

    base: Numbers
    last: Numbers
    invoke: Numbers


def earliest(at: Numbers, there: Numbers, asked: Numbers, side: Literal["left", "right"]) -> Numbers:
    """Of each offset that is asked for, when something at it (side: left) or only above it (right) was there first;
    MOST for never.
    """
    order = np.argsort(at, kind="stable")
    first = np.append(np.minimum.accumulate(there[order][::-1])[::-1], MOST)
    found: Numbers = first[np.searchsorted(at[order], asked, side=side)]
    return found


def late_sends(sends: Sends, loud: Late, answers: Answers) -> Late:
    """What was sent where all goes well is never late. loud: values read of sends of which not all is plain.

    An answer that returned records shows that the last of them is there; one that tells an end, all below it.
    """
    complete, over = answers.of("complete")
    (last, read), (told, tells) = answers.of("last"), answers.of("told")
    read = read & over & answers.is_kind(POLL | OK)
    tells = tells & over
    at = np.concatenate([sends.base, last[read], told[tells] - 1])
    there = np.concatenate([sends.complete, complete[read], complete[tells]])
    base = np.concatenate([sends.base, loud.base])
    lasts = np.concatenate([sends.last, loud.last])
    invoke = np.concatenate([sends.invoke, loud.invoke])
    late = earliest(at, there, base, "left") < invoke
    return Late(base[late], lasts[late], invoke[late])


def out_of_time(sends: Sends, answers: Answers, late: Late, opened: Numbers) -> Numbers:
    """Late sends, and the earliest records above each.

    opened: what other functions mark, ascending. Records in the others are what they seem, and only they are looked at
    for the earliest: an end that was told, a value that stands elsewhere as well, or a send whose offset another one
    has too, which may all be earlier, hide none. An earlier record in `opened` is judged anyway.
    """
    if not len(late.base):
        return late.base
    until = late.invoke.max()
    acked = sends.acked & (sends.complete < until) & ~is_in(opened, sends.base)
    complete, over = answers.of("complete")
    (first, begins), (last, ends) = answers.of("first"), answers.of("last")
    read = answers.is_kind(POLL | OK | PLAIN | FULL) & over & begins & ends & (complete < until)
    # The last record of a poll in each of its blocks.
    block, whose = counted(first[read] >> SHIFT, last[read] >> SHIFT)
    shown_ns, end = complete[read][whose], np.minimum(last[read][whose], (block << SHIFT) + BLOCK - 1)
    plain = ~is_in(opened, block << SHIFT)
    block, shown_ns, end = block[plain], shown_ns[plain], end[plain]
    at = np.concatenate([sends.base[acked], end])
    there = np.concatenate([sends.complete[acked], shown_ns])
    above = earliest(at, there, late.last, "right")
    by = np.unique(above[above < late.invoke])
    of_acked = np.flatnonzero(acked)[np.isin(sends.complete[acked], by)]
    return np.concatenate(
        [
            between(late.base, late.last),
            between(sends.base[of_acked], sends.last[of_acked]),
            block[np.isin(shown_ns, by)],
        ]
    )


def out_of_order(sends: Sends, twice: Numbers) -> Numbers:
    """Acknowledged sends of a process with an offset that is not above all that had been acknowledged to it before, and
    the highest of those. twice: blocks with a value that was sent twice: of that one acknowledgement counts.

    Only processes of which some send stands below the one that was begun before it can have any.
    """
    acked = np.flatnonzero(sends.acked)
    order = acked[np.lexsort((sends.op[acked], sends.invoke[acked], sends.process[acked]))]
    process, base, last = sends.process[order], sends.base[order], sends.last[order]
    down = (process[1:] == process[:-1]) & (last[:-1] >= base[1:])
    theirs = order[np.isin(process, np.unique(process[1:][down]))]
    if not len(theirs):
        return theirs
    n = len(theirs)
    # Of one instant what begins comes first: it was not begun after the other.
    whose, is_end = np.concatenate([theirs, theirs]), np.repeat((0, 1), n)
    at = np.concatenate([sends.invoke[theirs], sends.complete[theirs]])
    order = np.lexsort((is_end, at, sends.process[whose]))
    whose, ends = whose[order], is_end[order].astype(bool)
    of_process = np.cumsum(np.append(True, sends.process[whose][1:] != sends.process[whose][:-1])) - 1
    surely = ends & ~is_in(twice, sends.last[whose])
    previous = _running(np.where(ends, sends.last[whose], LEAST), of_process)
    sure = _running(np.where(surely, sends.last[whose], LEAST), of_process)
    back = ~ends & (previous > LEAST) & (previous >= sends.base[whose])
    known = sure[back & (sure > LEAST)]
    return np.concatenate([between(sends.base[whose[back]], sends.last[whose[back]]), known >> SHIFT])


def _running(of: Numbers, group: Numbers) -> Numbers:
    """The highest so far, within each group; groups are 0, 1, … one after the other."""
    rank = np.argsort(np.argsort(of, kind="stable"), kind="stable") + group * len(of)
    order = np.argsort(of, kind="stable")
    found: Numbers = of[order][np.maximum.accumulate(rank) - group * len(of)]
    return found


def odd_polls(answers: Answers, blocks: Numbers) -> Numbers:
    """What polls went over that did not return all offsets from their position to their next one, once and in order.

    blocks: see `spans`.
    """
    known = ("position", "next", "first", "last")
    first, there = answers.least(*known)
    odd = answers.is_kind(POLL | OK) & ~answers.is_kind(PLAIN) & there
    return spans(first[odd], answers.most(*known)[odd], blocks)


def jumped_over(answers: Answers, blocks: Numbers) -> Numbers:
    """What lies between where a client's last poll ended and where it says that it goes on, further up.

    blocks: see `spans`.
    """
    polls = np.flatnonzero(answers.is_kind(POLL))
    order = polls[np.lexsort((answers.of("op")[0][polls], answers.text("consumer")[polls]))]
    consumer = answers.text("consumer")[order]
    (ends, there), (own, says) = answers.of("next"), answers.of("own")
    ok = answers.is_kind(OK)[order]
    begins = np.append(True, consumer[1:] != consumer[:-1])[: len(order)]
    own, says, ends, there = own[order], says[order], ends[order], there[order]
    # Of each poll the last before it that was answered, of the same consumer.
    at = np.arange(len(order))
    last = np.maximum.accumulate(np.where(ok & there, at, -1)) if len(order) else at
    before = np.append(-1, last[:-1])[: len(order)]
    mine = before >= np.maximum.accumulate(np.where(begins, at, 0)) if len(order) else before >= 0
    jumped = ok & says & mine & (own > ends[np.maximum(before, 0)])
    return spans(ends[before[jumped]], own[jumped] - 1, blocks)


def bounds(sends: Sends, twice: Numbers) -> Numbers:
    """The first acknowledged record, and sentinels: drains are held against them.

    twice: blocks with a value that was sent twice: of that one acknowledgement counts.
    """
    marked = sends.acked & sends.sentinel
    sure = sends.acked & ~is_in(twice, sends.base)
    least = sends.base[sure].min(keepdims=True) if sure.any() else sends.base[:0]
    return np.concatenate([between(sends.base[marked], sends.last[marked]), least >> SHIFT])
