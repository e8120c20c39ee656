"""`highwater analyze`: judge a recorded run, and say what is other than at the last judgement.

Must not know how a run is judged, nor what counts as a change.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.parser import VERDICT_CODES, add, number
from harness.plan.toml_source import PlanError
from harness.runs.analysis import CRASH, Judged, analyze, analyze_elsewhere, command_again
from harness.runs.changes import changes
from harness.runs.checkers_process import AnalysisFailed, AnalysisTooLong, where_checkers_run
from harness.runs.into import FolderTaken
from harness.runs.store import RunStore, StoreError, local_path, open_run, read_json

if TYPE_CHECKING:
    from harness.commands.parser import Commands

JOBS_EVERY_S = 5.0


def add_to(commands: Commands) -> None:
    """Add the command."""
    again = add(
        commands,
        "analyze",
        "judge a recorded run, also one that was aborted",
        codes=VERDICT_CODES,
        example="highwater analyze store/demo/latest --diff",
    )
    again.add_argument("run", metavar="RUN_DIR", help="a run's folder, or its URI where Hadoop knows it (s3a://…)")
    again.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="of a URI: a new folder here for results and report, or what a failed analysis left",
    )
    again.add_argument("--spark-master", metavar="M", help="a Spark cluster, instead of local[*]")
    again.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, as spark.executor.memory=8g; may be given again",
    )
    again.add_argument("--time-limit", type=number, metavar="S", help="seconds that the checkers may take")
    again.add_argument("--diff", action="store_true", help="say what changed since the run was judged last")
    again.set_defaults(command=_analyze)


def _analyze(options: argparse.Namespace) -> int:
    from harness.runs.outside_code import changed

    path = local_path(options.run)
    if path is None:
        return _analyze_elsewhere(options)
    if options.into is not None:
        raise PlanError(f"--into: goes with a URI; {path} is a folder, in which results are written")
    store = open_run(path)
    where = where_checkers_run(options.spark_master, options.spark_conf)
    before = _results(store) if options.diff else {}
    run = store.read_run()
    if not run.get("finished"):
        why = run.get("aborted") or "the harness ended without closing the history"
        store.update_run(aborted=why)
        print(f"this run was not finished: {why}")
    # The recorded run is judged all the same, by the checkers that are installed now.
    if (other := changed(run)) is not None:
        print(f"this run was made with other code than what is installed now: {other}")
    limit_s, named = _time_limit_s(options), "--time-limit"
    if limit_s is None:
        limit_s, named = _analysis_limit_s(run), "limits.analysis_s"
    try:
        judged = analyze(
            store,
            limit_s,
            named=named,
            where=where,
            say=print,
            on_jobs=_jobs_printed(),
        )
    except AnalysisFailed as error:
        print(f"highwater: {error}", file=sys.stderr)
        if isinstance(error, AnalysisTooLong):
            print(f"what was recorded is kept: `{command_again(store, error)}` judges it", file=sys.stderr)
        return CRASH
    print_judged(judged)
    if options.diff:
        _print_changes(before, read_json(store.results))
    return judged.exit_code


def _analyze_elsewhere(options: argparse.Namespace) -> int:
    """A run whose folder this machine does not see."""
    if options.diff:
        raise PlanError(f"--diff: goes with a folder of this machine; {options.run} is elsewhere")
    limit_s = _time_limit_s(options)
    into = options.into or Path(options.run.rstrip("/").rpartition("/")[2])
    try:
        judged = analyze_elsewhere(
            options.run,
            into,
            limit_s,
            where=where_checkers_run(options.spark_master, options.spark_conf),
            say=print,
            on_jobs=_jobs_printed(),
        )
    except FolderTaken as error:
        raise PlanError(f"--into: {error}") from None
    except AnalysisFailed as error:
        print(f"highwater: {error}", file=sys.stderr)
        print("the same command again goes on: what this one left may be replaced", file=sys.stderr)
        return CRASH
    print_judged(judged)
    return judged.exit_code


def _time_limit_s(options: argparse.Namespace) -> float | None:
    """Of the command line. Raises PlanError."""
    limit_s: float | None = options.time_limit
    if limit_s is not None and not 1 <= limit_s <= 86_400:
        raise PlanError(f"--time-limit: {limit_s:g} is not a number from 1 to 86400 (seconds)")
    return limit_s


def _jobs_printed() -> Callable[[int, int], None]:
    """Prints how far an analysis is, every few seconds at most."""
    due_s = time.monotonic() + JOBS_EVERY_S

    def tell(done: int, of: int) -> None:
        nonlocal due_s
        if of and time.monotonic() >= due_s:
            print(f"analysis: {done} of {of} jobs", flush=True)
            due_s = time.monotonic() + JOBS_EVERY_S

    return tell


def _analysis_limit_s(run: dict[str, object]) -> float | None:
    """The limit that the run file sets; None where it sets none."""
    limits = run.get("limits")
    limit = limits.get("analysis_s") if isinstance(limits, dict) else None
    return float(limit) if isinstance(limit, int | float) else None


def _results(store: RunStore) -> Mapping[str, object]:
    """Of the last judgement; empty where there is none, or none that can be read."""
    try:
        return read_json(store.results)
    except StoreError:
        return {}


def _print_changes(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    if not before:
        print("no judgement before this one to compare with")
        return
    lines = changes(before, now)
    print("changed since the last judgement:" if lines else "nothing changed since the last judgement")
    for line in lines:
        print(f"  {line}")


def print_judged(judged: Judged) -> None:
    """The sentence, and where the report is or why there is none."""
    print(judged.sentence)
    if judged.report is not None:
        print(f"report: {judged.report}")
    else:
        print(f"no report: {judged.report_problem}", file=sys.stderr)
