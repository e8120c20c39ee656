"""`python -m benchmarks cycles`: make histories of transactions, have their cycles looked for, write a table and JSON.

Ends with 0 where at every size the planted cycles were found, and no other that is invalid; else with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.checkers.fit import beyond_fixed, slope
from benchmarks.checkers.tree import run
from benchmarks.cycles.shape import PLANTED, Shape, shape_of
from benchmarks.cycles.stored import make
from broker.tools.options import number
from harness.tools.java import find_java_for_spark

COMMAND = "cycles"
SIZES = (10**4, 10**5, 10**6)
RESULTS = Path("benchmarks/results")
_EXPECTED = {"g1c invalid": PLANTED}
_EDGES = ("g0 writes_in_order", "g1b transactions_read", "g2 reads_to_the_end")
"""Figures of dependencies by data."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One history, judged once. problem: why it was not judged, or what was found instead of what is planted."""

    transactions: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    load: float
    edges: int = 0
    problem: str | None = None


def main(argv: Sequence[str]) -> int:
    """Measure all that is asked for; results are written after each size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cycles", description=__doc__)
    parser.add_argument("--sizes", type=number, nargs="+", default=SIZES, help="transactions (1e4 1e5 1e6)")
    parser.add_argument("--seed", type=int, default=1, help="of where cycles are planted (1)")
    parser.add_argument("--folder", type=Path, default=Path("store/bench-cycles"), help="where histories are made")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"where results go ({RESULTS})")
    parser.add_argument("--limit", type=number, default=7200.0, metavar="S", help="of each judgement (7200)")
    asked = parser.parse_args(argv)
    rows: list[Measured] = []
    for size in asked.sizes:
        try:
            shape = shape_of(int(size), asked.seed)
        except (ValueError, OverflowError) as error:
            print(f"benchmarks cycles: --sizes: {error}", file=sys.stderr)
            return 2
        rows.append(_measured(shape, asked.folder / f"{shape.transactions}", asked.limit))
        asked.results.mkdir(parents=True, exist_ok=True)
        (asked.results / f"{COMMAND}.md").write_text(table(rows), encoding="utf-8")
        (asked.results / f"{COMMAND}.json").write_text(
            json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8"
        )
    print((asked.results / f"{COMMAND}.md").read_text(encoding="utf-8"))
    return 0 if all(row.problem is None for row in rows) else 1


def _measured(shape: Shape, folder: Path, limit_s: float) -> Measured:
    print(f"{shape.transactions:,} transactions", file=sys.stderr, flush=True)
    make(shape, folder)
    log, out = folder / "judge.log", folder / "judged.json"
    command = [sys.executable, "-m", "benchmarks.cycles.judge", str(folder), str(out)]
    environment = {**os.environ, "JAVA_HOME": str(find_java_for_spark().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        used = run([*command, "--transactions", str(shape.transactions)], log, environment, limit_s)
    except TimeoutError as error:
        return Measured(shape.transactions, limit_s, 0.0, 0, os.getloadavg()[0], problem=str(error))
    made = (shape.transactions, used.wall_s, used.cpu_s, used.peak_bytes, os.getloadavg()[0])
    if used.code != 0:
        return Measured(*made, problem=f"exit code {used.code}: {log.read_text(errors='replace')[-200:].strip()}")
    judged = json.loads(out.read_text(encoding="utf-8"))
    shutil.rmtree(folder)
    edges = sum(judged["figures"].get(name, 0.0) for name in _EDGES)
    wrong = {name: count for name, count in judged["found"].items() if "allowed" not in name} != _EXPECTED
    problem = f"found {judged['found']}, planted {_EXPECTED}" if wrong else None
    return Measured(*made, edges=int(edges), problem=problem)


def table(rows: Sequence[Measured]) -> str:
    """The Markdown file."""
    lines = [
        "# Transactional cycles at size",
        "",
        "| transactions | dependencies by data | wall s | CPU s | peak MB | found | load |",
        "|---:|---:|---:|---:|---:|---|---:|",
    ]
    for row in rows:
        found = f"{PLANTED} of {PLANTED}" if row.problem is None else f"**wrong: {row.problem}**"
        lines.append(
            f"| {row.transactions:,} | {row.edges:,} | {row.wall_s:.1f} | {row.cpu_s:.1f} | "
            f"{row.peak_bytes / 1e6:,.0f} | {found} | {row.load:.1f} |"
        )
    judged = [row for row in rows if row.problem is None]
    cpu = [(row.transactions, row.cpu_s) for row in judged]
    rise, more = slope(cpu), beyond_fixed(cpu)
    if rise is not None and more is not None:
        lines += ["", f"CPU: slope of the logarithms {rise:.2f}; {more * 1e6:.0f} µs a transaction more."]
    return "\n".join(lines) + "\n"
