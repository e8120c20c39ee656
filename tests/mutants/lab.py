"""The lab as a user has it: `highwater test` in a process of its own, on a run file, with the broker or a mutant of it.

Runs are recorded two at a time, because most of a run is waiting, and beside them one that nobody expected. They are
judged one by one, as by `highwater analyze`, in the Spark session that all tests share; each (run file, mutant, seed)
is made once and shared.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.runs.analysis import INVALID
from harness.runs.run_files import load as load_plan
from harness.runs.store import RunStore
from tests.mutants.patches import ROOT, Mutant, apply
from tests.support.shared_session import judged_in

AT_ONCE = 2
LEAST_LIMIT_S = 420.0


@dataclass(frozen=True, slots=True)
class LabRun:
    """What to run. mutant None: the broker as it is."""

    file: Path
    seed: int
    mutant: Mutant | None = None

    @property
    def name(self) -> str:
        where = self.file.parent.parent.name
        return f"{self.mutant.name if self.mutant else 'unmutated'}-{where}-{self.file.stem}-{self.seed}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run before it is judged: exit code of its process, which judged nothing, and what it printed."""

    exit_code: int
    output: str
    store: RunStore


@dataclass(frozen=True, slots=True)
class Judged:
    """How a run ended. folder: its place in the store."""

    exit_code: int
    folder: Path
    results: dict[str, Any]

    @property
    def invalid(self) -> set[str]:
        """Names of the checkers that found something."""
        return {name for name, one in self.results["checkers"].items() if one["verdict"] == "invalid"}

    def witnesses(self, checker: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.results["checkers"][checker]["witnesses"]
        return found

    def history(self) -> list[dict[str, Any]]:
        return _lines(self.folder / "history.jsonl")

    def events(self, node: str) -> list[dict[str, Any]]:
        """A broker's event log as it was collected; a torn last line of an incarnation is left out."""
        return _lines(self.folder / "evidence" / node / "events.jsonl")


class Lab:
    """All runs of a test session. `close` ends those that are under way."""

    def __init__(self, folder: Path, spark: SparkSession, at_once: int = AT_ONCE) -> None:
        self._folder = folder
        self._spark = spark
        self._pool = ThreadPoolExecutor(at_once)
        self._unexpected = ThreadPoolExecutor(1)
        self._runs: dict[LabRun, Future[Recorded]] = {}
        self._judged: dict[LabRun, Judged] = {}
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._closed = False

    def expect(self, runs: Iterable[LabRun]) -> None:
        """Begin with these, in this order; `result` will ask for them."""
        for run in runs:
            if run not in self._runs:
                self._runs[run] = self._pool.submit(self._record, run)

    def result(self, run: LabRun) -> Judged:
        """The run's outcome. Raises AssertionError, with what it printed, when it broke off."""
        if run not in self._runs:
            # Behind all that are expected it would be waited for longer than a test may take.
            self._runs[run] = self._unexpected.submit(self._record, run)
        if run not in self._judged:
            self._judged[run] = self._judge(run, self._runs[run].result())
        return self._judged[run]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            running = list(self._processes)
        for process in running:
            process.send_signal(signal.SIGINT)
        for pool in (self._pool, self._unexpected):
            pool.shutdown(wait=True, cancel_futures=True)

    def _record(self, run: LabRun) -> Recorded:
        folder = self._folder / run.name
        folder.mkdir(parents=True)
        file = run.file
        if run.mutant is not None:
            source = folder / "source"
            apply(run.mutant, source)
            file = folder / "run.toml"
            file.write_text(with_source(run.file.read_text(encoding="utf-8"), source), encoding="utf-8")
        command = [sys.executable, "-m", "harness.commands", "test", str(file), "--seed", str(run.seed)]
        with self._lock:
            assert not self._closed
            process = subprocess.Popen(
                [*command, "--store", str(folder / "store"), "--no-analysis"],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._processes.add(process)
        try:
            output, _ = process.communicate(timeout=_limit_s(run.file))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            with self._lock:
                self._processes.discard(process)
        return Recorded(process.returncode, output, RunStore((folder / "store" / "latest").resolve()))

    def _judge(self, run: LabRun, recorded: Recorded) -> Judged:
        """A run that broke off is none, unless its history proves a loss all the same, as for `highwater test`."""
        assert recorded.store.history.exists(), f"{run.name} did not begin:\n{recorded.output}"
        found = judged_in(self._spark, recorded.store)
        assert recorded.exit_code == 0 or found.exit_code == INVALID, (
            f"{run.name} ended with {recorded.exit_code}:\n{recorded.output}"
        )
        return Judged(found.exit_code, recorded.store.path, json.loads(recorded.store.results.read_text()))


def _limit_s(file: Path) -> float:
    """What a run may take whose every wait ends by its limit, as where a bug leaves a topic without leaders."""
    plan = load_plan(file)
    waits = 4 + 2 * plan.nodes.brokers
    return max(LEAST_LIMIT_S, plan.limits.setup_s + plan.workload.time_limit_s + waits * plan.limits.drain_s)


def with_source(text: str, source: Path) -> str:
    """A run file's text that runs the broker of `source`; the file must have a [system] table and name none itself."""
    out, replaced = re.subn(r"(?m)^\[system\]$", f'[system]\nsource = "{source}"', text)
    assert replaced == 1, f"{replaced} lines are [system]"
    return out


def _lines(path: Path) -> list[dict[str, Any]]:
    out = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            out.append(json.loads(line))
        except ValueError:
            continue
    return out
