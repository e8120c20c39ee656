"""What workers leave of the long tables: records in some parts of the log, and what some sends sent.

Pure but for reading the file that they are given. One object a pass; `passes` says what comes of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns.numbers import LEAST, MOST, Mask, Names, Numbers, among, any_between, numbers, stretches
from checkers.columns.work import File, Shared
from checkers.settled.scans import SHIFT

Parts = Mapping[str, Sequence[Numbers]]
"""Partition → numbers of blocks in ascending order, and of each where its settled offsets begin and end: `head`, and
`tail`, which is the first behind them.
"""


@dataclass(frozen=True, slots=True)
class Left:
    """`left`: rows at offsets that are not settled by these parts, with all columns; without those that were not by
    `before` either.
    """

    parts: Shared[Parts]
    before: Shared[Parts] | None = None

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        names, parts = Names(), self.parts.value
        least, most = file.bounds("offset")
        if not any(any_between(blocks, least >> SHIFT, most >> SHIFT) for blocks, *_ in parts.values()):
            return {}
        masks: list[Mask] = []
        for piece in file.pieces(("p", "offset")):
            p, (offset, placed) = names.of(piece.column("p")), numbers(piece.column("offset"))
            mask = placed & _outside(names, parts, p, offset)
            if self.before is not None:
                mask &= ~_outside(names, self.before.value, p, offset)
            masks.append(mask)
        return {"left": file.chosen(masks)} if any(mask.any() for mask in masks) else {}


@dataclass(frozen=True, slots=True)
class OfOperations:
    """`left`: rows of these sends. ops: partition → their numbers in ascending order."""

    ops: Shared[Mapping[str, Numbers]]

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        names, masks = Names(), []
        for piece in file.pieces(("p", "op")):
            p, (op, _) = names.of(piece.column("p")), numbers(piece.column("op"))
            mask = np.zeros(len(op), np.bool_)
            for number in np.unique(p):
                here = np.flatnonzero(p == number)
                mask[here] = among(self.ops.value.get(names[number] or "", op[:0]), op[here])[0]
            masks.append(mask)
        return {"left": file.chosen(masks)} if any(mask.any() for mask in masks) else {}


def _outside(names: Names, parts: Parts, p: Numbers, offset: Numbers) -> Mask:
    """Which rows lie in a part, and there below its head or from its tail on. Nothing lies in a block without parts."""
    block = offset >> SHIFT
    starts = stretches(p, block)
    parted = np.zeros(len(starts), np.bool_)
    head, tail = np.full(len(starts), LEAST), np.full(len(starts), MOST)
    for number in np.unique(p[starts]):
        blocks, heads, tails = parts.get(names[number] or "", (starts[:0],) * 3)
        here = np.flatnonzero(p[starts] == number)
        hit, at = among(blocks, block[starts][here])
        parted[here[hit]] = True
        head[here[hit]], tail[here[hit]] = heads[at[hit]], tails[at[hit]]
    rows = np.diff(np.append(starts, len(offset)))
    outside: Mask = (offset < np.repeat(head, rows)) | (offset >= np.repeat(tail, rows))
    return outside & np.repeat(parted, rows)
