"""What a measurement says of a run, which runs are due, and the table. No I/O but reading the mutants' files."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.mutants import detection, lines
from tests.mutants.detection import Measured, Wanted
from tests.mutants.measure import PAGE, RESULTS, SEEDS, mix_of, wanted_runs
from tests.mutants.measurements import whole_lines
from tests.mutants.patches import mutants

WANTED = Wanted("m", "script", "r", 1, "0a")


def witness(kind: str = "invalid", from_ns: int | None = None, to_ns: int | None = None) -> dict[str, Any]:
    return {"kind": kind, "from_ns": from_ns, "to_ns": to_ns}


def results(**checkers: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    found = {
        name.replace("_", "-"): {"verdict": verdict, "witnesses": witnesses}
        for name, (verdict, witnesses) in checkers.items()
    }
    return {
        "verdict": "invalid" if "invalid" in {one["verdict"] for one in found.values()} else "valid",
        "checkers": found,
    }


def one(found: tuple[str, ...] = (), first_s: float | None = None, verdict: str = "invalid", **of: Any) -> Measured:
    return Measured(dataclasses.replace(WANTED, **of), verdict, found, (), first_s)


def test_found_is_what_a_named_checker_calls_invalid_and_others_are_told_apart() -> None:
    judged = results(
        lost_write=("invalid", [witness(to_ns=9_000_000_000), witness(to_ns=4_250_000_000)]),
        duplicate=("invalid", [witness(to_ns=1)]),
        lost_tail=("valid", []),
        truncation=("unknown", [witness("unknown", to_ns=1)]),
    )
    found = detection.measured(WANTED, ["lost-write", "lost-tail", "truncation"], judged)
    assert found == Measured(WANTED, "invalid", ("lost-write",), ("duplicate",), 4.2)


def test_valid_run_has_found_nothing() -> None:
    found = detection.measured(WANTED, ["lost-write"], results(lost_write=("valid", [])))
    assert (found.verdict, found.found, found.first_s) == ("valid", (), None)


@pytest.mark.parametrize(
    ("witnesses", "expected"),
    [
        ([], None),
        ([witness()], None),
        ([witness(from_ns=2_000_000_000)], 2.0),
        ([witness(from_ns=1_000_000_000, to_ns=3_000_000_000)], 3.0),
        ([witness("allowed", to_ns=1_000_000_000), witness(to_ns=5_000_000_000)], 5.0),
        ([witness(to_ns=0), witness(to_ns=5_000_000_000)], 0.0),
    ],
)
def test_first_is_the_earliest_end_of_an_invalid_finding(
    witnesses: list[dict[str, Any]], expected: float | None
) -> None:
    assert detection.first_s(witnesses) == expected


def test_lines_come_back_as_they_were_and_a_torn_last_one_is_left_out() -> None:
    made = [one(("lost-write",), 4.2), one(verdict="valid", seed=2), one(verdict=lines.BROKE_OFF, by="mix")]
    text = "".join(lines.to_line(each) + "\n" for each in made)
    assert detection.from_lines(text) == made
    torn = text + lines.to_line(one(seed=9))[:40]
    assert detection.from_lines(torn) == made
    assert whole_lines(torn) == text
    assert whole_lines("torn") == ""


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"wanted": {}}'])
def test_line_that_is_no_measurement_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is no measurement"):
        detection.from_lines(lines.to_line(one()) + f"\n{line}\n")


def test_due_is_what_was_not_made_of_these_very_texts() -> None:
    wanted = [dataclasses.replace(WANTED, seed=seed) for seed in (1, 2, 3)]
    done = [one(seed=2), one(seed=3, text="another")]
    assert [each.seed for each in lines.due(wanted, {one.wanted for one in done})] == [1, 3]


def test_table_counts_median_worst_and_checkers_of_what_is_wanted() -> None:
    wanted = [dataclasses.replace(WANTED, seed=seed) for seed in (1, 2, 3)]
    mix = [dataclasses.replace(WANTED, by="mix", run="demo", seed=seed) for seed in (1, 2)]
    alone = dataclasses.replace(WANTED, mutant="n")
    done = [
        one(("a", "b"), 3.0),
        one(("b",), 9.4, seed=2),
        one(("b",), None, seed=3),
        one(verdict="valid", by="mix", run="demo"),
        one(verdict=lines.BROKE_OFF, by="mix", run="demo", seed=2),
        one(("z",), 1.0, text="of another text"),
    ]
    rows = detection.table([*wanted, *mix, alone], done).splitlines()[2:]
    assert rows == [
        "| `m` | 3 of 3 | 9, 9 | b 3, a 1 | `demo` | 0 of 2, 1 broke off |  |  |",
        "| `n` | – | |  | none comes near | – | |  |",
    ]


def test_page_gets_the_rows_between_its_marks_alone() -> None:
    page = f"before\n{detection.BEGIN}\nold\n{detection.END}\nafter\n"
    new = detection.with_table(page, "| rows |\n")
    assert new == f"before\n{detection.BEGIN}\n\n| rows |\n\n{detection.END}\nafter\n"
    assert detection.with_table(new, "| rows |\n") == new
    with pytest.raises(ValueError, match="has no"):
        detection.with_table("no marks", "")


def test_every_mutant_is_wanted_by_its_run_file_and_by_the_mix_that_comes_near_it() -> None:
    wanted = wanted_runs(mutants(), 2, ("script", "mix"))
    for mutant in mutants():
        mix = mix_of(mutant)
        assert mix is None or mix.is_file(), mutant.name
        mine = {(one.by, one.run, one.seed): run for one, run in wanted.items() if one.mutant == mutant.name}
        files = [("script", mutant.run)] + ([] if mix is None else [("mix", mix)])
        assert mine.keys() == {(by, file.stem, seed) for by, file in files for seed in (1, 2)}
        assert all(run.mutant == mutant and run.seed == key[2] for key, run in mine.items())


def test_a_mutant_or_run_file_that_changed_is_measured_anew() -> None:
    mutant = next(one for one in mutants() if mix_of(one) is not None)
    edits = (dataclasses.replace(mutant.edits[0], new="other"), *mutant.edits[1:])
    before, after = (wanted_runs([each], 1, ("script",)) for each in (mutant, dataclasses.replace(mutant, edits=edits)))
    assert before.keys().isdisjoint(after)


def test_page_shows_what_was_measured() -> None:
    """Of the mutants and mixes as they are now."""
    wanted = list(wanted_runs(mutants(), SEEDS, ("script", "mix")))
    page = PAGE.read_text()
    assert detection.with_table(page, detection.table(wanted, detection.from_lines(RESULTS.read_text()))) == page, (
        "python -m tests.mutants.measure --table-only"
    )
