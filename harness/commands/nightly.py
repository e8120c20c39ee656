"""Many seeds of many run files, one after the other, each in a process of its own; resumable.

Decides which runs are due, what counts as success, and the worst of them. Must not know how a run works: it starts
`highwater test` and reads exit code and results. Invariants: state.json is replaced after every run, so a call that
was killed goes on with --resume where it stopped; a run that crashed is tried again on the next resume.
"""

from __future__ import annotations

import hashlib
import html
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.commands.fault_coverage import Gap, gaps
from harness.plan.run_file import EXPECTATION, load_expectation
from harness.plan.toml_source import PlanError
from harness.runs.analysis import CRASH, INVALID, UNKNOWN, VALID
from harness.runs.junit import crashed_suite, suite, write_xml
from harness.runs.provenance import code_digest
from harness.runs.run_files import load
from harness.runs.store import StoreError, read_json, write_json
from harness.systems import system_kind

_WORST_FIRST = (INVALID, CRASH, UNKNOWN, VALID)
VERDICTS = {VALID: "valid", INVALID: "invalid", UNKNOWN: "unknown"}


@dataclass(frozen=True, slots=True)
class Job:
    """One run that is due. digest: of the run file's text; code: of broker and lab: what has changed runs again.

    expect_found: checkers of which one at least must say invalid, where invalid is expected.
    """

    file: str
    name: str
    digest: str
    seed: int
    expect: str
    expect_found: tuple[str, ...] = ()
    code: str = ""

    @property
    def key(self) -> str:
        return f"{self.file} {self.digest} code {self.code} seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Result:
    """exit_code: of `highwater test`; run_dir: None when the run made none; found: checkers that say invalid.

    not_fired: kinds of faults that the run file asks for and that never came about.
    """

    exit_code: int
    seconds: float
    sentence: str
    run_dir: str | None
    found: Sequence[str] = ()
    not_fired: Sequence[str] = ()

    def verdict(self) -> str:
        return VERDICTS.get(self.exit_code, "crash")


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
        # The night before came to its end: this is a new one, and what that one found is kept.
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
    write_xml(out / "junit.xml", _suites(results))
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
    code = code_digest(system_kind(plan.system.kind).source(plan))
    return Job(str(path), plan.name, digest, 1, plan.expect, plan.expect_found, code)


def effective(job: Job, result: Result) -> int:
    """The exit code that counts: success when the verdict is the one that the run file expects.

    A run that was to come out invalid and did not is invalid: the lab did not see what it should.
    """
    if result.exit_code not in VERDICTS:
        return CRASH
    if job.expect == "valid":
        return result.exit_code
    as_expected = result.verdict() == job.expect
    if job.expect_found:
        as_expected = as_expected and not set(job.expect_found).isdisjoint(result.found)
    return VALID if as_expected else INVALID


def fault_gaps(results: Mapping[Job, Result]) -> list[Gap]:
    """Of the run files, in their order."""
    judged: dict[str, list[Sequence[str]]] = {}
    for job, result in results.items():
        if result.exit_code in VERDICTS:
            judged.setdefault(job.file, []).append(result.not_fired)
    return gaps(judged)


def worst(results: Mapping[Job, Result], uncovered: Sequence[Gap] = ()) -> int:
    """Invalid over crash over unknown over valid; faults that never fired in enough runs make the night unknown."""
    codes = {effective(job, result) for job, result in results.items()}
    if any(gap.counts for gap in uncovered):
        codes.add(UNKNOWN)
    return next((code for code in _WORST_FIRST if code in codes), VALID)


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
    """Carries a job out as `highwater test`; what it printed lies in <out>/logs."""

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
        if run_dir is not None and code in VERDICTS:
            judged = read_json(run_dir / "results.json")
            sentence = str(judged.get("sentence", ""))
            checks: dict[str, dict[str, object]] = judged.get("checkers", {})  # type: ignore[assignment]
            found = [name for name, check in checks.items() if check["verdict"] == "invalid"]
            not_fired = list(judged.get("not_fired", ()))  # type: ignore[call-overload]
        elif code not in VERDICTS:
            sentence = "".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:])
        took_s = round(time.monotonic() - began_s, 1)
        return Result(code, took_s, sentence, None if run_dir is None else str(run_dir), found, not_fired)


def _latest(store: Path, name: str) -> Path | None:
    link = store / name / "latest"
    return link.resolve() if link.exists() else None


def _suites(results: Mapping[Job, Result]) -> ElementTree.Element:
    suites = ElementTree.Element("testsuites")
    for job, result in results.items():
        name = f"{job.name}.seed-{job.seed}"
        if result.exit_code not in VERDICTS or result.run_dir is None:
            suites.append(crashed_suite(name, result.sentence or f"exit code {result.exit_code}"))
        elif job.expect != "valid":
            # Its failing checkers are what it is for.
            expected = effective(job, result) == VALID
            verdict = "valid" if expected else "invalid"
            text = f"expected {job.expect}, came out {result.verdict()}: {result.sentence}"
            suites.append(suite(name, {"verdict": verdict, "sentence": text}))
        else:
            try:
                suites.append(suite(name, read_json(Path(result.run_dir) / "results.json")))
            except StoreError as error:
                suites.append(crashed_suite(name, str(error)))
    return suites


def summary(results: Mapping[Job, Result], out: Path, uncovered: Sequence[Gap] = ()) -> str:
    """One HTML page that lies in `out`: a row for each run, the worst first."""
    rank = {code: index for index, code in enumerate(_WORST_FIRST)}
    rows = sorted(results.items(), key=lambda item: (rank[effective(*item)], item[0].name, item[0].seed))
    names = (*VERDICTS.values(), "crash")
    counts = {name: sum(result.verdict() == name for result in results.values()) for name in names}
    lines = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>highwater nightly</title>",
        "<style>body{font:14px system-ui;margin:2em}td,th{padding:.3em .8em;text-align:left;vertical-align:top}"
        ".invalid,.crash{background:#fdd}.unknown{background:#ffd}.valid{background:#dfd}</style>",
        f"<h1>{len(results)} runs: {', '.join(f'{count} {name}' for name, count in counts.items())}</h1>",
        *(f"<p>{html.escape(gap.text)}</p>" for gap in uncovered),
        "<table><tr><th>run<th>seed<th>verdict<th>expected<th>seconds<th>what was found</tr>",
    ]
    for job, result in rows:
        good = VERDICTS.get(effective(job, result), "crash")
        report = "" if result.run_dir is None else os.path.relpath(Path(result.run_dir, "report.html"), out)
        name = html.escape(job.name)
        linked = f'<a href="{html.escape(report)}">{name}</a>' if report else name
        lines.append(
            f"<tr class={good}><td>{linked}<td>{job.seed}<td>{result.verdict()}<td>{html.escape(job.expect)}"
            f"<td>{result.seconds:.0f}<td>{html.escape(result.sentence)}</tr>"
        )
    return "\n".join([*lines, "</table></html>\n"])
