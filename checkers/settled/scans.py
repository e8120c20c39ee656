"""What workers make of the long tables: of sends and polls sums by blocks, and what stands out; then what is left.

Pure but for reading the file that they are given. One object a pass; `passes` says what comes of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.columns.numbers import Mask, Names, Numbers, folded, gathered, numbers, stretches, table, true
from checkers.columns.work import File, Shared
from checkers.settled.hashed import hashes

SHIFT = 6
BLOCK = 1 << SHIFT
NEVER = ("txn", "producer_id", "sequence", "resends")
"""Columns of sends of which nothing is known where records are settled."""
KEYS = ("p", "block")
Values = Mapping[str, Numbers]
Parts = Mapping[str, Sequence[Numbers]]
LEAST, MOST = np.int64(-(1 << 63)), np.int64((1 << 63) - 1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def sums(p: Numbers, offset: Numbers, value: Numbers, sound: Mask) -> dict[str, Numbers]:
    """By (p, block) of rows next to each other: how many they are (`n`), how many not sound (`unsound`), at which of a
    block's offsets (`offsets`, a bit each), and sums of two hashes of offset and value (`one`, `other`).
    """
    one, other = hashes(offset, value)
    return folded(
        KEYS,
        {
            "p": p,
            "block": offset >> SHIFT,
            "n": np.ones(len(p), np.int64),
            "unsound": (~sound).astype(np.int64),
            "offsets": np.int64(1) << (offset & (BLOCK - 1)),
            "one": one,
            "other": other,
        },
    )


@dataclass(frozen=True, slots=True)
class Sent:
    """Of sends: `given`, see `sums`; `few`, numbers `value >> SHIFT` with how many values were sent (`n`) and which
    (`bits`); `unacknowledged`, rows without an offset, with all columns; `odd`, how many rows are not plain, and how
    many are unacknowledged (`loose`).
    """

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        names, outcomes = Names(), Names()
        given: list[dict[str, Numbers]] = []
        few: list[dict[str, Numbers]] = []
        loose: list[Mask] = []
        odd = 0
        for piece in file.pieces(("p", "offset", "value", "outcome", "acks", "in_order", *NEVER)):
            p = names.of(piece.column("p"))
            offset, placed = numbers(piece.column("offset"))
            value, there = numbers(piece.column("value"))
            acks, _ = numbers(piece.column("acks"))
            ok = outcomes.of(piece.column("outcome")) == outcomes.number("ok")
            odd += _count((placed & (offset < 0)) | (ok & ~placed) | (acks != -1) | true(piece.column("in_order")))
            odd += sum(piece.num_rows - piece.column(name).null_count for name in NEVER)
            loose.append(~placed)
            given.append(sums(p[placed], offset[placed], value[placed], there[placed]))
            few.append(_bits(value[there]))
        if not given:
            return {}
        return {
            "given": _by_name(gathered(KEYS, given), names),
            "few": table(gathered(("few",), few)),
            "unacknowledged": file.chosen(loose),
            "odd": table({"odd": np.array([odd]), "loose": np.array([sum(map(_count, loose))])}),
        }


@dataclass(frozen=True, slots=True)
class Placed:
    """Of values that nothing acknowledged, `given` as of those that something did, where the whole send was read."""

    fate: str

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        names, fates = Names(), Names()
        given: list[dict[str, Numbers]] = []
        for piece in file.pieces(("p", "low", "value", "fate")):
            here = fates.of(piece.column("fate")) == fates.number(self.fate)
            p, (low, _) = names.of(piece.column("p")), numbers(piece.column("low"))
            value, there = numbers(piece.column("value"))
            given.append(sums(p[here], low[here], value[here], there[here]))
        return {"given": _by_name(gathered(KEYS, given), names)} if given else {}


@dataclass(frozen=True, slots=True)
class Returned:
    """Of polls: `returned`, see `sums`; `found`, rows (p, value, offset) with a value of these; `odd`, how many rows
    have no offset. values: partition → values in ascending order.
    """

    values: Shared[Values]

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        names = Names()
        wanted = _Wanted(self.values.value, names)
        returned: list[dict[str, Numbers]] = []
        found: list[dict[str, Numbers]] = []
        odd = 0
        for piece in file.pieces(("p", "offset", "value", "intact")):
            p = names.of(piece.column("p"))
            offset, placed = numbers(piece.column("offset"))
            value, there = numbers(piece.column("value"))
            odd += _count(~placed)
            returned.append(sums(p, offset, value, there & true(piece.column("intact"))))
            rows = wanted.rows(p, value, there)
            found.append({"p": p[rows], "value": value[rows], "offset": offset[rows]})
        if not returned:
            return {}
        return {
            "returned": _by_name(gathered(KEYS, returned), names),
            "found": _by_name({name: np.concatenate([part[name] for part in found]) for name in found[0]}, names),
            "odd": table({"odd": np.array([odd])}),
        }


@dataclass(frozen=True, slots=True)
class Left:
    """`left`: rows at offsets that are not settled, with all columns. parts: partition → numbers of blocks in ascending
    order, and of each where its settled offsets begin and end (`parts_of`).
    """

    parts: Shared[Parts]

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        names, parts = Names(), self.parts.value
        least, most = file.bounds("offset")
        if not any(_any_between(blocks, least >> SHIFT, most >> SHIFT) for blocks, *_ in parts.values()):
            return {}
        masks: list[Mask] = []
        for piece in file.pieces(("p", "offset")):
            p, (offset, placed) = names.of(piece.column("p")), numbers(piece.column("offset"))
            block = offset >> SHIFT
            starts = stretches(p, block)
            # Nothing of a block without parts is left.
            parted = np.zeros(len(starts), np.bool_)
            head, tail = np.full(len(starts), LEAST), np.full(len(starts), MOST)
            for number in np.unique(p[starts]):
                blocks, heads, tails = parts.get(names[number] or "", (starts[:0],) * 3)
                here = np.flatnonzero(p[starts] == number)
                hit, at = _among(blocks, block[starts][here])
                parted[here[hit]] = True
                head[here[hit]], tail[here[hit]] = heads[at[hit]], tails[at[hit]]
            rows = np.diff(np.append(starts, len(offset)))
            outside = (offset < np.repeat(head, rows)) | (offset >= np.repeat(tail, rows))
            masks.append(placed & np.repeat(parted, rows) & outside)
        return {"left": file.chosen(masks)} if any(mask.any() for mask in masks) else {}


class _Wanted:
    """Values that are looked for in rows. Most rows have none of them, which one look into a table of truths tells."""

    def __init__(self, values: Values, names: Names) -> None:
        self._values = {names.number(name): of_p for name, of_p in values.items()}
        every = sum(map(len, values.values()))
        self._shift = np.uint64(64 - min(25, max(10, every.bit_length() + 4)))
        self._near = np.zeros(1 << int(np.uint64(64) - self._shift), np.bool_)
        for of_p in values.values():
            self._near[self._place(of_p)] = True

    def _place(self, values: Numbers) -> npt.NDArray[np.uint64]:
        return (values.view(np.uint64) * _SPREAD) >> self._shift

    def rows(self, p: Numbers, value: Numbers, there: Mask) -> Numbers:
        """Of which rows the value is one of those of its partition."""
        near = np.flatnonzero(self._near[self._place(value)] & there)
        found = np.zeros(len(near), np.bool_)
        for number in np.unique(p[near]):
            here = np.flatnonzero(p[near] == number)
            found[here] = _among(self._values.get(int(number), value[:0]), value[near[here]])[0]
        return near[found]


def _bits(value: Numbers) -> dict[str, Numbers]:
    n = np.ones(len(value), np.int64)
    return folded(("few",), {"few": value >> SHIFT, "n": n, "bits": np.int64(1) << (value & (BLOCK - 1))})


def _among(ascending: Numbers, wanted: Numbers) -> tuple[Mask, npt.NDArray[np.intp]]:
    """Which numbers are among these, and where."""
    at = np.searchsorted(ascending, wanted)
    there = at < len(ascending)
    there[there] = ascending[at[there]] == wanted[there]
    return there, at


def _any_between(ascending: Numbers, least: int, most: int) -> bool:
    return bool(np.searchsorted(ascending, least) < np.searchsorted(ascending, most, side="right"))


def _by_name(columns: Mapping[str, Numbers], names: Names) -> pa.Table:
    return table({**columns, "p": names.texts(columns["p"])})


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
