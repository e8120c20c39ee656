"""Carries one job out as `highwater test`, in a process of its own, and reads what came of it.

Decides what a run's exit code is worth: one without results that say the same is a crash, but for results that say
invalid, which stand however the run ended. Must not know which jobs are due. Invariant: a runner that was told to end
starts nothing more, and lets every run that is under way end in order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

from harness.nightly.jobs import VERDICTS, Figures, Job, Result
from harness.nightly.judges import Judges
from harness.nightly.standstill import STILL_S, end_of
from harness.runs.analysis import CRASH, INVALID
from harness.runs.checkers_process import JUDGE
from harness.runs.store import StoreError, read_json
from harness.runs.trouble import INFRASTRUCTURE, LAB, SIGNAL


class Runner(Protocol):
    """Carries out a job whose files go below a folder; called from several threads at once."""

    def __call__(self, job: Job, out: Path) -> Result:
        """What came of it."""
        ...

    def end(self) -> None:
        """End the runs that are under way, in order; their results say that a signal ended them."""
        ...


class Subprocesses:
    """`Runner` by `highwater test`; each run's output stands in <out>/logs. nodes: instead of the run file's. judges:
    judge the runs; None: each is judged by a process of its own.
    """

    def __init__(self, nodes: str | None, judges: Judges | None = None, still_s: float = STILL_S) -> None:
        """still_s: a run whose output has not grown for so long is ended."""
        self._nodes = nodes
        self._judges = judges
        self._still_s = still_s
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def __call__(self, job: Job, out: Path) -> Result:
        """What came of the run; its folder is below <out>/store."""
        logs = out / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"{job.name}-{job.digest}-{job.seed}.log"
        began_s = time.monotonic()
        with self._judge() as judge:
            code, still, run_dir = self._run(job, out / "store", log, judge)
        result = outcome(code, round(time.monotonic() - began_s, 1), run_dir, log)
        if not still or result.exit_code == INVALID:
            return result
        sentence = f"stood still: nothing new in its output for {self._still_s:g} s; where its threads were: {log}"
        return replace(result, exit_code=CRASH, sentence=sentence, trouble=LAB)

    def end(self) -> None:
        """SIGINT to each: they end as at Ctrl-C, and take back their faults."""
        with self._lock:
            self._ended = True
            for process in self._running:
                process.send_signal(signal.SIGINT)

    def _judge(self) -> AbstractContextManager[Path | None]:
        return nullcontext() if self._judges is None else self._judges.one()

    def _run(self, job: Job, store: Path, log: Path, judge: Path | None) -> tuple[int, bool, Path | None]:
        """Its exit code, whether it had to be ended because it stood still, and its folder."""
        command = [sys.executable, "-m", "harness.commands", "test", job.file]
        command += ["--seed", str(job.seed), "--store", str(store)]
        if self._nodes is not None:
            command += ["--nodes", self._nodes]
        environment = os.environ if judge is None else {**os.environ, JUDGE: str(judge)}
        before = set(_folders(store / job.name))
        with log.open("wb") as output:
            with self._lock:
                if self._ended:
                    return -signal.SIGINT, False, None
                # A session of its own: Ctrl-C reaches it through `end` alone, once.
                process = subprocess.Popen(
                    command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment
                )
                self._running.add(process)
            try:
                code, still = end_of(process, log, still_s=self._still_s)
            finally:
                with self._lock:
                    self._running.discard(process)
        return code, still, run_folder(log, store / job.name, job.seed, before)


def outcome(code: int, seconds: float, run_dir: Path | None, log: Path) -> Result:
    """The result of a run that ended with this exit code. run_dir: None where it made none; log: its output."""
    judged = _json(run_dir, "results.json")
    where = None if run_dir is None else str(run_dir)
    verdict = judged.get("verdict")
    # What was proved is so, be it that the run, or its analysis, came to harm right after: no other try takes it back.
    proved = verdict == VERDICTS[INVALID]
    if proved or (code in VERDICTS and verdict == VERDICTS[code]):
        checks = cast(Mapping[str, Mapping[str, object]], judged.get("checkers", {}))
        sentence = str(judged.get("sentence", ""))
        if proved and code != INVALID:
            sentence += f" (The run ended with exit code {code}; its output: {log})"
        return Result(
            INVALID if proved else code,
            seconds,
            sentence,
            where,
            tuple(name for name, check in checks.items() if check["verdict"] == "invalid"),
            tuple(cast(list[str], judged.get("not_fired", ()))),
            None,
            figures(judged, _json(run_dir, "series.json")),
        )
    if code in VERDICTS:
        # Python ends with 1 and 2 for failures of its own.
        says = f"results.json says {verdict or 'nothing'}" if run_dir else "no run was recorded"
        sentence = f"exit code {code}, which means {VERDICTS[code]}, but {says}; its output: {log}"
        return Result(CRASH, seconds, sentence, where, trouble=LAB)
    sentence = "".join(_last_lines(log)) or f"exit code {code}, without a word; its output: {log}"
    return Result(code, seconds, sentence, where, trouble=_trouble(code, _json(run_dir, "run.json")))


def _trouble(code: int, run: Mapping[str, object]) -> str:
    """Whose trouble it was: as the run itself says, else by how its process ended."""
    if isinstance(said := run.get("trouble"), str):
        return said
    if code in (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP):
        return SIGNAL
    # Killed from outside, or it found no nodes to run on.
    return INFRASTRUCTURE if code < 0 or (code == CRASH and not run) else LAB


def figures(results: Mapping[str, object], series: Mapping[str, object]) -> Figures:
    """What results.json and series.json of a run hold of what nights are compared by."""
    coverage = _mapping(_mapping(results.get("coverage")).get("figures"))
    measures = _mapping(_mapping(_mapping(results.get("checkers")).get("availability")).get("measures"))
    acknowledged = _number(coverage.get("acknowledged"))
    duration_ns = _number(series.get("duration_ns"))
    faults, elections = _number(coverage.get("faults")), _number(coverage.get("elections"))
    return Figures(
        acknowledged=None if acknowledged is None else int(acknowledged),
        per_s=round(acknowledged / duration_ns * 1e9, 2) if acknowledged is not None and duration_ns else None,
        unavailable_ms=_number(measures.get("worst_ms")),
        recovery_ms=_number(measures.get("worst_recovery_ms")),
        faults=None if faults is None else int(faults),
        elections=None if elections is None else int(elections),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _json(run_dir: Path | None, name: str) -> Mapping[str, object]:
    """A file of the run's; empty where it has none that can be read."""
    with suppress(StoreError, json.JSONDecodeError):
        return read_json(run_dir / name) if run_dir is not None else {}
    return {}


def _last_lines(log: Path, count: int = 1) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line and not line.startswith("run: ")]
    return said[-count:]


def run_folder(log: Path, runs: Path, seed: int, before: Collection[Path]) -> Path | None:
    """Where the run stands: as its output says in the end, or, of one that was killed, the new folder of its seed.

    runs: where runs of this name stand; before: those that did before it began.
    """
    for line in reversed(log.read_text(encoding="utf-8", errors="replace").splitlines()):
        if line.startswith("run: "):
            folder = Path(line.removeprefix("run: "))
            return folder if folder.is_dir() else None
    new = sorted(set(_folders(runs)).difference(before), reverse=True)
    return next((folder for folder in new if _json(folder, "run.json").get("seed") == seed), None)


def _folders(runs: Path) -> list[Path]:
    return [folder for folder in runs.iterdir() if not folder.is_symlink()] if runs.is_dir() else []
