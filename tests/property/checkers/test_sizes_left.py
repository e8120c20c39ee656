"""How much a log still holds whose head went for its size: lives of partitions, one change at a time, in one pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.timeline import Evidence, build_timeline
from checkers.evidence.touched_files import TouchedFiles
from checkers.history import schema
from checkers.history.retention import Expiry
from checkers.white_box.size_rules import size_rules
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

Row = dict[str, Any]

RECORD, LIMIT, PER_FILE = 200, 10_000, 10
BATCH = 150
"""Bytes of a batch of one record, on disk; RECORD is what it may take."""
START = 300
SIZE_ALONE = Expiry(size_bytes=LIMIT, record_bytes=RECORD)


@dataclass(frozen=True)
class Life:
    """held: batches that each replica has. cuts: (replica, from LEO, to LEO). told: replicas with an event log.
    finds: replicas that are short; judged: how many are looked at.
    """

    held: tuple[int, int, int]
    finds: Sequence[int] = (1, 2, 3)
    judged: int = 3
    start: int = START
    cuts: Sequence[tuple[int, int, int]] = ()
    told: tuple[int, ...] = (1, 2, 3)
    uncopied: int = 0
    changed: int = 0
    unpowered: int = 0
    behind: int = 0
    """By so many batches the last replica ends before the others."""
    torn: str = ""
    """The file of the first replica that ends in what cannot be read: `first` or `last`."""
    line_lost: bool = False
    told_to_go: int = 0
    reopened: int | None = None
    """By so much the first replica's log ends sooner when it is opened again, without a line that says why."""


def _held_at_most(batches: int) -> int:
    whole, rest = divmod(batches, PER_FILE)
    full = (PER_FILE - 1) * BATCH + RECORD
    return whole * full + ((rest - 1) * BATCH + RECORD if rest else 0)


ENOUGH = next(many for many in range(200) if _held_at_most(many) >= LIMIT)
SHORT = Life((ENOUGH - 1,) * 3)
UNJUDGED = replace(SHORT, finds=(), judged=0)

LIVES: dict[str, Life] = {
    "enough": Life((ENOUGH,) * 3, finds=()),
    "less": SHORT,
    "one": Life((ENOUGH, ENOUGH - 1, ENOUGH), finds=(2,)),
    "whole": replace(UNJUDGED, start=0),
    "cut": replace(SHORT, finds=(), cuts=[(2, 500, 499)]),
    "cutnone": replace(SHORT, cuts=[(2, 500, 500)]),
    "cutandless": replace(SHORT, held=(ENOUGH - 4,) * 3, cuts=[(2, 500, 499)]),
    "behind": replace(SHORT, held=(ENOUGH, ENOUGH, ENOUGH - 1), behind=1, finds=(), judged=2),
    "onetoldnothing": replace(UNJUDGED, told=(1, 3)),
    "onelostpower": replace(UNJUDGED, unpowered=1),
    "onechanged": replace(UNJUDGED, changed=1),
    "oneuncopied": replace(UNJUDGED, uncopied=1),
    "torn": replace(UNJUDGED, torn="first"),
    "tornlast": replace(UNJUDGED, torn="last"),
    "linelost": replace(UNJUDGED, line_lost=True),
    "toldtogo": replace(UNJUDGED, told_to_go=2),
    "openedwithless": replace(SHORT, finds=(), reopened=1),
    "openedasitwas": replace(SHORT, reopened=0),
    "cutasmuch": replace(UNJUDGED, held=(1, 1, 1), cuts=[(2, 500, 450)]),
    "cutalmost": replace(SHORT, held=(1, 1, 1), finds=(), cuts=[(2, 500, 451)]),
}


def _batches(name: str, life: Life) -> list[Row]:
    end = life.start + max(life.held)
    rows: list[Row] = []
    for nth, held in enumerate(life.held, 1):
        last = end - (life.behind if nth == len(life.held) else 0)
        mine: list[Row] = []
        for at, base in enumerate(range(last - held, last)):
            file, inside = divmod(at, PER_FILE)
            row: Row = {"node": f"{name}{nth}", "p": f"{name}-0", "file": f"{file:020d}.log"}
            row |= {"file_position": inside * BATCH, "base": base, "last": base, "records": 1, "problem": None}
            mine.append(row)
        if life.torn and nth == 1:
            # As the decoder has it: what cannot be read has no offset.
            of = mine[0 if life.torn == "first" else -1]
            nothing = {"base": None, "last": None, "records": None, "problem": "torn tail"}
            mine.append({**of, "file_position": PER_FILE * BATCH, **nothing})
        rows += mine
    return rows


