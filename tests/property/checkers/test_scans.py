"""What workers make of sends and polls, against plain loops over the same rows."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.columns import work
from checkers.columns.numbers import LEAST, MOST
from checkers.columns.work import OfContent, Work
from checkers.settled.hashed import BITS, hashes
from checkers.settled.left import Left
from checkers.settled.scans import BLOCK, Returned, Sent

pytestmark = pytest.mark.guarantee("V5")


class Given(NamedTuple):
    """As Spark's broadcast variable."""

    value: Any


PARTITIONS = st.sampled_from(["a-0", "a-1", "b-0"])
OFFSETS = st.one_of(st.integers(0, 200), st.sampled_from([-1, -64, (1 << 62) - 1, 1 << 62, int(LEAST), int(MOST)]))
VALUES = st.one_of(st.none(), st.integers(-70, 200), st.sampled_from([int(LEAST), int(MOST)]))
SENDS = st.lists(
    st.fixed_dictionaries(
        {
            "p": PARTITIONS,
            "offset": st.one_of(st.none(), OFFSETS),
            "value": VALUES,
            "outcome": st.sampled_from(["ok", "info", "fail"]),
            "acks": st.sampled_from([-1, -1, -1, 1, None]),
            "in_order": st.sampled_from([False, False, None, True]),
            "txn": st.sampled_from([None, None, 7]),
            "op": st.integers(0, 9),
        }
    ),
    max_size=40,
)
SENT_AS = pa.schema(
    [
        ("p", pa.string()),
        *[(name, pa.int64()) for name in ("offset", "value", "txn", "op")],
        ("outcome", pa.string()),
        ("acks", pa.int32()),
        ("in_order", pa.bool_()),
    ]
)
POLLS = st.lists(
    st.fixed_dictionaries(
        {
            "p": PARTITIONS,
            "offset": st.one_of(OFFSETS, st.none()),
            "value": VALUES,
            "intact": st.sampled_from([True, True, False, None]),
            "phase": st.sampled_from(["main", "drain"]),
        }
    ),
    max_size=40,
)
READ_AS = pa.schema(
    [("p", pa.string()), ("offset", pa.int64()), ("value", pa.int64()), ("intact", pa.bool_()), ("phase", pa.string())]
)
KIND = {"p": 0, "block": 0, "n": 0, "unsound": 0, "offsets": 0, "one": 0, "other": 0}
Rows = list[dict[str, Any]]


def done(of: Work, rows: Rows, schema: pa.Schema, names: Mapping[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """What comes of a file with these rows, as it does of one that Spark hands over."""
    written = io.BytesIO()
    # Partitions without a dictionary, phases with one, and that anew in each group: pieces are of other rows then.
    pq.write_table(pa.Table.from_pylist(rows, schema), written, row_group_size=10, use_dictionary=["outcome", "phase"])
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for name, row in OfContent(of, {name: tuple(columns) for name, columns in names.items()})(
        Content(written.getvalue())
    ):
        found[name].append(row)
    return found


class Content(NamedTuple):
    """A row of Spark's."""

    content: bytes


def hashed(offset: int, value: int) -> tuple[int, int]:
    one, other = hashes(np.array([offset], np.int64), np.array([value], np.int64))
    return int(one[0]), int(other[0])


def summed(rows: Rows) -> dict[tuple[str, int], list[int]]:
    """(p, block) → n, unsound, offsets, one, other."""
    sums: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0] * 5)
    for row in rows:
        one, other = hashed(row["offset"], row["value"] or 0)
        of_block = sums[row["p"], row["offset"] >> 6]
        bit = 1 << (row["offset"] % BLOCK)
        of_block[0] += 1
        of_block[1] += not row["sound"]
        of_block[2] |= bit - (1 << 64) * (bit >> 63)
        of_block[3] += one
        of_block[4] += other
    return dict(sums)


def by_block(rows: list[tuple[Any, ...]]) -> dict[tuple[str, int], list[int]]:
    found = {(p, block): list(rest) for p, block, *rest in rows}
    assert len(found) == len(rows), "one row a block"
    return found


@pytest.fixture(autouse=True, scope="module")
def few_rows_at_a_time() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "ROWS", 7)
        yield


