"""What a measurement says of a run of the broker as it is, which runs are due, and the tables.

No I/O but reading the run files.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.mutants import alarms, detection, lines
from tests.mutants.alarms import Alarmed, Unmutated
from tests.mutants.measure_alarms import PAGE, RESULTS, SEEDS, digests, run_files, wanted_runs

WANTED = Unmutated("r", 1, "0a")


def results(verdict: str, **over: Any) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "checkers": {"lost-write": {"verdict": "valid", "reasons": []}},
        "coverage": {"missing": [], "figures": {"acknowledged": 5}},
        "faults": [
            {"fault": "kill", "observed": True},
            {"fault": "cut", "observed": False},
            {"fault": "kill", "observed": True},
        ],
        **over,
    }


def test_valid_run_has_its_records_and_the_faults_that_were_in_effect() -> None:
    assert alarms.alarmed(WANTED, results("valid")) == Alarmed(WANTED, "valid", (), (), 5, {"kill": 2})


def test_invalid_run_names_the_checkers() -> None:
    checkers = {name: {"verdict": verdict, "reasons": ["x"]} for name, verdict in (("b", "invalid"), ("a", "unknown"))}
    found = alarms.alarmed(WANTED, results("invalid", checkers=checkers))
    assert (found.alarms, found.why) == (("b",), ())


def test_unknown_run_says_why_each_reason_once() -> None:
    checkers = {"staleness": {"verdict": "unknown", "reasons": ["no poll"]}, "hw": {"verdict": "valid", "reasons": []}}
    judged = results(
        "unknown", checkers=checkers, reasons=["aborted"], coverage={"missing": ["aborted", "writes"], "figures": {}}
    )
    found = alarms.alarmed(WANTED, judged)
    assert (found.why, found.acknowledged) == (("aborted", "writes", "staleness: no poll"), 0)


def test_lines_come_back_as_they_were() -> None:
    made = [
        Alarmed(WANTED, "unknown", (), ("why",), 3, {"kill": 1}),
        Alarmed(dataclasses.replace(WANTED, seed=2), lines.BROKE_OFF),
    ]
    assert alarms.from_lines("".join(lines.to_line(one) + "\n" for one in made)) == made


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"wanted": {}}', '{"wanted": {"run": "r", "seed": 1}}'])
def test_line_that_is_no_measurement_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is no measurement"):
        alarms.from_lines(lines.to_line(Alarmed(WANTED, "valid")) + f"\n{line}\n")


def test_due_is_what_was_not_made_of_these_very_texts() -> None:
    wanted = [dataclasses.replace(WANTED, seed=seed) for seed in (1, 2, 3)]
    done = [Alarmed(wanted[1], "valid"), Alarmed(dataclasses.replace(wanted[2], text="other"), "valid")]
    assert [one.seed for one in lines.due(wanted, {one.wanted for one in done})] == [1, 3]


def test_tables_sum_what_is_current_and_tell_each_run_that_is_not_valid() -> None:
    done = [
        Alarmed(WANTED, "valid", (), (), 1_000, {"kill": 2}),
        Alarmed(dataclasses.replace(WANTED, seed=3), "unknown", (), tuple("abcdefg"), 10, {"cut": 1}),
        Alarmed(dataclasses.replace(WANTED, seed=2), "invalid", ("lost-write",), (), 10, {"kill": 1}),
        Alarmed(Unmutated("q", 1, "0b"), lines.BROKE_OFF),
        Alarmed(Unmutated("q", 1, "of another text"), "invalid", ("x",)),
    ]
    told = alarms.tables({"r": "0a", "q": "0b"}, done).splitlines()
    verdicts = "1 valid, 1 unknown, 1 invalid, 1 broke off"
    assert told[0] == f"4 runs: {verdicts}; 1,020 acknowledged records, 4 faults in effect of 2 kinds."
    assert told[1:] == [
        "",
        "| run file | runs | valid | unknown | invalid | acknowledged records | faults in effect |",
        "|---|---|---|---|---|---|---|",
        "| `q` | 1 | 0 | 0 | 0 | 0 | – |",
        "| `r` | 3 | 1 | 1 | 1 | 1,020 | cut 1, kill 3 |",
        "",
        "- `q`, seed 1: broke off",
        "- `r`, seed 2: invalid: **lost-write**",
        "- `r`, seed 3: unknown: a; b; c; d; e; 2 more reasons",
    ]


def test_every_run_file_that_is_to_be_valid_is_wanted_first_seeds_first() -> None:
    names = set(run_files())
    assert "demo" in names
    assert "kip-101-leader-epoch" in names
    # What these expect stands beside the one, and in the other.
    assert names.isdisjoint({"kip-101-high-watermark", "power-unsynced"})
    wanted = wanted_runs(names, 2)
    assert [one.seed for one in wanted] == [1] * len(names) + [2] * len(names)
    assert all(run.mutant is None and (run.file.stem, run.seed) == (one.run, one.seed) for one, run in wanted.items())


def test_page_shows_what_was_measured() -> None:
    """Of the run files as they are now."""
    page = PAGE.read_text()
    rows = alarms.tables(digests(), alarms.from_lines(RESULTS.read_text()))
    assert detection.with_table(page, rows, (alarms.BEGIN, alarms.END)) == page, (
        "python -m tests.mutants.measure_alarms --table-only"
    )


def test_seeds_are_so_many_that_they_make_two_hundred_runs() -> None:
    assert SEEDS * len(run_files()) >= 200
