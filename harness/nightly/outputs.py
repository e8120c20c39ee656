"""What a night leaves for people and for CI systems: summary.html, summary.markdown, badge.svg, night.json, junit.xml.

Decides what stands in them, and in which order. Must not know how a run is carried out. Invariant: each file is whole,
of this night or of the one before.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from junitparser import TestSuite

from harness.nightly import pages
from harness.nightly.fault_coverage import Gap
from harness.nightly.history import NightHistory, NightRow
from harness.nightly.jobs import NO_VERDICT, VERDICTS, WORST_FIRST, Job, Result, counts_as, effective
from harness.nightly.shrinking import Smallest
from harness.nightly.trends import NIGHTS_SHOWN, flaky, last_attempts, moved, trends, tried_again
from harness.runs.analysis import VALID
from harness.runs.junit import crashed_suite, suite, write_suites
from harness.runs.store import StoreError, read_json, write_json

WEBHOOK_TIMEOUT_S = 20.0
_REPORT = "report.html"
_NAMES = (*VERDICTS.values(), NO_VERDICT)


class Row(NamedTuple):
    """One run of the night. report: relative to the folder of nights, None where there is none."""

    job: Job
    result: Result
    counts_as: str
    report: str | None


def write(
    out: Path,
    history: NightHistory,
    night: NightRow,
    results: Mapping[Job, Result],
    not_run: Sequence[Job],
    uncovered: Sequence[Gap],
    smallest: Sequence[Smallest],
    say: Callable[[str], None],
) -> None:
    """Write every file of the night, and say where the summary is."""
    nights = history.nights(night.name)[-NIGHTS_SHOWN:]
    runs = history.of_nights([one.id for one in nights])
    of_night = [row for row in runs if row.night == night.id]
    over_time = trends(nights, runs)
    count_of = {name: sum(counts_as(*item) == name for item in results.items()) for name in _NAMES}
    last = {row.id for row in last_attempts(of_night)}
    retried = [row for row in tried_again(of_night) if row.id not in last]
    notes = [gap.text for gap in uncovered]
    notes += [f"smallest run that fails: {one.text}" for one in smallest]
    notes += [f"came to no verdict at first: {row.name} seed {row.seed}: {row.result.sentence}" for row in retried]
    notes += [f"flaky: {one.text}" for one in flaky(runs)]
    notes += [f"not as usual: {one.text}" for one in moved(over_time)]
    if not_run:
        notes.append(f"not run: {len(not_run)} of {len(results) + len(not_run)}; --resume goes on with them")
    for note in notes:
        say(note)
    rows = _rows(results, out)
    write_suites(out / "junit.xml", [_suite(job, result) for job, result in results.items()])
    shown = pages.Shown(night, count_of, notes, rows, over_time, [job.name for job in not_run])
    _replace(out / "summary.html", pages.html(shown))
    _replace(out / "summary.markdown", pages.markdown(shown))
    _replace(out / "badge.svg", pages.badge(shown))
    write_json(out / "night.json", pages.as_json(shown))
    say(f"summary: {out / 'summary.html'}")


def _rows(results: Mapping[Job, Result], out: Path) -> list[Row]:
    """The worst first."""
    rank = {code: index for index, code in enumerate(WORST_FIRST)}
    ordered = sorted(results.items(), key=lambda item: (rank[effective(*item)], item[0].name, item[0].seed))
    return [
        Row(
            job,
            result,
            counts_as(job, result),
            result.run_dir and os.path.relpath(f"{result.run_dir}/report.html", out),
        )
        for job, result in ordered
    ]


def _suite(job: Job, result: Result) -> TestSuite:
    name = f"{job.name}.seed-{job.seed}"
    if not result.judged or result.run_dir is None:
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


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def post(url: str, out: Path, say: Callable[[str], None]) -> None:
    """Post night.json to a webhook. One that does not take it is named, and changes nothing else."""
    request = urllib.request.Request(
        url, data=(out / "night.json").read_bytes(), headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=WEBHOOK_TIMEOUT_S) as response:
            say(f"webhook: {response.status}")
    except (urllib.error.URLError, OSError, ValueError) as error:
        say(f"webhook: {url} did not take the night: {error}")
