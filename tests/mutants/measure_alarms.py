"""`make alarms`: how the lab judges the broker as it is, by every run file of `examples/runs` that expects a valid run.

    python -m tests.mutants.measure_alarms [RUN …] [--seeds N] [--minutes M] [--at-once N] [--table-only]

Each (run file, seed) is run once, and its outcome is a line of `alarms.jsonl` in this folder: a measurement that was
ended goes on where it was, and one of a run file that has changed since is made again. After every run the tables of
docs/detection.md are written anew. What runs leave behind is removed, but for that line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from broker.tools.options import number
from harness.plan.run_file import EXPECTATION, load_expectation
from harness.runs.run_files import load
from tests.mutants import alarms, detection, lines
from tests.mutants.alarms import Alarmed, Unmutated
from tests.mutants.lab import Judged, LabRun
from tests.mutants.measurements import append_line, carry_out, read_lines
from tests.mutants.patches import HERE, MIXES, ROOT

RESULTS = HERE / "alarms.jsonl"
PAGE = ROOT / "docs" / "detection.md"
SEEDS = 7


def run_files() -> dict[str, Path]:
    """Name → run file, of those that are to be valid."""
    return {
        file.stem: file
        for file in sorted(MIXES.glob("*.toml"))
        if not file.name.endswith(EXPECTATION) and load_expectation(file, load(file)).expect == "valid"
    }


def digests() -> dict[str, str]:
    return {name: blake2b(file.read_bytes(), digest_size=8).hexdigest() for name, file in run_files().items()}


def wanted_runs(of: Collection[str], seeds: int) -> dict[Unmutated, LabRun]:
    """Every run, first seeds first: what is known at any time is spread over all run files."""
    texts = digests()
    return {
        Unmutated(name, seed, texts[name]): LabRun(file, seed)
        for seed in range(1, seeds + 1)
        for name, file in run_files().items()
        if name in of
    }


def write_tables(done: Sequence[Alarmed], files: Mapping[str, str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        detection.with_table(page, alarms.tables(files, done), (alarms.BEGIN, alarms.END)), encoding="utf-8"
    )


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.measure_alarms", allow_abbrev=False)
    names = list(run_files())
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many, from 1 on (default {SEEDS})")
    parser.add_argument("--minutes", type=number, default=float("inf"), help="begin no run after so long")
    parser.add_argument("--at-once", type=int, default=1, help="runs recorded beside the judging (default 1)")
    parser.add_argument("--table-only", action="store_true", help="run nothing, write the tables")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.runs) - set(names):
        parser.error(f"no such run file: {', '.join(sorted(unknown))}; they are {', '.join(names)}")
    for option, value in (("--seeds", arguments.seeds), ("--at-once", arguments.at_once)):
        if value < 1:
            parser.error(f"{option} must be 1 or more")
    return arguments


def main(argv: Sequence[str]) -> None:
    """Make what is due."""
    arguments = _arguments(argv)
    done = alarms.from_lines(read_lines(RESULTS))
    files = digests()
    runs = wanted_runs(arguments.runs or files, arguments.seeds)
    due = [] if arguments.table_only else lines.due(runs, {one.wanted for one in done})
    write_tables(done, files)

    def keep(one: Unmutated, judged: Judged | None) -> str:
        found = Alarmed(one, lines.BROKE_OFF) if judged is None else alarms.alarmed(one, judged.results)
        append_line(RESULTS, lines.to_line(found))
        done.append(found)
        write_tables(done, files)
        return f"{one.run}, seed {one.seed}: {found.verdict} {', '.join((*found.alarms, *found.why))}"

    carry_out({one: runs[one] for one in due}, keep, at_once=arguments.at_once, minutes=arguments.minutes)


if __name__ == "__main__":
    main(sys.argv[1:])
