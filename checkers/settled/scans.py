"""What workers make of the long tables: of sends and polls sums by blocks, and what stands out; then what is left.

Pure but for reading the file that they are given. One object a pass; `passes` says what comes of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.columns.numbers import (
    LEAST,
    MOST,
    Mask,
    Names,
    Numbers,
    among,
    any_between,
    folded,
    gathered,
    numbers,
    table,
    true,
)
from checkers.columns.work import File, Shared
from checkers.settled.hashed import hashes

SHIFT = 6
BLOCK = 1 << SHIFT
NEVER = ("txn", "producer_id", "sequence", "resends")
"""Columns of sends of which nothing is known where records are settled."""
KEYS = ("p", "block")
FEW = ("p", "few")
Values = Mapping[str, Numbers]
_TIMES = ("invoke_ns", "complete_ns")
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
    """Of sends: `given`, see `sums`; `few`, by partition numbers `value >> SHIFT` with how many values were sent (`n`)
    and which (`bits`); `unacknowledged`, rows without an offset, with all columns; `odd`, how many rows are not plain,
    and how many are unacknowledged (`loose`).
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
            few.append(_bits(p[there], value[there]))
        if not given:
            return {}
        return {
            "given": _by_name(gathered(KEYS, given), names),
            "few": _by_name(gathered(FEW, few), names),
            "unacknowledged": file.chosen(loose),
            "odd": table({"odd": np.array([odd]), "loose": np.array([sum(map(_count, loose))])}),
        }


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
class Operations:
    """Of operations: `acked`, sends with an offset, each with all that is asked of it later; `load`, how many were sent
    in the main phase (`sends`), from when to when, and how many acknowledgements are of nothing, or have no time
    (`odd`).
    """

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        names, nodes, fs, outcomes, phases = (Names() for _ in range(5))
        acked: list[dict[str, Numbers]] = []
        load: list[dict[str, Numbers]] = []
        columns = (
            "p",
            "f",
            "outcome",
            "phase",
            "node",
            "op",
            "base_offset",
            "n_values",
            *_TIMES,
            "process",
            "sentinel",
        )
        for piece in file.pieces(columns):
            sends = fs.of(piece.column("f")) == fs.number("send")
            ok = outcomes.of(piece.column("outcome")) == outcomes.number("ok")
            main = phases.of(piece.column("phase")) == phases.number("main")
            base, placed = numbers(piece.column("base_offset"))
            several, _ = numbers(piece.column("n_values"))
            (invoke, begun), (complete, over) = (numbers(piece.column(name)) for name in _TIMES)
            process, named = numbers(piece.column("process"))
            p, node = names.of(piece.column("p")), nodes.of(piece.column("node"))
            answered = sends & ok & placed
            there, odd = answered & (several > 0), answered & ~(begun & over & (several > 0))
            own = {"p": p, "op": numbers(piece.column("op"))[0], "base": base, "last": base + several - 1}
            own |= {"process": np.where(named, process, LEAST), "invoke": invoke, "complete": complete, "node": node}
            own |= {"sentinel": true(piece.column("sentinel")).astype(np.int64), "main": main.astype(np.int64)}
            acked.append({name: column[there] for name, column in own.items()})
            mine = sends & main
            first, last = np.where(begun, invoke, MOST), np.where(over, complete, np.where(begun, invoke, LEAST))
            of_load = {"p": p, "sends": mine.astype(np.int64), "begin": np.where(mine, first, MOST)}
            of_load |= {"end": np.where(mine, last, LEAST), "odd": odd.astype(np.int64)}
            load.append(gathered(("p",), [of_load]))
        if not acked:
            return {}
        whole = {name: np.concatenate([part[name] for part in acked]) for name in acked[0]}
        rows = {**whole, "p": names.texts(whole["p"]), "node": nodes.texts(whole["node"])}
        return {"acked": table(rows), "load": _by_name(gathered(("p",), load), names)}


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of a table's rows, as a table of that name. texts: those of them that are no numbers."""

    name: str
    columns: Sequence[str]
    texts: Sequence[str] = ("p",)

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        pieces = [
            [
                column.cast(pa.string()) if name in self.texts else column.cast(pa.int64())
                for name, column in zip(self.columns, piece.columns, strict=True)
            ]
            for piece in file.pieces(self.columns)
        ]
        if not pieces:
            return {}
        batches = [pa.RecordBatch.from_arrays(one, names=list(self.columns)) for one in pieces]
        return {self.name: pa.Table.from_batches(batches)}


@dataclass(frozen=True, slots=True)
class Homes:
    """`homes`: rows (p, value, offset) of what was acknowledged with one of these values, or with one of these numbers
    `value >> SHIFT` where `shift` is that. wanted: partition → such numbers in ascending order.
    """

    wanted: Shared[Values]
    shift: int = 0

    def __call__(self, file: File) -> Mapping[str, pa.Table]:
        least, most = file.bounds("value")
        if not any(any_between(of_p, least >> self.shift, most >> self.shift) for of_p in self.wanted.value.values()):
            return {}
        names, found = Names(), []
        wanted = _Wanted(self.wanted.value, names)
        for piece in file.pieces(("p", "offset", "value")):
            p, (offset, placed) = names.of(piece.column("p")), numbers(piece.column("offset"))
            value, there = numbers(piece.column("value"))
            rows = wanted.rows(p, value >> self.shift, there & placed)
            found.append({"p": p[rows], "value": value[rows], "offset": offset[rows]})
        whole = {name: np.concatenate([part[name] for part in found]) for name in ("p", "value", "offset")}
        return {"homes": _by_name(whole, names)}


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
            found[here] = among(self._values.get(int(number), value[:0]), value[near[here]])[0]
        return near[found]


def _bits(p: Numbers, value: Numbers) -> dict[str, Numbers]:
    n = np.ones(len(value), np.int64)
    return folded(FEW, {"p": p, "few": value >> SHIFT, "n": n, "bits": np.int64(1) << (value & (BLOCK - 1))})


def _by_name(columns: Mapping[str, Numbers], names: Names) -> pa.Table:
    return table({**columns, "p": names.texts(columns["p"])})


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
