"""`make detection`: how surely and how soon the lab finds the planted bugs, by their own run files and by random mixes.

    python -m tests.mutants.measure [MUTANT …] [--seeds N] [--by script|mix] [--minutes M] [--at-once N]
        [--table-only]

Each (mutant, run file, seed) is run once, and its outcome is a line of `measured.jsonl` in this folder: a measurement
that was ended goes on where it was, and one of a mutant or run file that has changed since is made again. After every
run the table of docs/detection.md is written anew. What runs leave behind is removed, but for that line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from broker.tools.options import number
from harness.runs.run_files import load as load_plan
from tests.mutants import detection, lines
from tests.mutants.detection import By, Measured, Wanted
from tests.mutants.lab import Judged, LabRun
from tests.mutants.measurements import append_line, carry_out, read_lines
from tests.mutants.patches import HERE, MIXES, ROOT, Mutant, mutants

RESULTS = HERE / "measured.jsonl"
PAGE = ROOT / "docs" / "detection.md"
SEEDS = 5
MIX_OF_WORKLOAD = {
    "admin": "admin",
    "append-poll": "demo",
    "compaction": "compaction",
    "groups": "groups",
    "idempotent": "idempotent",
    "recreate": "recreate",
    "transactions": "transactions",
}


def mix_of(mutant: Mutant) -> Path | None:
    """The nightly run file whose random faults come near the bug; None where there is none."""
    name = MIX_OF_WORKLOAD[load_plan(mutant.run).workload.kind] if mutant.mix is None else mutant.mix
    return MIXES / f"{name}.toml" if name else None


def files_of(mutant: Mutant) -> list[tuple[By, Path]]:
    """By what it is measured."""
    mix = mix_of(mutant)
    found: list[tuple[By, Path]] = [("script", mutant.run)]
    return found if mix is None else [*found, ("mix", mix)]


def wanted_runs(of: Sequence[Mutant], seeds: int, by: Sequence[By]) -> dict[Wanted, LabRun]:
    """Every run, scripts before mixes and first seeds first: what is known at any time is spread over all bugs."""
    found = {}
    for kind in by:
        for seed in range(1, seeds + 1):
            for mutant in of:
                for file in (path for one, path in files_of(mutant) if one == kind):
                    found[Wanted(mutant.name, kind, file.stem, seed, _digest(mutant, file))] = LabRun(
                        file, seed, mutant
                    )
    return found


def _digest(mutant: Mutant, file: Path) -> str:
    return blake2b(repr(mutant.edits).encode() + file.read_bytes(), digest_size=8).hexdigest()


def measured(wanted: Wanted, run: LabRun, judged: Judged | None) -> Measured:
    """What a run shows of its bug; judged is None where it broke off."""
    assert run.mutant is not None
    if judged is None:
        return Measured(wanted, lines.BROKE_OFF, (), (), None)
    return detection.measured(wanted, run.mutant.finds, judged.results)


def write_table(done: Sequence[Measured], seeds: int) -> None:
    """Of all mutants and the usual seeds, whichever were asked for; seeds: the table has so many at least."""
    rows = detection.table(list(wanted_runs(mutants(), max(seeds, SEEDS), ("script", "mix"))), done)
    PAGE.write_text(detection.with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.measure", allow_abbrev=False)
    names = [mutant.name for mutant in mutants()]
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many, from 1 on (default {SEEDS})")
    parser.add_argument("--by", choices=("script", "mix"), help="default: both, the bugs' own run files first")
    parser.add_argument("--minutes", type=number, default=float("inf"), help="begin no run after so long")
    parser.add_argument("--at-once", type=int, default=1, help="runs recorded beside the judging (default 1)")
    parser.add_argument("--table-only", action="store_true", help="run nothing, write the table")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.mutants) - set(names)
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}; they are {', '.join(names)}")
    if arguments.seeds < 1:
        parser.error("--seeds must be 1 or more")
    if arguments.at_once < 1:
        parser.error("--at-once must be 1 or more")
    return arguments


def main(argv: Sequence[str]) -> None:
    """Make what is due."""
    arguments = _arguments(argv)
    done = detection.from_lines(read_lines(RESULTS))
    of = [mutant for mutant in mutants() if not arguments.mutants or mutant.name in arguments.mutants]
    runs = wanted_runs(of, arguments.seeds, (arguments.by,) if arguments.by else ("script", "mix"))
    due = [] if arguments.table_only else lines.due(list(runs), {one.wanted for one in done})
    write_table(done, arguments.seeds)

    def keep(one: Wanted, judged: Judged | None) -> str:
        found = measured(one, runs[one], judged)
        append_line(RESULTS, lines.to_line(found))
        done.append(found)
        write_table(done, arguments.seeds)
        by = ", ".join(found.found) or "not found"
        return f"{one.mutant}, {one.run}, seed {one.seed}: {found.verdict}, {by}"

    carry_out({one: runs[one] for one in due}, keep, at_once=arguments.at_once, minutes=arguments.minutes)


if __name__ == "__main__":
    main(sys.argv[1:])
