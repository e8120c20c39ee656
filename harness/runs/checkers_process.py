"""Runs the checkers over a run's folder, follows how far they are, and ends them at their limit.

They run as a process of their own, or in a judge that was started before (`warm_judge`). Decides what ends them: a
limit that a person set always does, the one by the history's size only where no job gets done within it. Must not know
what checkers look for. Invariant: neither a process nor a temporary file of theirs is left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.plan.toml_source import PlanError
from harness.runs.judge_process import SOCKET, forget
from harness.runs.process_group import end_group
from harness.runs.room import device_of, said
from harness.runs.store import RunStore
from harness.runs.warm_judge import WarmJudge, WithoutJudge

LOOK_EVERY_S = 0.5
SCRATCH = "scratch"
"""Folder for temporary files, below a run's."""
_TAIL_LINES = 25


class AnalysisFailed(Exception):
    """No verdict came about; the text says why and where to look."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How long checkers may take. named: what set it; renewed: with every job that they have done it begins anew."""

    seconds: float
    named: str
    renewed: bool = False


class AnalysisTooLong(AnalysisFailed):
    """The checkers were ended at their limit. The recording is unchanged, and more time may be enough."""

    def __init__(self, limit: Limit, log: Path, took_s: float, jobs: tuple[int, int] | None) -> None:
        since = f" of job {jobs[0]} of {jobs[1] or 'an unknown number'}" if limit.renewed and jobs is not None else ""
        super().__init__(f"the checkers did not end within {limit.named} = {limit.seconds:g} s{since}; see {log}")
        self.enough_s = 2 * (round(max(limit.seconds, took_s)) if limit.renewed else limit.seconds)
        """Seconds that are worth a try."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where checkers run. spark_master: a cluster, None: this machine. judge: the socket of a session that waits for
    work; where it does not take a run, the checkers are a process of their own. spark_conf: settings of Spark's, each
    `name=value`, which no session that waits has.
    """

    spark_master: str | None = None
    judge: Path | None = None
    spark_conf: tuple[str, ...] = ()


HERE = Where()
_MASTERS = ("local", "spark://", "k8s://")
JUDGE = "HIGHWATER_JUDGE"
"""Environment variable: the socket of a judge."""


def where_checkers_run(spark_master: str | None, spark_conf: Sequence[str] = ()) -> Where:
    """As the command line and the environment say. Raises PlanError for what Spark would refuse once it is started:
    after a whole run, or when an earlier judgement is gone.
    """
    if spark_master is not None and spark_master != "yarn" and not spark_master.startswith(_MASTERS):
        raise PlanError(
            f"--spark-master: {spark_master!r} is not a master of Spark's: local[N], spark://HOST:PORT, k8s://… or yarn"
        )
    for text in spark_conf:
        name, equals, _ = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise PlanError(f"--spark-conf: {text!r} is no setting of Spark's; one is spark.executor.memory=8g")
    judge = os.environ.get(JUDGE)
    return Where(spark_master, Path(judge) if judge else None, tuple(spark_conf))


def run_checkers(
    store: RunStore,
    limit: Limit,
    where: Where,
    on_jobs: Callable[[int, int], None],
    codes: frozenset[int],
    uri: str | None = None,
) -> int:
    """Their exit code, one of codes. on_jobs(done, all) is called as jobs get done. Raises AnalysisFailed.

    uri: of the run's folder, which Hadoop knows; the store's then takes what the checkers read here, and their results.
    """
    try:
        code = _run(store, limit, where, on_jobs, uri)
    except OSError as error:
        raise AnalysisFailed(f"{said(error, store.path)}; the checkers did not begin") from error
    if code not in codes:
        log = log_of(store)
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
        full = f"no space left on {device_of(store.path)}: " if os.strerror(errno.ENOSPC) in tail else ""
        raise AnalysisFailed(f"{full}the checkers crashed with exit code {code}; end of {log}:\n{tail}")
    return code


def log_of(store: RunStore) -> Path:
    """What the checkers print."""
    return store.path / "analysis.log"


def _run(store: RunStore, limit: Limit, where: Where, on_jobs: Callable[[int, int], None], uri: str | None) -> int:
    log = log_of(store)
    # Two write there: the judge, and the Java that it started.
    log.write_bytes(b"")
    if where.judge != store.path / SOCKET:
        forget(store.path / SOCKET)
    with _scratch(store) as scratch:
        progress = scratch / "progress"
        if where.judge is not None and where.spark_master is None and not where.spark_conf and uri is None:
            with contextlib.suppress(WithoutJudge), WarmJudge(where.judge) as judge:
                judge.ask(store.path, log, progress)
                return _followed(judge.wait, progress, limit, log, on_jobs)
        command = [sys.executable, "-m", "checkers", uri or str(store.path), "--progress", str(progress)]
        if uri is not None:
            command += ["--into", str(store.path)]
        if where.spark_master is not None:
            command += ["--spark-master", where.spark_master]
        for setting in where.spark_conf:
            command += ["--spark-conf", setting]
        with log.open("ab") as output:
            # A group of its own, so that the JVM which Spark starts ends with it, before it could tidy up.
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(scratch)},
            )
        try:
            return _followed(lambda seconds: _ended(process, seconds), progress, limit, log, on_jobs)
        finally:
            end_group(process)


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def _followed(
    wait: Callable[[float], int | None],
    progress: Path,
    limit: Limit,
    log: Path,
    on_jobs: Callable[[int, int], None],
) -> int:
    """The exit code of checkers that end within the limit. wait: for it, so many seconds; None: not yet."""
    began_s = since_s = time.monotonic()
    jobs: tuple[int, int] | None = None
    while True:
        left_s = since_s + limit.seconds - time.monotonic()
        code = wait(max(0.0, min(LOOK_EVERY_S, left_s)))
        if code is not None:
            return code
        now_s = time.monotonic()
        found = read_jobs(progress)
        if found is not None and found != jobs:
            jobs = found
            on_jobs(*found)
            if limit.renewed:
                since_s = now_s
        if now_s >= since_s + limit.seconds:
            raise AnalysisTooLong(limit, log, now_s - began_s, jobs)


def read_jobs(progress: Path) -> tuple[int, int] | None:
    """(done, all) of a file of `checkers.progress`, all 0 while nobody knows; None where there is none."""
    try:
        done, of = progress.read_text(encoding="ascii").split()
        return int(done), int(of)
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def _scratch(store: RunStore) -> Iterator[Path]:
    """A folder for temporary files, below the run's: an analysis that is killed leaves none elsewhere, and the next
    analysis removes them.
    """
    folder = store.path / SCRATCH
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
