"""`python -m benchmarks.checkers.judge FOLDER OUT`: the black-box families over stored tables, as `analyze` has them.

The same session, facts, families and jobs as in checkers/analysis.py; what is left out is what reads JSON lines and
brokers' evidence, of which there is none. Writes OUT: the seconds of each step, every finding, and the verdicts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from checkers.black_box.facts import Facts, build_facts
from checkers.black_box.families import black_box
from checkers.coverage.missing_evidence import not_applicable
from checkers.coverage.queries import leader_changes
from checkers.evidence.timeline import build_evidence
from checkers.evidence.znodes import znode_tables
from checkers.history import schema
from checkers.history.load import History, stored_history
from checkers.history.run_info import RunInfo, load_run_info
from checkers.settled.figures import with_settled
from checkers.settled.unsettle import LEAST_BYTES, settled_of
from checkers.spark.session import open_session
from checkers.spark.tables import empty
from checkers.verdicts.catalogue import BLACK_BOX, DRAINS
from checkers.verdicts.jobs import collect_families
from checkers.verdicts.verdict import Row, by_checker, judge

BYTES_A_MICRO_OPERATION = 65
"""Of JSON lines, about: by their size a session is chosen."""
WITNESSES = 1000
"""Findings that are brought back of a kind: all that are planted."""


def judged(spark: SparkSession, folder: Path, info: RunInfo, parallel: int = 3, *, settle: bool) -> list[Row]:
    """What the black-box families find in the tables of a folder. settle: whether what is settled is left out."""
    history = stored_history(spark, folder)
    nothing = empty(spark, schema.EVENTS)
    evidence = build_evidence(
        info,
        history,
        nothing,
        znode_tables(empty(spark, schema.ZNODE)),
        empty(spark, schema.BATCH),
        empty(spark, schema.CHECKPOINT),
        [],
    )
    settled = settled_of(history, folder) if settle else None

    def facts_of(some: History) -> Facts:
        return build_facts(
            some,
            leader_changes(history, evidence),
            expiry=None,
            events=nothing,
            settled=None if settled is None else settled.acked,
        )

    facts = facts_of(history if settled is None else settled.rest)
    of_records = facts_of(settled.records) if settled is not None and settled.records is not None else None
    rows = collect_families(black_box(facts, of_records), witnesses=WITNESSES, parallel=parallel)
    return rows if settled is None else with_settled(rows, settled.counts, settled.available)


def as_json(rows: Sequence[Row], info: RunInfo) -> dict[str, Any]:
    """Findings (checker, kind, p, offset, value, count of its kind in its partition) and verdicts."""
    found = by_checker(rows)
    verdicts = {
        spec.name: judge(
            spec, found[spec.name], info.partitions, not_applicable=not_applicable(spec, info, found[spec.name])
        ).verdict
        for spec in (*BLACK_BOX, *DRAINS)
    }
    findings = [
        {
            "checker": row.checker,
            "kind": row.kind,
            "rule": row.rule,
            "p": row.p,
            "offset": row.offset,
            "value": row.value,
            "count": row.count,
        }
        for row in rows
        if row.kind != "figure"
    ]
    return {"verdicts": verdicts, "findings": findings, "figures": _figures(rows)}


def _figures(rows: Sequence[Row]) -> Mapping[str, float]:
    """Sums over partitions of what is counted."""
    sums: dict[str, float] = {}
    for row in rows:
        if row.kind == "figure" and not row.detail.endswith("_ms"):
            name = f"{row.checker}.{row.detail}"
            sums[name] = sums.get(name, 0.0) + row.figure
    return sums


def main(argv: Sequence[str] | None = None) -> None:
    """Judge one folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkers.judge")
    parser.add_argument("folder", type=Path, help="of the tables, and run.json")
    parser.add_argument("out", type=Path)
    parser.add_argument("--micro-operations", type=int, required=True)
    arguments = parser.parse_args(argv)
    began = time.monotonic()
    size = arguments.micro_operations * BYTES_A_MICRO_OPERATION
    spark = open_session(history_bytes=size)
    started = time.monotonic()
    info = load_run_info(arguments.folder)
    rows = judged(spark, arguments.folder, info, settle=size >= LEAST_BYTES)
    over = time.monotonic()
    spark.stop()
    seconds = {"start_s": started - began, "judge_s": over - started}
    arguments.out.write_text(json.dumps({**as_json(rows, info), **seconds}), encoding="utf-8")


if __name__ == "__main__":
    main()
