"""What is open of a partition, and which acknowledgements an answer denies, against plain loops over the same rows."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.columns.numbers import MOST
from checkers.settled.answers import ANSWERS, FULL, OK, PLAIN, POLL, TEXTS
from checkers.settled.denied import available, denied
from checkers.settled.drained import UNREAD, compared
from checkers.settled.loose import LOUD, PLACED, SILENT, crowded, loose_of
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
from checkers.settled.opening import Judged, rest_of
from checkers.settled.partition import LONGS

pytestmark = pytest.mark.guarantee("V5")

Rows = list[dict[str, Any]]
NONE = np.zeros(0, np.int64)
TIMES = st.integers(0, 12)
PLACES = st.integers(0, 300)
SENDS = st.lists(
    st.fixed_dictionaries(
        {
            "base": PLACES,
            "n": st.sampled_from([1, 1, 3, 70]),
            "process": st.integers(0, 2),
            "invoke": TIMES,
            "took": st.integers(0, 4),
            "acked": st.sampled_from([True, True, True, False]),
            "sentinel": st.sampled_from([False, False, False, True]),
        }
    ),
    max_size=12,
)
ANSWERED = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from([0, OK, POLL, POLL | OK, POLL | OK | PLAIN, POLL | OK | PLAIN | FULL]),
            **{name: st.one_of(st.none(), PLACES) for name in ("position", "next", "first", "last", "own", "bound")},
            "told": st.one_of(st.none(), st.integers(1, 300)),
            "invoke": TIMES,
            "complete": st.one_of(TIMES, st.none()),
            "consumer": st.sampled_from(["a", "b", None]),
        }
    ),
    max_size=12,
)


def sends_of(rows: Rows) -> Sends:
    def longs(values: list[Any]) -> Any:
        return np.array(values, np.int64)

    return Sends(
        op=longs(list(range(len(rows)))),
        base=longs([row["base"] for row in rows]),
        last=longs([row["base"] + row["n"] - 1 for row in rows]),
        process=longs([row["process"] for row in rows]),
        invoke=longs([row["invoke"] for row in rows]),
        complete=longs([row["invoke"] + row["took"] if row["acked"] else MOST for row in rows]),
        acked=np.array([row["acked"] for row in rows], np.bool_),
        sentinel=np.array([row["sentinel"] and row["acked"] for row in rows], np.bool_),
    )


def answers_of(rows: Rows) -> Answers:
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {**dict.fromkeys(LONGS[ANSWERS], pa.int64()), **dict.fromkeys(TEXTS, text)}
    columns = {
        name: pa.array([at if name == "op" else row.get(name) for at, row in enumerate(rows)], kind)
        for name, kind in kinds.items()
    }
    return Answers(pa.table(columns))


def blocks_of(first: int, last: int) -> set[int]:
    return set(range(first >> 6, (last >> 6) + 1))


def last_of(row: dict[str, Any]) -> int:
    return int(row["base"]) + int(row["n"]) - 1


def over(row: dict[str, Any]) -> float:
    return float(row["invoke"] + row["took"]) if row["acked"] else float("inf")


@given(SENDS, ANSWERED, st.sets(st.integers(0, 5)))
def test_late_is_what_was_begun_after_something_above_it_was_there(rows: Rows, said: Rows, opened: set[int]) -> None:
    loud = {"base": 5, "last": 5, "invoke": 3}
    shown = [(row["base"], over(row)) for row in rows]
    for row in said:
        if row["complete"] is not None:
            if row["kind"] & (POLL | OK) == POLL | OK and row["last"] is not None:
                shown.append((row["last"], row["complete"]))
            if row["told"] is not None:
                shown.append((row["told"] - 1, row["complete"]))
    asked = [(row["base"], last_of(row), row["invoke"]) for row in rows] + [tuple(loud.values())]
    late = [one for one in asked if any(at >= one[0] and there < one[2] for at, there in shown)]
    one = {name: np.array([value], np.int64) for name, value in loud.items()}
    found = late_sends(sends_of(rows), Late(**one), answers_of(said))
    assert list(zip(found.base, found.last, found.invoke, strict=True)) == late

    until = max((invoke for *_, invoke in late), default=0)
    acked = [row for row in rows if row["acked"] and over(row) < until and row["base"] >> 6 not in opened]
    pieces = [
        (min(row["last"], (block << 6) + 63), block, row["complete"])
        for row in said
        if row["kind"] == POLL | OK | PLAIN | FULL and None not in (row["first"], row["last"], row["complete"])
        if row["complete"] < until
        for block in sorted(blocks_of(row["first"], row["last"]))
        if block not in opened
    ]
    there = [(row["base"], over(row)) for row in acked] + [(at, at_ns) for at, _, at_ns in pieces]
    by = set()
    for _, last, invoke in late:
        above = [at_ns for at, at_ns in there if at > last]
        if above and min(above) < invoke:
            by.add(min(above))
    marked = set().union(*[blocks_of(base, last) for base, last, _ in late])
    marked |= set().union(*[blocks_of(row["base"], last_of(row)) for row in acked if over(row) in by])
    marked |= {block for _, block, at_ns in pieces if at_ns in by}
    assert set(out_of_time(sends_of(rows), answers_of(said), found, np.array(sorted(opened), np.int64))) == marked


@given(SENDS, st.sets(st.integers(0, 5)))
def test_out_of_order_is_what_stands_no_higher_than_what_its_process_had_acknowledged(rows: Rows, of: set[int]) -> None:
    marked: set[int] = set()
    for row in rows:
        before = [
            other
            for other in rows
            if row["acked"] and other["acked"] and other["process"] == row["process"] and over(other) < row["invoke"]
        ]
        if any(last_of(other) >= row["base"] for other in before):
            marked |= blocks_of(row["base"], last_of(row))
            sure = [last_of(other) for other in before if last_of(other) >> 6 not in of]
            marked |= {max(sure) >> 6} if sure else set()
    assert set(out_of_order(sends_of(rows), np.array(sorted(of), np.int64))) == marked


@given(SENDS, st.sets(st.integers(0, 5)))
def test_bounds_are_the_first_acknowledged_record_and_sentinels(rows: Rows, of: set[int]) -> None:
    acked = [row for row in rows if row["acked"]]
    marked = set().union(*[blocks_of(row["base"], last_of(row)) for row in acked if row["sentinel"]])
    bases = [row["base"] for row in acked if row["base"] >> 6 not in of]
    marked |= {min(bases) >> 6} if bases else set()
    assert set(bounds(sends_of(rows), np.array(sorted(of), np.int64))) == marked


@given(ANSWERED)
def test_polls_mark_what_they_passed_over_oddly_and_what_their_client_jumped_over(said: Rows) -> None:
    odd: set[int] = set()
    jumped: set[int] = set()
    ended: dict[str | None, int] = {}
    for row in said:
        if not row["kind"] & POLL or not row["kind"] & OK:
            continue
        known = [row[name] for name in ("position", "next", "first", "last") if row[name] is not None]
        if not row["kind"] & PLAIN and known:
            odd |= blocks_of(min(known), max(known))
        before = ended.get(row["consumer"])
        if before is not None and row["own"] is not None and row["own"] > before:
            jumped |= blocks_of(before, row["own"] - 1)
        if row["next"] is not None:
            ended[row["consumer"]] = row["next"]
    assert set(odd_polls(answers_of(said), NONE)) == odd
    assert set(jumped_over(answers_of(said), NONE)) == jumped


def test_of_a_span_as_wide_as_an_answer_may_say_blocks_are_marked_in_which_there_is_something() -> None:
    said = [{"kind": POLL | OK, "position": 640, "next": 1 << 62, "last": None}]
    assert list(odd_polls(answers_of(said), np.array([3, 10, 11, 1 << 50], np.int64))) == [10, 11, 1 << 50]


DRAINS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.just(POLL | OK),
            "position": PLACES,
            "wide": st.sampled_from([1, 60, 64, 128, 200]),
            "phase": st.sampled_from(["drain-1", "drain-2"]),
            "leader": st.sampled_from(["hw-0", None]),
            "reader": st.sampled_from(["wire", "confluent"]),
        }
    ),
    max_size=12,
)
TURNS = st.tuples(st.sampled_from(["drain-1", "drain-2"]), st.just("hw-0"), st.sampled_from(["wire", "confluent"]))


@given(DRAINS, st.lists(TURNS, max_size=3))
def test_drains_are_compared_in_blocks_that_both_read_whole(said: Rows, finished: Any) -> None:
    polls = [{**row, "next": row["position"] + row["wide"]} for row in said]
    read: dict[Any, set[int]] = defaultdict(set)
    for row in polls:
        read[row["phase"], row["leader"], row["reader"]] |= set(range(row["position"], row["next"]))
    blocks = list(range(9))
    expected = []
    for block in blocks:
        of_block = set(range(block << 6, (block + 1) << 6))
        whole = {turn for turn, offsets in read.items() if of_block <= offsets}
        some = {turn for turn, offsets in read.items() if of_block & offsets} | set(finished)
        both = {turn[:2] for turn in whole if {(*turn[:2], "wire"), (*turn[:2], "confluent")} <= whole}
        expected.append(UNREAD if some - whole else len(both))
    assert list(compared(answers_of(polls), finished, np.array(blocks, np.int64))) == expected


@given(SENDS, ANSWERED)
def test_denied_is_what_was_acknowledged_before_a_request_that_was_answered_with_less(rows: Rows, said: Rows) -> None:
    expected = [
        row["acked"]
        and any(one["bound"] is not None and one["bound"] <= last_of(row) and one["invoke"] > over(row) for one in said)
        for row in rows
    ]
    assert list(denied(sends_of(rows), answers_of(said))) == expected


@given(st.lists(st.integers(5, 90)), st.lists(st.integers(0, 100), max_size=4))
def test_availability_is_measured_between_acknowledgements_and_after_each_fault(acked: Any, stops: Any) -> None:
    load = pa.table({"sends": [len(acked), 1], "begin": [5, 7], "end": [60, 95], "odd": [0, 0]})
    at = sorted([5, 95, *acked])
    waits = [min(after) - stop for stop in stops if (after := [one for one in acked if one > stop])]
    found = available(load, np.array(acked, np.int64), stops)
    assert found == {
        "worst_ms": max(b - a for a, b in pairwise(at)) / 1e6,
        "acknowledged": len(acked),
        "sends": len(acked) + 1,
        **({"worst_recovery_ms": max(waits) / 1e6} if waits else {}),
    }
    nothing = pa.table({"sends": [0], "begin": [int(MOST)], "end": [-int(MOST)], "odd": [0]})
    assert available(nothing, NONE, stops) == {}


LOOSE = st.lists(
    st.fixed_dictionaries(
        {"outcome": st.sampled_from(["info", "info", "info", "fail"]), "n": st.integers(1, 3), "lacks": st.booleans()}
    ),
    max_size=4,
)


@given(LOOSE, st.lists(st.tuples(st.integers(0, 14), st.integers(0, 20))), st.booleans(), st.sets(st.integers(0, 14)))
def test_fate_of_a_send_is_told_by_all_its_values(rows: Rows, read: Any, in_order: bool, twice: set[int]) -> None:
    values: Rows = []
    for op, row in enumerate(rows):
        for nth in range(row["n"]):
            of = row["n"] + row["lacks"]
            values.append(
                {"op": op, "nth": nth, "of": of, "value": len(values), "invoke_ns": op, "outcome": row["outcome"]}
            )
    if in_order:
        read = [*((row["value"], row["value"] + 7) for row in values), *read[:1]]
    found = pa.table({"value": [value for value, _ in read], "offset": [offset for _, offset in read]})
    found = found.cast(pa.schema({"value": pa.int64(), "offset": pa.int64()}))
    kinds = {**dict.fromkeys(LONGS["unacknowledged"], pa.int64()), "outcome": pa.string()}
    table = pa.Table.from_pylist(values[::-1], pa.schema(kinds))
    sent = [(one["value"], 1) for one in values] + [(value, 1) for value in twice]
    few, n, bits = (
        np.array(column, np.int64)
        for column in zip(*[(v >> 6, n, 1 << (v % 64)) for v, n in sent] or [(0, 0, 0)], strict=True)
    )
    which = crowded(few, n, bits)
    assert list(which) == ([0] if twice & {one["value"] for one in values} else [])
    loose = loose_of(table, found, which)
    fates = []
    for op in range(len(rows)):
        mine = [one for one in values if one["op"] == op]
        places = [[offset for value, offset in read if value == one["value"]] for one in mine]
        bases = {offset - one["nth"] for one, of in zip(mine, places, strict=True) for offset in of}
        plain = not len(which)
        whole = all(places) and len(bases) == 1 and len(mine) == mine[0]["of"] and mine[0]["outcome"] == "info"
        fates.append(SILENT if plain and not any(places) else PLACED if plain and whole else LOUD)
    assert list(loose.fate) == fates
    for value, low, there in zip(loose.value, loose.low, loose.read, strict=True):
        of = [offset for one, offset in read if one == value]
        assert there == bool(of)
        assert not of or low == min(of)


@given(SENDS, st.sets(st.integers(0, 6)), st.sets(st.integers(0, 6)))
def test_left_are_open_blocks_and_the_whole_of_sends_that_reach_into_one(
    rows: Rows, first: set[int], more: set[int]
) -> None:
    sends, blocks = sends_of(rows), np.arange(7)
    loose = loose_of(
        _no_values(), pa.table({"value": pa.array([], pa.int64()), "offset": pa.array([], pa.int64())}), NONE
    )
    returned, both = np.full(7, 64), np.array([0, 1, 2, 1, UNREAD, 1, 1])
    judged = Judged(sends, loose, blocks, returned, both, np.array(sorted(first), np.int64), sends.acked)
    rest = rest_of(judged, np.array(sorted(more), np.int64))
    opened = first | more
    touching = [bool(blocks_of(row["base"], last_of(row)) & opened) for row in rows]
    left = {offset for block in opened for offset in range(block << 6, (block + 1) << 6)}
    for row, touches in zip(rows, touching, strict=True):
        if touches:
            left |= set(range(row["base"], last_of(row) + 1))
    parts = dict(zip(rest.parts[0].tolist(), zip(*[one.tolist() for one in rest.parts[1:]], strict=True), strict=True))

    def is_left(offset: int) -> bool:
        head, tail = parts.get(offset >> 6, (None, None))
        return head is not None and (offset < head or offset >= tail)

    assert left <= {offset for offset in range(7 << 6) if is_left(offset)}
    assert [not whole for whole in rest.whole] == touching
    whole = [row for row, touches in zip(rows, touching, strict=True) if not touches]
    assert rest.counts["acked"] == sum(row["n"] for row in whole if row["acked"])
    assert rest.counts["found"] == sum(row["n"] for row in whole if not row["acked"])
    assert rest.counts["batches"] == sum(row["n"] > 1 for row in whole)
    assert list(rest.loose) == [
        at for at, (row, touches) in enumerate(zip(rows, touching, strict=True)) if touches and not row["acked"]
    ]
    assert rest.counts["returned"] == 7 * 64


def _no_values() -> pa.Table:
    kinds = {**dict.fromkeys(LONGS["unacknowledged"], pa.int64()), "outcome": pa.string()}
    return pa.schema(kinds).empty_table()
