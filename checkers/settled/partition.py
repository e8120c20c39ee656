"""A partition of which all long tables were gone through: what of it is open, and what is left of it then.

Pure; runs in Spark's Python workers. Its tables are those of `scans`, and `answers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.columns.numbers import Numbers, numbers
from checkers.columns.work import Shared
from checkers.settled.answers import ANSWERS, TEXTS
from checkers.settled.blocks import agreeing_blocks
from checkers.settled.denied import available, denied
from checkers.settled.drained import UNREAD, Turn, compared
from checkers.settled.loose import LOUD, PLACED, Loose, crowded, loose_of
from checkers.settled.marks import (
    Answers,
    Late,
    Sends,
    bounds,
    jumped_over,
    late_sends,
    odd_polls,
    out_of_order,
    out_of_time,
)
from checkers.settled.opening import Judged, Rest, placed_sends, rest_of
from checkers.settled.scans import SHIFT, sums

_SUMS = ("block", "n", "unsound", "offsets", "one", "other")
LONGS: Mapping[str, Sequence[str]] = {
    "given": _SUMS,
    "returned": _SUMS,
    "few": ("few", "n", "bits"),
    "found": ("value", "offset"),
    "unacknowledged": ("op", "nth", "of", "value", "invoke_ns"),
    "acked": ("op", "base", "last", "process", "invoke", "complete", "sentinel", "main"),
    "load": ("sends", "begin", "end", "odd"),
    ANSWERS: ("op", "kind", "position", "next", "first", "last", "own", "invoke", "complete", "told", "bound"),
}
_TEXTS: Mapping[str, Sequence[str]] = {"unacknowledged": ("outcome",), "acked": ("node",), ANSWERS: TEXTS}
Plain = dict[str, Any]
UNACKNOWLEDGED = ("p", *LONGS["unacknowledged"], *_TEXTS["unacknowledged"])
"""Columns of it that are asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of all partitions. twice: partition → blocks in which a value stands that was sent twice. finished:
    partition → drains that came to their end. stops: when each fault was first taken back, in ns.
    """

    twice: Mapping[str, Numbers]
    finished: Mapping[str, Sequence[Turn]]
    stops: Sequence[int]


@dataclass(frozen=True, slots=True)
class Told:
    """What the driver has to know of a partition before it is known what is left. odd: acknowledgements that are not
    plain. crowded: numbers of values one of which was sent twice (`loose.crowded`). available: see `denied.available`.
    """

    blocks: int
    open: int
    odd: int
    crowded: Numbers
    available: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Partition:
    """What is known of a partition, and where it was sent by (`nodes`, of each of `judged.sends`)."""

    told: Told
    judged: Judged
    nodes: pa.Array


def plain(one: Any) -> Plain:
    """An object as its fields: what a worker hands on is named by its class, and others may not have that."""
    values = {field.name: getattr(one, field.name) for field in fields(one)}
    return {name: plain(value) if is_dataclass(value) else value for name, value in values.items()}


def _partition(found: Plain) -> Partition:
    judged = dict(found["judged"])
    judged |= {"sends": Sends(**judged["sends"]), "loose": Loose(**judged["loose"])}
    return Partition(Told(**found["told"]), Judged(**judged), found["nodes"])


@dataclass(frozen=True, slots=True)
class Judge:
    """A partition's tables → `Partition`, as its fields. asked: fields of `Asked`."""

    asked: Shared[Plain]

    def __call__(self, p: str, tables: Mapping[str, pa.Table]) -> Plain:
        asked = Asked(**self.asked.value)
        none = np.zeros(0, np.int64)
        twice, finished = asked.twice.get(p, none), asked.finished.get(p, ())
        few = crowded(*_columns(tables, "few"))
        loose = loose_of(_table(tables, "unacknowledged"), _table(tables, "found"), few)
        acked, nodes, main = _acked(tables)
        sends = _joined(acked, placed_sends(loose))
        answers = Answers(_table(tables, ANSWERS))
        given = [_sums(tables, "given"), _of_placed(loose)]
        blocks, agrees, returned = agreeing_blocks(given, [_sums(tables, "returned")])
        read = compared(answers, finished, blocks)
        others = np.unique(
            np.concatenate(
                [
                    out_of_order(sends, twice),
                    odd_polls(answers, blocks),
                    jumped_over(answers, blocks),
                    bounds(sends, twice),
                    twice,
                    blocks[~agrees | (read == UNREAD)],
                ]
            )
        )
        late = late_sends(sends, _loud(loose), answers)
        opened = np.union1d(others, out_of_time(sends, answers, late, others))
        odd = int(numbers(_table(tables, "load").column("odd").combine_chunks())[0].sum())
        # A topic that is deleted and made anew is away by right.
        measured = {} if "~" in p else available(_table(tables, "load"), acked.complete[main], asked.stops)
        judged = Judged(sends, loose, blocks, returned, read, opened, denied(sends, answers))
        partition = Partition(Told(len(blocks), len(opened), odd, few, measured), judged, nodes)
        return plain(partition)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a partition: see `opening.Rest`."""

    parts: tuple[Numbers, Numbers, Numbers]
    loose: Numbers
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Leave:
    """A partition → `Told` and `Left`, as their fields. more: partition → blocks that are open besides."""

    more: Shared[Mapping[str, Numbers]]

    def __call__(self, row: tuple[str, Plain]) -> tuple[str, tuple[Plain, Plain]]:
        p, partition = row[0], _partition(row[1])
        rest = self.rest(p, partition)
        return p, (plain(partition.told), plain(Left(rest.parts, rest.loose, rest.counts)))

    def rest(self, p: str, partition: Partition) -> Rest:
        return rest_of(partition.judged, self.more.value.get(p, partition.judged.open[:0]))


@dataclass(frozen=True, slots=True)
class Stray:
    """A partition → where values stand that are looked for: blocks, of sends that nothing acknowledged. values:
    partition → such values, ascending.
    """

    values: Shared[Mapping[str, Numbers]]

    def __call__(self, row: tuple[str, Plain]) -> tuple[str, Numbers]:
        p, partition = row[0], _partition(row[1])
        loose = partition.judged.loose
        there = loose.rows(PLACED) & np.isin(loose.value, self.values.value.get(p, loose.value[:0]))
        return p, np.unique(loose.low[there] >> SHIFT)


@dataclass(frozen=True, slots=True)
class Denied:
    """A partition → rows (p, op, node, base_offset, n_values, invoke_ns, complete_ns, whole) of sends that an
    answer denies; whole: whether each is settled. more: see `Leave`.
    """

    more: Shared[Mapping[str, Numbers]]

    def __call__(self, row: tuple[str, Plain]) -> list[tuple[object, ...]]:
        p, partition = row[0], _partition(row[1])
        sends = partition.judged.sends
        rest = Leave(self.more).rest(p, partition)
        which = np.flatnonzero(partition.judged.denied)
        columns = [sends.op, sends.base, sends.last - sends.base + 1, sends.invoke, sends.complete, rest.whole]
        nodes = partition.nodes.take(pa.array(which)).to_pylist()
        rows = zip(nodes, *[column[which].tolist() for column in columns], strict=True)
        return [(p, op, node, base, n, invoke, complete, whole) for node, op, base, n, invoke, complete, whole in rows]


def _loud(loose: Loose) -> Late:
    there = loose.rows(LOUD) & loose.read
    return Late(loose.low[there], loose.low[there], loose.invoke[there])


def _of_placed(loose: Loose) -> dict[str, Numbers]:
    rows = loose.rows(PLACED)
    found = sums(np.zeros(int(rows.sum()), np.int64), loose.low[rows], loose.value[rows], loose.there[rows])
    return {name: found[name] for name in _SUMS}


def _acked(tables: Mapping[str, pa.Table]) -> tuple[Sends, pa.Array, Numbers]:
    op, base, last, process, invoke, complete, sentinel, main = _columns(tables, "acked")
    acked = np.ones(len(op), np.bool_)
    nodes = _table(tables, "acked").column("node").combine_chunks()
    return Sends(op, base, last, process, invoke, complete, acked, sentinel != 0), nodes, main != 0


def _joined(one: Sends, other: Sends) -> Sends:
    names = [field.name for field in fields(Sends)]
    return Sends(*[np.concatenate([getattr(one, name), getattr(other, name)]) for name in names])


def _sums(tables: Mapping[str, pa.Table], name: str) -> dict[str, Numbers]:
    return dict(zip(_SUMS, _columns(tables, name), strict=True))


def _columns(tables: Mapping[str, pa.Table], name: str) -> list[Numbers]:
    rows = _table(tables, name)
    return [numbers(rows.column(column).combine_chunks())[0] for column in LONGS[name]]


def _table(tables: Mapping[str, pa.Table], name: str) -> pa.Table:
    """One without rows where the partition has none."""
    if name in tables:
        return tables[name]
    texts = dict.fromkeys(_TEXTS.get(name, ()), pa.dictionary(pa.int32(), pa.string()))
    return pa.schema({**dict.fromkeys(LONGS[name], pa.int64()), **texts}).empty_table()
