"""`python -m benchmarks.cycles.judge FOLDER OUT --transactions N`: the family of cycles over stored tables, with the
session, facts and job of `highwater analyze`. Writes OUT: seconds, how many edges were searched, and what was found.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from checkers.black_box.facts import build_facts
from checkers.history.load import stored_history
from checkers.history.schema import LEADER_CHANGE
from checkers.spark.session import open_session
from checkers.spark.tables import empty
from checkers.transactions.cycles import cycle_checks
from checkers.verdicts.jobs import collect_group

BYTES_A_TRANSACTION = 1_500
"""Of JSON lines, about: two sends, a commit and a poll. By their size a session is chosen."""


def main(argv: Sequence[str] | None = None) -> None:
    """Judge one folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cycles.judge")
    parser.add_argument("folder", type=Path, help="of the tables")
    parser.add_argument("out", type=Path)
    parser.add_argument("--transactions", type=int, required=True)
    arguments = parser.parse_args(argv)
    began = time.monotonic()
    spark = open_session(history_bytes=arguments.transactions * BYTES_A_TRANSACTION)
    started = time.monotonic()
    facts = build_facts(stored_history(spark, arguments.folder), empty(spark, LEADER_CHANGE), expiry=None)
    rows = collect_group([cycle_checks(facts)])
    over = time.monotonic()
    spark.stop()
    # A count is that of its kind, rule and partition, and every finding of these tells it.
    counts = {(row.checker, row.kind, row.rule, row.p): row.count for row in rows if row.kind != "figure"}
    found: Counter[str] = Counter()
    for (checker, kind, *_), count in counts.items():
        found[f"{checker} {kind}"] += count
    figures: dict[str, float] = {}
    for row in rows:
        if row.kind == "figure":
            name = f"{row.checker} {row.detail}"
            figures[name] = figures.get(name, 0.0) + row.figure
    said = {"found": found, "figures": figures, "start_s": started - began, "judge_s": over - started}
    arguments.out.write_text(json.dumps(said, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