def _events(name: str, life: Life) -> list[Row]:
    rows: list[Row] = []
    for broker in life.told:
        own: Row = {"b": broker, "node": f"{name}{broker}", "i": f"{name}{broker}a", "p": f"{name}-0"}
        lines: list[Row] = [{**own, "e": "start"}, {**own, "e": "recovered", "leo": 500, "hw": 0}]
        lines += [
            {**own, "e": "truncate", "le": 1, "from_leo": from_leo, "to": to, "hw": 0}
            for of, from_leo, to in life.cuts
            if of == broker
        ]
        if life.told_to_go == broker:
            lines.append({**own, "e": "stop_replica", "delete": True})
        for s, line in enumerate(lines):
            line["s"] = s
        if life.line_lost and broker == 1:
            lines[-1]["s"] += 1
        if life.reopened is not None and broker == 1:
            again: Row = {**own, "i": f"{name}{broker}b"}
            lines += [
                {**again, "e": "start", "s": 0},
                {**again, "e": "recovered", "s": 1, "leo": 500 - life.reopened, "hw": 0},
            ]
        rows += lines
    for t_ns, row in enumerate(rows):
        row["t_ns"] = t_ns
        if row["e"] == "start":
            del row["p"]
    return rows


class Judged(NamedTuple):
    """p → nodes that are short; p → replicas that were looked at."""

    short: Mapping[str, list[str]]
    looked_at: Mapping[str, int]
    places: set[tuple[int, tuple[int, ...]]]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("sizes")

    def read(name: str, kind: Any, rows: Sequence[Row]) -> Any:
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return spark.read.schema(kind).json(path.as_uri())

    with pyspark_sockets():
        events = read("events", schema.EVENTS, [row for item in LIVES.items() for row in _events(*item)])
        sends = [
            (f"{name}-0", life.start + offset, op)
            for name, life in LIVES.items()
            for offset, op in ((-1, 7), (-2, 6), (0, 8))
        ]
        starts = [(f"{name}{nth}", f"{name}-0", life.start, 99) for name, life in LIVES.items() for nth in (1, 2, 3)]
        evidence: Any = SimpleNamespace(
            info=SimpleNamespace(partitions=[f"{name}-0" for name in LIVES], compacted=False, finished=True),
            history=SimpleNamespace(sends=spark.createDataFrame(sends, "p string, offset bigint, op bigint")),
            batches=read("batches", schema.BATCH, [row for item in LIVES.items() for row in _batches(*item)]),
            events=events,
            timeline=build_timeline(events),
            segment_nodes=[f"{name}{nth}" for name, life in LIVES.items() for nth in (1, 2, 3) if nth != life.uncopied],
            touched=TouchedFiles(
                whole=frozenset(f"{name}{life.changed}" for name, life in LIVES.items() if life.changed),
                unsynced=frozenset(f"{name}{life.unpowered}" for name, life in LIVES.items() if life.unpowered),
            ),
            unclean={},
            expiry=SIZE_ALONE,
        )
        evidence.sound = partial(Evidence.sound, evidence)
        ((findings, figures),) = size_rules(
            evidence, spark.createDataFrame(starts, "node string, p string, start bigint, last_ns bigint")
        )
        found, measured = findings.collect(), figures.collect()
    short: dict[str, list[str]] = {}
    for row in found:
        short.setdefault(row.p, []).append(row.detail.split(" on ")[1].split()[0])
    return Judged(
        short,
        {row.p: int(row.value) for row in measured},
        {(row.offset, tuple(row.ops)) for row in found},
    )


@pytest.mark.parametrize("name", LIVES)
def test_log_that_lost_its_head_for_its_size_holds_as_much_as_it_may(judged: Judged, name: str) -> None:
    life = LIVES[name]
    assert sorted(judged.short.get(f"{name}-0", [])) == [f"{name}{nth}" for nth in life.finds]
    assert judged.looked_at.get(f"{name}-0", 0) == life.judged


def test_finding_names_the_newest_record_that_went(judged: Judged) -> None:
    assert judged.places == {(START, (7,))}


@pytest.mark.parametrize(
    "change",
    [
        {"expiry": replace(SIZE_ALONE, age_ns=1)},
        {"expiry": replace(SIZE_ALONE, requested=True)},
        {"expiry": replace(SIZE_ALONE, size_bytes=None)},
        {"expiry": None},
        {"unclean": {"hw-0": 1}},
        {"info": SimpleNamespace(compacted=True, finished=True)},
        {"info": SimpleNamespace(compacted=False, finished=False)},
    ],
)
def test_nothing_is_judged_where_more_than_size_can_have_moved_a_start(change: Mapping[str, Any]) -> None:
    ordinary = {"expiry": SIZE_ALONE, "unclean": {}, "info": SimpleNamespace(compacted=False, finished=True)}
    evidence: Any = SimpleNamespace(**{**ordinary, **change})
    starts: Any = None
    assert size_rules(evidence, starts) == []
