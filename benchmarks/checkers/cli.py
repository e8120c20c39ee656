"""`python -m benchmarks checkers`: make histories, have them judged, write table, JSON and plots.

Ends with 0 when every judge found at every size what was planted, and nothing else; else with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.checkers.lines import write_lines
from benchmarks.checkers.planted import Found, expected, plan
from benchmarks.checkers.report import CHECKERS, DUCKDB, LINES, Measured, svg, table
from benchmarks.checkers.run_folder import write_run
from benchmarks.checkers.shape import Shape, shape_of
from benchmarks.checkers.stored import make
from benchmarks.checkers.tree import Used, run
from benchmarks.checkers.yardstick import QUESTIONS
from broker.tools.options import number
from harness.tools.java import find_java_for_spark

COMMAND = "checkers"
SIZES = (10**5, 10**6, 10**7, 10**8)
LINES_UPTO = 10**6
"""The largest size at which JSON lines are judged as well."""
RESULTS = Path("benchmarks/results")
_VERDICTS = (0, 1, 2)
"""Exit codes of `python -m checkers` that say that it judged."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for on the command line. limit_s: of each judgement."""

    sizes: Sequence[int]
    seed: int
    folder: Path
    results: Path
    judges: Sequence[str]
    limit_s: float
    keep: bool


def main(argv: Sequence[str]) -> int:
    """Measure all that is asked for; results are written after each size."""
    asked = _parse(argv)
    rows: list[Measured] = []
    for size in asked.sizes:
        try:
            shape = shape_of(size, asked.seed)
        except ValueError as error:
            print(f"benchmarks checkers: --sizes: {error}", file=sys.stderr)
            return 2
        rows += _of_size(shape, size, asked)
        write_results(rows, asked.results, asked.seed)
    print((asked.results / "checkers.md").read_text(encoding="utf-8"))
    return 0 if all(row.right for row in rows) else 1


def _parse(argv: Sequence[str]) -> Asked:
    parser = argparse.ArgumentParser(prog="python -m benchmarks checkers", description=__doc__)
    parser.add_argument(
        "--sizes", type=_size, nargs="+", default=SIZES, help="micro-operations; 1e9 takes 15 GB of disk"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the histories (1)")
    parser.add_argument("--folder", type=Path, default=Path("store/bench-checkers"), help="where histories are made")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"where results go ({RESULTS})")
    parser.add_argument("--judges", nargs="+", choices=sorted(_JUDGES), default=sorted(_JUDGES), help="all by default")
    parser.add_argument("--limit", type=number, default=3600.0, metavar="S", help="of each judgement (3600)")
    parser.add_argument("--keep", action="store_true", help="leave the histories there, for the next time")
    asked = parser.parse_args(argv)
    return Asked(asked.sizes, asked.seed, asked.folder, asked.results, asked.judges, asked.limit, asked.keep)


