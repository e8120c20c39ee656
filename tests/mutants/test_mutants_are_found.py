"""The proof that the lab can see: each planted bug is found, and the same run of the unmutated broker is valid."""

from __future__ import annotations

import pytest

from harness.runs.run_files import load as load_plan
from tests.mutants.lab import Lab, LabRun
from tests.mutants.patches import mutants
from tests.support import disks

SEEDS = (1, 2, 3)

FOUND_BY_DAY = {"watermark-on-append"}
"""The rules that find the others have stored histories by day."""

VALID_BY_DAY = {"last-in-sync-dies"}
"""The shortest; the end-to-end test of the demo's run file, and the other baselines, are valid runs by day."""

POWER_FAILURES = {"power-failure", "power-failure-unsynced"}

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.guarantee("V2")]


def _needs(lab_run: LabRun) -> None:
    """Skips a run with power failures where there can be none."""
    faults = load_plan(lab_run.file).faults
    if faults is not None and POWER_FAILURES & set(faults.kinds) and (lacking := disks.missing()) is not None:
        pytest.skip(lacking)


@pytest.mark.parametrize(
    "lab_run",
    [
        pytest.param(
            LabRun(mutant.run, SEEDS[0], mutant), marks=[] if mutant.name in FOUND_BY_DAY else [pytest.mark.nightly]
        )
        for mutant in mutants()
    ],
    ids=lambda run: run.mutant.name,
)
def test_mutant_is_found_within_three_runs_by_a_checker_that_should(lab: Lab, lab_run: LabRun) -> None:
    _needs(lab_run)
    assert lab_run.mutant is not None
    tried = []
    for seed in SEEDS:
        judged = lab.result(LabRun(lab_run.file, seed, lab_run.mutant))
        tried.append(f"seed {seed}: {judged.results['sentence']}")
        found = judged.invalid & set(lab_run.mutant.finds)
        if found:
            assert judged.exit_code == 1
            assert judged.results["verdict"] == "invalid"
            assert all(judged.witnesses(name) for name in found)
            return
    pytest.fail(f"{lab_run.mutant.mistake} None of {', '.join(lab_run.mutant.finds)} fired:\n" + "\n".join(tried))


@pytest.mark.parametrize(
    "lab_run",
    [
        pytest.param(LabRun(file, SEEDS[0]), marks=[] if file.stem in VALID_BY_DAY else [pytest.mark.nightly])
        for file in sorted({mutant.run for mutant in mutants()})
    ],
    ids=lambda run: run.file.stem,
)
def test_unmutated_broker_is_valid_in_the_mutants_run(lab: Lab, lab_run: LabRun) -> None:
    _needs(lab_run)
    judged = lab.result(lab_run)
    assert (judged.exit_code, judged.results["verdict"]) == (0, "valid"), judged.results["sentence"]
