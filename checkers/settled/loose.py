"""Sends that nothing acknowledged: whether all they sent was read where one batch stands, or none of it.

Of one partition; input grain: a row a value. Runs in Spark's Python workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns.numbers import LEAST, MOST, Mask, Numbers, among, known, numbers, stretches
from checkers.settled.scans import BLOCK, SHIFT

PLACED, SILENT, LOUD = 0, 1, 2
"""Fates of such a send: all of it was read, where one batch stands; nothing was read; else."""


@dataclass(frozen=True, slots=True)
class Loose:
    """Values of such sends, in the order of their `op`: the lowest offset at which each was read (`low`, where `read`),
    whether its send certainly failed, of how many values that is. fate, starts: of each send, and its first row.
    """

    op: Numbers
    value: Numbers
    there: Mask
    invoke: Numbers
    low: Numbers
    read: Mask
    failed: Mask
    of: Numbers
    starts: Numbers
    fate: Numbers

    def rows(self, fate: int) -> Mask:
        """Which values are of sends of this fate."""
        sizes = np.diff(np.append(self.starts, len(self.op)))
        mask: Mask = np.repeat(self.fate == fate, sizes)
        return mask


def crowded(few: Numbers, n: Numbers, bits: Numbers) -> Numbers:
    """Numbers `value >> SHIFT` among whose values one was sent twice, in ascending order. n, bits: of each file."""
    order = np.argsort(few, kind="stable")
    starts = stretches(few[order])
    if not len(starts):
        return few
    sent = np.add.reduceat(n[order], starts)
    which = np.bitwise_or.reduceat(bits[order], starts)
    found: Numbers = few[order][starts][sent != _bits_of(which)]
    return found


def loose_of(values: pa.Table, found: pa.Table, few: Numbers) -> Loose:
    """values: rows of sends without an offset. found: where polls showed such values. few: see `crowded`."""
    op, _ = numbers(_column(values, "op"))
    order = np.argsort(op, kind="stable")
    op = op[order]
    nth, value, of, invoke = (numbers(_column(values, name))[0][order] for name in ("nth", "value", "of", "invoke_ns"))
    there = known(_column(values, "value"))[order]
    outcome = np.array(_column(values, "outcome").cast(pa.string()).to_pylist(), object)[order]
    low, high, read = _read(value, there, found)
    starts = stretches(op)
    if not len(starts):
        return Loose(op, value, there, invoke, low, read, read, of, starts, starts)
    sizes = np.diff(np.append(starts, len(op)))
    unplain = (there & among(few, value >> SHIFT)[0]) | (outcome == "ok")
    n_read = np.add.reduceat(read.astype(np.int64), starts)
    sent = np.maximum.reduceat(of, starts)
    base = np.minimum.reduceat(np.where(read, low - nth, MOST), starts)
    top = np.maximum.reduceat(np.where(read, high - nth, LEAST), starts)
    unknown = np.add.reduceat((outcome == "info").astype(np.int64), starts) == sizes
    plain = np.add.reduceat(unplain.astype(np.int64), starts) == 0
    placed = plain & unknown & (sizes == sent) & (n_read == sent) & (base == top)
    fate = np.where(plain & (n_read == 0), SILENT, np.where(placed, PLACED, LOUD)).astype(np.int64)
    return Loose(op, value, there, invoke, low, read, outcome == "fail", of, starts, fate)


def _read(value: Numbers, there: Mask, found: pa.Table) -> tuple[Numbers, Numbers, Mask]:
    """Of each value the lowest and the highest offset at which it was read, and whether it was."""
    of_found, _ = numbers(_column(found, "value"))
    offset, _ = numbers(_column(found, "offset"))
    order = np.argsort(of_found, kind="stable")
    starts = stretches(of_found[order])
    if not len(starts):
        return np.zeros(len(value), np.int64), np.zeros(len(value), np.int64), np.zeros(len(value), np.bool_)
    lowest, highest = np.minimum.reduceat(offset[order], starts), np.maximum.reduceat(offset[order], starts)
    hit, at = among(of_found[order][starts], value)
    at = np.where(hit, at, 0)
    return lowest[at], highest[at], hit & there


def _bits_of(of: Numbers) -> Numbers:
    """How many bits are set in each number."""
    ones = np.unpackbits(of.view(np.uint8).reshape(-1, BLOCK // 8), axis=1)
    found: Numbers = ones.sum(axis=1, dtype=np.int64)
    return found


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).combine_chunks()