def _size(text: str) -> int:
    try:
        return int(number(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of micro-operations, such as 1e7") from None


def _of_size(shape: Shape, size: int, asked: Asked) -> list[Measured]:
    rows = []
    for name in asked.judges:
        if name == "lines" and size > LINES_UPTO:
            continue
        # JSON lines are loaded into tables beside them.
        folder = asked.folder / f"{'lines' if name == 'lines' else 'tables'}-{size}"
        _progress(f"{size:,} micro-operations, {name}: making the history")
        (_make_lines if name == "lines" else _make_tables)(shape, folder)
        _progress(f"{size:,} micro-operations, {name}: judging")
        rows.append(_JUDGES[name](shape, folder, asked))
        _progress(f"{size:,} micro-operations, {name}: {rows[-1].wall_s:.1f} s, {_said(rows[-1])}")
        if name == "lines" and not asked.keep:
            shutil.rmtree(folder)
    if not asked.keep:
        shutil.rmtree(asked.folder / f"tables-{size}", ignore_errors=True)
    return rows


def _said(row: Measured) -> str:
    return "all planted anomalies found, and nothing else" if row.right else f"WRONG: {row.problem or row.wrong[:3]}"


def _make_tables(shape: Shape, folder: Path) -> None:
    make(shape, folder, os.cpu_count() or 1)
    write_run(folder)


def _make_lines(shape: Shape, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_run(folder, write_lines(shape, folder / "history.jsonl"))


def _by_checkers(shape: Shape, folder: Path, asked: Asked) -> Measured:
    out = folder / "judged.json"
    size = str(shape.micro_operations)
    command = ["-m", "benchmarks.checkers.judge", str(folder), str(out), "--micro-operations", size]
    return _measured(CHECKERS, shape, command, folder, asked, lambda: _compared(shape, out))


def _by_duckdb(shape: Shape, folder: Path, asked: Asked) -> Measured:
    out = folder / "asked.json"
    command = ["-m", "benchmarks.checkers.yardstick", str(folder), str(out), "--threads", str(os.cpu_count() or 1)]
    return _measured(DUCKDB, shape, command, folder, asked, lambda: _compared(shape, out, QUESTIONS))


def _by_lines(shape: Shape, folder: Path, asked: Asked) -> Measured:
    """`python -m checkers`, which shows no more than ten findings of a checker, and counts all."""
    return _measured(LINES, shape, ["-m", "checkers", str(folder)], folder, asked, lambda: _counted(shape, folder))


_JUDGES: Mapping[str, Callable[[Shape, Path, Asked], Measured]] = {
    "checkers": _by_checkers,
    "duckdb": _by_duckdb,
    "lines": _by_lines,
}


@dataclass(frozen=True, slots=True)
class _Compared:
    planted: int
    found: int
    wrong: Sequence[str]
    start_s: float = 0.0


def _measured(
    judge: str,
    shape: Shape,
    command: Sequence[str],
    folder: Path,
    asked: Asked,
    compared: Callable[[], _Compared],
) -> Measured:
    log = folder / "judge.log"
    environment = {**os.environ, "JAVA_HOME": str(find_java_for_spark().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    problem: str | None
    try:
        used = run([sys.executable, *command], log, environment, asked.limit_s)
    except TimeoutError as error:
        used, problem = Used(asked.limit_s, 0.0, 0, 0, -1), str(error)
    else:
        judged = _VERDICTS if judge == LINES else (0,)
        problem = None if used.code in judged else f"exit code {used.code}: {_tail(log)}"
    result = _Compared(0, 0, ()) if problem else compared()
    return Measured(
        judge,
        shape.micro_operations,
        used.wall_s,
        used.cpu_s,
        used.peak_bytes,
        result.start_s,
        result.planted,
        result.found,
        result.wrong,
        os.getloadavg()[0],
        problem,
    )


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no output"


def _compared(shape: Shape, out: Path, only: Mapping[str, object] | None = None) -> _Compared:
    """Finding by finding. only: the checkers that were asked."""
    judged = json.loads(out.read_text(encoding="utf-8"))
    found = Counter(_found(row) for row in judged["findings"])
    planted = Counter(
        {one: n for one, n in expected(shape, plan(shape)).items() if only is None or one.checker in only}
    )
    wrong = [f"not found: {one}" for one in (planted - found).elements()]
    wrong += [f"not planted: {one}" for one in (found - planted).elements()]
    return _Compared(planted.total(), (found & planted).total(), wrong, judged.get("start_s", 0.0))


def _found(row: Mapping[str, Any]) -> Found:
    numbers = [-1 if row[name] is None else int(row[name]) for name in ("offset", "value")]
    return Found(str(row["checker"]), str(row["p"]), *numbers)


def _counted(shape: Shape, folder: Path) -> _Compared:
    """Counts of each checker, and each finding that is shown."""
    checkers = json.loads((folder / "results.json").read_text(encoding="utf-8"))["checkers"]
    planted = expected(shape, plan(shape))
    of_checker = Counter({one.checker: 0 for one in planted})
    for one, n in planted.items():
        of_checker[one.checker] += n
    # Losses are counted by that name.
    counts = {
        name: int(check["counts"].get("found", check["counts"].get("lost", 0))) for name, check in checkers.items()
    }
    wrong = [
        f"{name}: {counts.get(name, 0)} found, {of_checker[name]} planted"
        for name in sorted({*of_checker, *counts})
        if counts.get(name, 0) != of_checker[name]
    ]
    shown = [
        _found({**witness, "checker": name, "p": witness["partition"]})
        for name, check in checkers.items()
        for witness in check.get("witnesses", ())
        if check["verdict"] == "invalid"
    ]
    wrong += [f"not planted: {one}" for one in shown if one not in planted]
    return _Compared(planted.total(), sum(min(counts.get(name, 0), n) for name, n in of_checker.items()), wrong)


def write_results(rows: Sequence[Measured], folder: Path, seed: int) -> None:
    """checkers.md, .json and .svg."""
    folder.mkdir(parents=True, exist_ok=True)
    head = [
        f"Seed {seed}; {os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}. "
        "Findings: how many of those planted were found, and nothing else; see docs/benchmarks.md.",
    ]
    (folder / "checkers.md").write_text(table(rows, head), encoding="utf-8")
    (folder / "checkers.svg").write_text(svg(rows), encoding="utf-8")
    (folder / "checkers.json").write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
