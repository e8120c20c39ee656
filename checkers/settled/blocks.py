"""Blocks of a log's offsets, and in which of them all agree: what was acknowledged is what was read, whoever read it.

Of one partition; input grain: one row per (block, stretch of a file), of what was sent and of what was read
(`scans.sums`); output grain: one row per block. A block is BLOCK offsets from a multiple of BLOCK on. It *agrees* where
each of its offsets was given to one value, and each of them was read as often as any other of the block, every time
with that value, and intact. That is told by counts and sums of two hashes of (offset, value), 40 bits each: of what was
read as many times those of what was sent as it was read. That sums agree though records do not has a chance of 2**-80
in a block, and no record can know its hashes. Runs in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from checkers.columns.numbers import Mask, Numbers, among, gathered, stretches
from checkers.settled.scans import BLOCK, SHIFT

_MOST_READS = 1 << 16
"""Of one offset; sums stay below 2**63."""
_SUMS = ("n", "unsound", "offsets", "one", "other")
Sums = Mapping[str, Numbers]


def agreeing_blocks(given: Sequence[Sums], returned: Sequence[Sums]) -> tuple[Numbers, Mask, Numbers]:
    """Every block in which something was sent or read, in ascending order; whether it agrees; how many records were
    read.

    given, returned: sums (block, …) of where each value is known to stand, and of what polls returned.
    """
    sent, read = gathered(("block",), given), gathered(("block",), returned)
    blocks = np.union1d(sent["block"], read["block"])
    n, unsound, offsets, one, other = (_at(blocks, sent, name) for name in _SUMS)
    returned_n, returned_unsound, _, returned_one, returned_other = (_at(blocks, read, name) for name in _SUMS)
    times = returned_n // BLOCK
    as_often = (times > 0) & (times <= _MOST_READS) & (times * BLOCK == returned_n)
    # -1 has every bit: no offset was given twice.
    whole = (n == BLOCK) & (offsets == -1) & (unsound == 0)
    times = np.where(as_often & whole, times, 0)
    same = (returned_one == times * one) & (returned_other == times * other)
    return blocks, whole & as_often & (returned_unsound == 0) & same, returned_n


def between(first: Numbers, last: Numbers) -> Numbers:
    """Numbers of the blocks that any of the spans [first, last] of offsets touches, as often as they do."""
    begin, end = first >> SHIFT, last >> SHIFT
    return counted(begin, end)[0]


def counted(first: Numbers, last: Numbers) -> tuple[Numbers, Numbers]:
    """All numbers of each range [first, last], one range after the other, and of which range each is."""
    sizes = np.maximum(last - first + 1, 0)
    whose = np.repeat(np.arange(len(first)), sizes)
    within = np.arange(len(whose)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return first[whose] + within, whose


def is_in(blocks: Numbers, offset: Numbers) -> Mask:
    """Which offsets lie in one of these blocks, which ascend."""
    return among(blocks, offset >> SHIFT)[0]


def touch(blocks: Numbers, first: Numbers, last: Numbers) -> Mask:
    """Which spans [first, last] of offsets reach into one of these blocks, which ascend."""
    return np.searchsorted(blocks, first >> SHIFT) < np.searchsorted(blocks, last >> SHIFT, side="right")


def grouped(*keys: Numbers) -> tuple[Numbers, Numbers]:
    """An order in which rows that are alike stand together, by the first key first; where in it each group begins."""
    order = np.lexsort(keys[::-1])
    return order, stretches(*(key[order] for key in keys))


def _at(blocks: Numbers, sums: Sums, name: str) -> Numbers:
    found = np.zeros(len(blocks), np.int64)
    found[np.searchsorted(blocks, sums["block"])] = sums[name]
    return found
