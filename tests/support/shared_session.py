"""One Spark session for all of a test process, and the lab's analyses carried out in it.

A process of the checkers' own takes Java's start, and then most of its time to load and compile what every analysis
runs. What is judged, and what comes of it, is the same: the same entry, run folder, log and exit code.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest
from pyspark.sql import SparkSession

from checkers import cli
from checkers.spark.session import open_session
from harness.runs import analysis
from harness.runs.analysis import Judged
from harness.runs.checkers_process import AnalysisFailed, Limit, Where, log_of, read_jobs
from harness.runs.early_judge import EarlyJudge
from harness.runs.store import RunStore
from tests.support.judging import pyspark_sockets


@contextmanager
def shared_session(*, many: bool) -> Iterator[SparkSession]:
    """A session on two cores. many: see `open_session`."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = open_session("local[2]", many=many)
    # Spark takes Ctrl-C for itself.
    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def checkers_in(spark: SparkSession) -> Iterator[None]:
    """Within it, analyses of this process run `python -m checkers` in the session instead of in a process."""

    def run_checkers(
        store: RunStore,
        _limit: Limit,
        where: Where,
        on_jobs: Callable[[int, int], None],
        codes: frozenset[int],
    ) -> int:
        assert where.spark_master is None
        log, progress = log_of(store), store.path / "progress"
        with log.open("w") as output, redirect_stdout(output), redirect_stderr(output), pyspark_sockets():
            code = cli.main([str(store.path), "--progress", str(progress)], spark=spark)
        jobs = read_jobs(progress)
        progress.unlink(missing_ok=True)
        if jobs is not None:
            on_jobs(*jobs)
        if code not in codes:
            raise AnalysisFailed(f"the checkers crashed with exit code {code}:\n{log.read_text()}")
        return code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "run_checkers", run_checkers)
        patch.setattr(EarlyJudge, "start", lambda _: None)
        yield


def judged_in(spark: SparkSession, store: RunStore) -> Judged:
    """What `highwater analyze` makes of a recorded run. Raises AnalysisFailed."""
    with checkers_in(spark):
        return analysis.analyze(store, None)