@given(SENDS)
def test_sends_are_summed_by_block_and_those_without_an_offset_stand_out(rows: Rows) -> None:
    names = {"given": KIND, "few": ("p", "few", "n", "bits"), "unacknowledged": SENT_AS.names, "odd": ("odd", "loose")}
    found = done(Sent(), rows, SENT_AS, names)
    placed = [{**row, "sound": row["value"] is not None} for row in rows if row["offset"] is not None]
    loose = [row for row in rows if row["offset"] is None]
    assert by_block(found["given"]) == summed(placed)
    assert found["unacknowledged"] == [tuple(row[name] for name in SENT_AS.names) for row in loose]
    few = {(p, few): (n, bits) for p, few, n, bits in found["few"]}
    sent = Counter((row["p"], row["value"] >> 6) for row in rows if row["value"] is not None)
    assert {number: n for number, (n, _) in few.items()} == sent
    for number, (_, bits) in few.items():
        values = [(row["p"], row["value"]) for row in rows if row["value"] is not None]
        there = {value % BLOCK for p, value in values if (p, value >> 6) == number}
        assert {bit for bit in range(BLOCK) if bits >> bit & 1} == there
    if rows:
        ((odd, silent),) = found["odd"]
        assert silent == len(loose)
        is_odd = [
            (row["offset"] is not None and row["offset"] < 0)
            or (row["outcome"] == "ok" and row["offset"] is None)
            or row["acks"] != -1
            or bool(row["in_order"])
            or row["txn"] is not None
            for row in rows
        ]
        assert (odd > 0) == any(is_odd)


@given(POLLS, st.dictionaries(PARTITIONS, st.sets(VALUES.filter(lambda value: value is not None))))
def test_reads_are_summed_by_block_and_values_that_are_looked_for_are_found(rows: Rows, wanted: Any) -> None:
    names = {"returned": KIND, "found": ("p", "value", "offset"), "odd": ("odd",)}
    values = {p: np.array(sorted(of_p), np.int64) for p, of_p in wanted.items()}
    found = done(Returned(Given(values)), rows, READ_AS, names)
    homeless = sum(row["offset"] is None for row in rows)
    assert found["odd"] == ([(homeless,)] if rows else [])
    if homeless:
        return  # Then nothing of it is used.
    sound = [{**row, "sound": bool(row["intact"]) and row["value"] is not None} for row in rows]
    assert by_block(found["returned"]) == summed(sound)
    there = [(row["p"], row["value"], row["offset"]) for row in rows if row["value"] in wanted.get(row["p"], ())]
    assert found["found"] == there


PARTS = st.dictionaries(
    st.tuples(PARTITIONS, st.one_of(st.integers(-1, 4), st.just(int(MOST) >> 6))), st.tuples(OFFSETS, OFFSETS)
)


@given(POLLS, PARTS)
def test_left_is_what_lies_below_the_head_or_from_the_tail_of_a_part_on(rows: Rows, parts: Any) -> None:
    of_p: dict[str, Rows] = defaultdict(list)
    for (p, block), (head, tail) in sorted(parts.items()):
        of_p[p].append({"block": block, "head": head, "tail": tail})
    arrays = {
        p: [np.array([part[name] for part in of], np.int64) for name in ("block", "head", "tail")]
        for p, of in of_p.items()
    }
    found = done(Left(Given(arrays)), rows, READ_AS, {"left": READ_AS.names})
    left = []
    for row in rows:
        head, tail = parts.get((row["p"], row["offset"] >> 6), (None, None)) if row["offset"] is not None else (0, 0)
        if row["offset"] is not None and head is not None and (row["offset"] < head or row["offset"] >= tail):
            left.append(tuple(row[name] for name in READ_AS.names))
    assert found["left"] == left


@given(st.lists(st.tuples(OFFSETS, st.integers(int(LEAST), int(MOST))), unique=True, max_size=50))
def test_hashes_of_unlike_records_differ(records: list[tuple[int, int]]) -> None:
    found = [hashed(*record) for record in records]
    assert all(0 <= number < 1 << BITS for both in found for number in both)
    assert len(set(found)) == len(records)


def test_hashes_spread_numbers_that_follow_each_other() -> None:
    offsets = np.arange(1 << 16, dtype=np.int64)
    for found in hashes(offsets, offsets * 3 + 1):
        assert len(np.unique(found)) > 0.999 * len(offsets), "40 bits, and 65,536 numbers: one in a thousand at most"
        ones = [int(np.count_nonzero(found >> bit & 1)) for bit in range(BITS)]
        assert all(abs(n - len(offsets) / 2) < 1000 for n in ones), "each bit is set in half of them"


def test_bounds_of_a_column_are_its_own_and_unknown_where_the_file_does_not_say() -> None:
    several = pa.array([{"x": 1, "y": 2}, {"x": 3, "y": 4}])
    rows = pa.table({"several": several, "offset": pa.array([70, None], pa.int64()), "none": pa.nulls(2, pa.int64())})
    written = io.BytesIO()
    pq.write_table(rows, written)
    file = work.File(pq.ParquetFile(written))
    assert file.bounds("offset") == (70, 70)
    assert file.bounds("none") == file.bounds("not there") == (int(LEAST), int(MOST))
