"""Many seeds of many run files, one after the other, each in a process of its own; resumable.

Decides which runs are due. Must not know how a run works: it starts `highwater test` and reads exit code and results.
Invariants: state.json is replaced after every run, so a call that was killed goes on with --resume where it stopped; a
run that crashed is tried again on the next resume.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from harness.commands.nightly_files import suites, summary
from harness.commands.nightly_results import VERDICTS, Job, Result, fault_gaps, worst
from harness.plan.run_file import EXPECTATION, load_expectation
from harness.plan.toml_source import PlanError
from harness.runs.analysis import CRASH
from harness.runs.junit import write_suites
from harness.runs.outside_code import outside_names, run_code
from harness.runs.run_files import load
from harness.runs.store import StoreError, read_json, write_json
from harness.systems import system_kind

Runner = Callable[[Job, Path], Result]


def run_nightly(
    files: Sequence[Path],
    seeds: int,
    out: Path,
    *,
    resume: bool,
    nodes: str | None = None,
    runner: Runner | None = None,
    say: Callable[[str], None] = print,
) -> int:
    """Run what is due; returns the exit code of the worst. Raises PlanError for run files that cannot be used."""
    jobs = make_jobs(files, seeds)
    out.mkdir(parents=True, exist_ok=True)
    state_file = out / "state.json"
    done = _read_state(state_file) if resume else {}
    if jobs and all(_is_done(done.get(job.key)) for job in jobs):
        # The last night was completed: this is a new one, and the last one's results are kept.
        _keep_night(state_file, out / "nights")
        done = {}
    carry_out = runner if runner is not None else _Subprocess(nodes)
    for number, job in enumerate(jobs, start=1):
        known = done.get(job.key)
        if known is not None and _is_done(known):
            say(f"[{number}/{len(jobs)}] {job.name} seed {job.seed}: {known.verdict()} (done before)")
            continue
        result = carry_out(job, out)
        done[job.key] = result
        write_json(state_file, {key: asdict(one) for key, one in done.items()})
        say(f"[{number}/{len(jobs)}] {job.name} seed {job.seed}: {result.verdict()} in {result.seconds:.0f} s")
    results = {job: done[job.key] for job in jobs}
    write_suites(out / "junit.xml", suites(results))
    uncovered = fault_gaps(results)
    for gap in uncovered:
        say(gap.text)
    (out / "summary.html").write_text(summary(results, out, uncovered), encoding="utf-8")
    code = worst(results, uncovered)
    say(f"summary: {out / 'summary.html'}")
    return code


def make_jobs(files: Sequence[Path], seeds: int) -> list[Job]:
    """Every seed of every run file, seed by seed, so that an interrupted night has seen all files."""
    found: list[Path] = []
    for path in files:
        if path.is_dir():
            inside = sorted(file for file in path.glob("*.toml") if not file.name.endswith(EXPECTATION))
            if not inside:
                raise PlanError(f"{path}: holds no run file (*.toml)")
            found.extend(inside)
        else:
            found.append(path)
    first_seed = [_job(path) for path in found]
    return [replace(job, seed=seed) for seed in range(1, seeds + 1) for job in first_seed]


def _job(path: Path) -> Job:
    plan = load_expectation(path, load(path))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    code = run_code(system_kind(plan.system.kind).source(plan), outside_names(plan))
    return Job(str(path), plan.name, digest, 1, plan.expect, plan.expect_found, code)


def _is_done(result: Result | None) -> bool:
    return result is not None and result.exit_code in VERDICTS


def _keep_night(state_file: Path, nights: Path) -> None:
    nights.mkdir(exist_ok=True)
    ended = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(state_file.stat().st_mtime))
    state_file.rename(nights / f"{ended}.json")


def _read_state(path: Path) -> dict[str, Result]:
    if not path.exists():
        return {}
    state: dict[str, Result] = {}
    for key, value in read_json(path).items():
        try:
            state[key] = Result(**value)  # type: ignore[arg-type]
        except TypeError as error:
            raise StoreError(f"{path}: {key}: not a result of an earlier call ({error}); remove the file") from None
    return state


class _Subprocess:
    """Carries a job out as `highwater test`; its output is in <out>/logs."""

    def __init__(self, nodes: str | None) -> None:
        self._nodes = nodes

    def __call__(self, job: Job, out: Path) -> Result:
        logs = out / "logs"
        logs.mkdir(exist_ok=True)
        store = out / "store"
        before = _latest(store, job.name)
        command = [sys.executable, "-m", "harness.commands", "test", job.file]
        command += ["--seed", str(job.seed), "--store", str(store)]
        if self._nodes is not None:
            command += ["--nodes", self._nodes]
        began_s = time.monotonic()
        log = logs / f"{job.name}-{job.digest}-{job.seed}.log"
        with log.open("wb") as output:
            code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        run_dir = _latest(store, job.name)
        if run_dir == before:
            run_dir = None
        sentence = ""
        found: list[str] = []
        not_fired: list[str] = []
        judged = _results_of(run_dir)
        if code in VERDICTS and judged.get("verdict") != VERDICTS[code]:
            # Python ends with 1 and 2 for failures of its own.
            says = f"results.json says {judged.get('verdict', 'nothing')}" if run_dir else "no run was recorded"
            sentence = f"exit code {code}, which means {VERDICTS[code]}, but {says}; its output: {log}"
            code = CRASH
        elif code in VERDICTS:
            sentence = str(judged.get("sentence", ""))
            checks: dict[str, dict[str, object]] = judged.get("checkers", {})  # type: ignore[assignment]
            found = [name for name, check in checks.items() if check["verdict"] == "invalid"]
            not_fired = list(judged.get("not_fired", ()))  # type: ignore[call-overload]
        else:
            sentence = "".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:])
        took_s = round(time.monotonic() - began_s, 1)
        return Result(code, took_s, sentence, None if run_dir is None else str(run_dir), found, not_fired)


def _results_of(run_dir: Path | None) -> dict[str, object]:
    """results.json of a run, empty where it has none."""
    path = None if run_dir is None else run_dir / "results.json"
    return read_json(path) if path is not None and path.is_file() else {}


def _latest(store: Path, name: str) -> Path | None:
    link = store / name / "latest"
    return link.resolve() if link.exists() else None
