"""What a night leaves for people and for CI systems: summary.html and junit.xml.

Decides what stands in them, and in which order. Must not know how a run is carried out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from junitparser import TestSuite

from harness.commands.fault_coverage import Gap
from harness.commands.nightly_results import NO_VERDICT, VERDICTS, WORST_FIRST, Job, Result, effective
from harness.report.pages import environment
from harness.runs.analysis import VALID
from harness.runs.junit import crashed_suite, suite
from harness.runs.store import StoreError, read_json


def suites(results: Mapping[Job, Result]) -> list[TestSuite]:
    """One for each run, in the order of the jobs. Reads the results of the judged ones."""
    return [_suite(job, result) for job, result in results.items()]


def _suite(job: Job, result: Result) -> TestSuite:
    name = f"{job.name}.seed-{job.seed}"
    if result.exit_code not in VERDICTS or result.run_dir is None:
        return crashed_suite(name, result.sentence or f"exit code {result.exit_code}")
    if job.expect != "valid":
        # The run file expects checkers to fail.
        verdict = "valid" if effective(job, result) == VALID else "invalid"
        text = f"expected {job.expect}, came out {result.verdict()}: {result.sentence}"
        return suite(name, {"verdict": verdict, "sentence": text})
    try:
        return suite(name, read_json(Path(result.run_dir) / "results.json"))
    except StoreError as error:
        return crashed_suite(name, str(error))


def summary(results: Mapping[Job, Result], out: Path, uncovered: Sequence[Gap] = ()) -> str:
    """One HTML page that lies in `out`: a row for each run, the worst first."""
    rank = {code: index for index, code in enumerate(WORST_FIRST)}
    rows = sorted(results.items(), key=lambda item: (rank[effective(*item)], item[0].name, item[0].seed))
    names = (*VERDICTS.values(), NO_VERDICT)
    return (
        environment("harness.commands")
        .get_template("nightly.html")
        .render(
            counts={name: sum(result.verdict() == name for result in results.values()) for name in names},
            gaps=[gap.text for gap in uncovered],
            rows=[
                {
                    "job": job,
                    "result": result,
                    "counts_as": VERDICTS.get(effective(job, result), NO_VERDICT),
                    "report": result.run_dir and os.path.relpath(Path(result.run_dir, "report.html"), out),
                }
                for job, result in rows
            ],
        )
    )
