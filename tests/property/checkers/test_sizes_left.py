"""How much a log still holds whose head went for its size: one life of a partition, and one change of it at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.timeline import build_timeline
from checkers.evidence.touched_files import NOTHING_TOUCHED, TouchedFiles
from checkers.history import schema
from checkers.history.retention import Expiry
from checkers.white_box.size_rules import size_rules
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

RECORD, LIMIT, PER_FILE = 200, 10_000, 10
BATCH = 150
"""Bytes of a batch of one record, on disk; RECORD is what it may take."""
NODES = ("n1", "n2", "n3")
SIZE_ALONE = Expiry(size_bytes=LIMIT, record_bytes=RECORD)


@dataclass(frozen=True)
class Life:
    """held: batches that each replica has. cuts: (broker, from LEO, to LEO). told: brokers with an event log."""

    held: tuple[int, int, int]
    start: int = 300
    expiry: Expiry | None = SIZE_ALONE
    cuts: Sequence[tuple[int, int, int]] = ()
    told: tuple[int, ...] = (1, 2, 3)
    touched: TouchedFiles = NOTHING_TOUCHED
    unclean: dict[Any, Any] = field(default_factory=dict)
    behind: int = 0
    """By so many batches the last replica ends before the others."""
    torn: bool = False


def _held_at_most(batches: int) -> int:
    whole, rest = divmod(batches, PER_FILE)
    full = (PER_FILE - 1) * BATCH + RECORD
    return whole * full + ((rest - 1) * BATCH + RECORD if rest else 0)


ENOUGH = next(many for many in range(200) if _held_at_most(many) >= LIMIT)
SHORT = Life((ENOUGH - 1,) * 3)

LIVES: dict[str, tuple[Life, list[str]]] = {
    "as-much-as-the-limit": (Life((ENOUGH,) * 3), []),
    "one-record-less": (SHORT, list(NODES)),
    "of-one-replica": (Life((ENOUGH, ENOUGH - 1, ENOUGH)), ["n2"]),
    "nothing-was-deleted": (replace(SHORT, start=0), []),
    "cut-off-its-end": (replace(SHORT, cuts=[(2, 500, 499)]), []),
    "cut-to-where-it-ended": (replace(SHORT, cuts=[(2, 500, 500)]), list(NODES)),
    "cut-and-short-all-the-same": (replace(SHORT, held=(ENOUGH - 4,) * 3, cuts=[(2, 500, 499)]), list(NODES)),
    "by-age-too": (replace(SHORT, expiry=replace(SIZE_ALONE, age_ns=1)), []),
    "on-request-too": (replace(SHORT, expiry=replace(SIZE_ALONE, requested=True)), []),
    "for-no-reason": (replace(SHORT, expiry=None), []),
    "after-an-unclean-election": (replace(SHORT, unclean={"hw-0": 1}), []),
    "behind-the-others": (replace(SHORT, held=(ENOUGH, ENOUGH, ENOUGH - 1), behind=1), []),
    "one-told-nothing": (replace(SHORT, told=(1, 3)), []),
    "one-lost-power": (replace(SHORT, touched=TouchedFiles(unsynced=frozenset({"n1"}))), []),
    "files-of-one-were-changed": (replace(SHORT, touched=TouchedFiles(whole=frozenset({"n1"}))), ["n2", "n3"]),
    "a-file-is-torn": (replace(SHORT, torn=True), ["n2", "n3"]),
}


def _batches(life: Life) -> list[dict[str, Any]]:
    end = life.start + max(life.held)
    rows = []
    for nth, (node, held) in enumerate(zip(NODES, life.held, strict=True)):
        last = end - (life.behind if nth == len(NODES) - 1 else 0)
        for at, base in enumerate(range(last - held, last)):
            file, inside = divmod(at, PER_FILE)
            row = {"node": node, "p": "hw-0", "file": f"{file:020d}.log", "file_position": inside * BATCH}
            rows.append({**row, "base": base, "last": base, "records": 1, "problem": None})
    if life.torn:
        rows[0]["problem"] = "torn"
    return rows


def _events(life: Life) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for broker in life.told:
        common = {"b": broker, "node": f"n{broker}", "i": "a", "p": "hw-0"}
        rows.append({**common, "s": 0, "e": "recovered", "leo": 0, "hw": 0})
        for nth, (of, from_leo, to) in enumerate(life.cuts):
            if of == broker:
                rows.append({**common, "s": 1 + nth, "e": "truncate", "le": 1, "from_leo": from_leo, "to": to, "hw": 0})
    return rows


def _read(spark: SparkSession, path: Path, kind: Any, rows: Sequence[dict[str, Any]]) -> Any:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return spark.read.schema(kind).json(path.as_uri())


@pytest.mark.parametrize("name", LIVES)
def test_log_that_lost_its_head_for_its_size_holds_as_much_as_it_may(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    life, short = LIVES[name]
    with pyspark_sockets():
        sends = [("hw-0", life.start - 1, 7), ("hw-0", life.start - 2, 6), ("hw-0", life.start, 8)]
        evidence: Any = SimpleNamespace(
            info=SimpleNamespace(partitions=("hw-0",)),
            history=SimpleNamespace(sends=spark.createDataFrame(sends, "p string, offset bigint, op bigint")),
            batches=_read(spark, tmp_path / "batches", schema.BATCH, _batches(life)),
            timeline=build_timeline(_read(spark, tmp_path / "events", schema.EVENTS, _events(life))),
            segment_nodes=NODES,
            touched=life.touched,
            unclean=life.unclean,
            expiry=life.expiry,
        )
        starts = spark.createDataFrame(
            [(node, "hw-0", life.start, 99) for node in NODES], "node string, p string, start bigint, last_ns bigint"
        )
        found = [row for findings, _ in size_rules(evidence, starts) for row in findings.collect()]
    assert sorted(row.detail.split(" on ")[1].split()[0] for row in found) == short
    assert all((row.offset, row.ops) == (life.start, [7]) for row in found)
