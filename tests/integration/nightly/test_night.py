from __future__ import annotations

from pathlib import Path
from threading import Barrier

import pytest

from harness.nightly.fault_coverage import RUNS_ENOUGH
from harness.nightly.history import open_history
from harness.nightly.jobs import Job, Result
from harness.nightly.night import Settings
from harness.plan.toml_source import PlanError
from harness.runs.trouble import INFRASTRUCTURE, LAB
from tests.support.nights import Function, Runner, night, nights

pytestmark = pytest.mark.guarantee("H7")


def test_nightly_runs_every_seed_of_every_file_seed_by_seed(files: Path) -> None:
    runner = Runner()
    assert night(files, runner) == 0
    assert runner.ran == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ({("a", 1): 2}, 2),
        ({("a", 1): 2, ("b", 2): 255}, 255),
        ({("a", 1): 2, ("b", 2): 255, ("b", 1): 1}, 1),
        ({("a", 1): 137}, 255),
    ],
)
def test_nightly_exit_code_is_that_of_the_worst(files: Path, codes: dict[tuple[str, int], int], worst: int) -> None:
    assert night(files, Runner(codes)) == worst


def test_nightly_expected_invalid_counts_as_success_and_its_absence_does_not(files: Path) -> None:
    (files / "b.toml").write_text('name = "b"\nexpect = "invalid"\n')
    assert night(files, Runner({("b", 1): 1, ("b", 2): 1})) == 0
    assert night(files, Runner({("b", 1): 1})) == 1


def test_nightly_expectation_may_stand_beside_the_run_file(files: Path) -> None:
    (files / "b.expect.toml").write_text('expect = "invalid"\n')
    assert night(files, Runner({("b", 1): 1, ("b", 2): 1})) == 0
    (files / "b.expect.toml").write_text('expects = "invalid"\n')
    with pytest.raises(PlanError, match=r"b.expect.toml:1: expects: unknown key"):
        night(files, Runner())


def test_nightly_expected_finding_of_another_checker_is_no_success(files: Path) -> None:
    (files / "b.toml").write_text('name = "b"\nexpect = "invalid"\nexpect_found = ["lost-write", "lost-tail"]\n')
    codes = {("b", 1): 1, ("b", 2): 1}
    assert night(files, Runner(codes, found=("lost-write",))) == 0
    assert night(files, Runner(codes, found=("inconsistent-offset",))) == 1


def test_nightly_names_faults_that_fired_in_no_run_of_a_file(files: Path) -> None:
    """Of b each kind fired with one seed or the other."""
    missed = {("a", 1): ("pause", "halves"), ("a", 2): ("halves", "kill"), ("b", 1): ("kill",), ("b", 2): ("pause",)}
    said: list[str] = []
    runner = Runner(not_fired=lambda job: missed[(job.name, job.seed)])
    assert nights([files], files.parent / "out", runner, Settings(2), said) == 0
    (told,) = [text for text in said if "none of" in text]
    assert told.startswith(f"{files / 'a.toml'}: fired in none of 2 runs: halves (")
    assert "a.toml: fired in none of 2 runs: halves" in (files.parent / "out" / "summary.html").read_text()


def test_nightly_of_enough_runs_is_unknown_where_a_fault_never_fired(files: Path) -> None:
    runner = Runner(not_fired=lambda job: ("halves",) if job.name == "a" else ())
    assert night(files, runner, seeds=RUNS_ENOUGH - 1) == 0
    assert night(files, runner, seeds=RUNS_ENOUGH) == 2
    assert night(files, Runner({("b", 1): 1}, not_fired=runner.not_fired), seeds=RUNS_ENOUGH) == 1


def test_nightly_expects_no_faults_of_a_crashed_run(files: Path) -> None:
    runner = Runner({("a", 1): 255}, not_fired=lambda job: () if (job.name, job.seed) == ("a", 1) else ("halves",))
    said: list[str] = []
    nights([files / "a.toml"], files.parent / "out", runner, Settings(2), said)
    assert any("a.toml: fired in none of 1 run: halves" in text for text in said)


def test_nodes_that_fail_are_tried_again_behind_the_others_and_named(files: Path) -> None:
    class Failing(Runner):
        def __call__(self, job: Job, out: Path) -> Result:
            first = (job.name, job.seed) not in self.ran
            self.codes = {("a", 1): 255 if first else 0}
            return super().__call__(job, out)

    said: list[str] = []
    runner = Failing(trouble=INFRASTRUCTURE)
    assert nights([files], files.parent / "out", runner, Settings(1), said) == 0
    assert runner.ran == [("a", 1), ("b", 1), ("a", 1)]
    assert any("came to no verdict at first: a seed 1" in text for text in said)
    with open_history(files.parent / "out") as history:
        assert [(row.name, row.attempt) for row in history.of_night(1)] == [("a", 1), ("b", 1), ("a", 2)]


@pytest.mark.parametrize(("trouble", "retries", "runs"), [(INFRASTRUCTURE, 2, 3), (INFRASTRUCTURE, 0, 1), (LAB, 2, 1)])
def test_tries_are_bounded_and_for_failing_nodes_alone(files: Path, trouble: str, retries: int, runs: int) -> None:
    runner = Runner({("a", 1): 255}, trouble=trouble)
    assert nights([files / "a.toml"], files.parent / "out", runner, Settings(1, retries=retries)) == 255
    assert len(runner.ran) == runs


def test_lanes_run_side_by_side(files: Path) -> None:
    both = Barrier(2, timeout=30)

    def meet(job: Job, out: Path) -> Result:
        both.wait()
        return Result(0, 1.0, "", None)

    assert nights([files], files.parent / "out", Function(meet), Settings(1, lanes=2)) == 0
