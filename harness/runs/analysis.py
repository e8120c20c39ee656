"""Has a recorded run judged: the checkers, then JUnit and the report.

Decides the exit code. Must not know what the checkers look for: they are a program that reads a run's folder and writes
results.json. Invariant: an exit code of 0, 1 or 2 stands for a verdict that this very analysis wrote.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.operations.history import HistoryError, recover
from harness.runs.checkers_process import HERE, AnalysisFailed, AnalysisTooLong, Limit, Where, log_of, run_checkers
from harness.runs.into import filled
from harness.runs.room import said
from harness.runs.store import RunStore, StoreError, read_json

VALID, INVALID, UNKNOWN, USAGE, CRASH = 0, 1, 2, 254, 255
EXIT_CODES = {"valid": VALID, "invalid": INVALID, "unknown": UNKNOWN}
LEAST_LIMIT_S, LIMIT_PER_LINE_S = 600.0, 0.02
"""How long a job of the checkers may take where the run file sets no limit. That ends checkers that hang, and leaves
room for a busy machine: an idle one with two cores takes about half a minute for all jobs over the 40,000 lines of a
minute's run.
"""

LONGEST_JOB_S = 86_400.0
"""How long a job may take of a run whose size nobody here has seen."""


@dataclass(frozen=True, slots=True)
class Judged:
    """report: None when it could not be made, with the reason in report_problem."""

    verdict: str
    sentence: str
    report: Path | None
    report_problem: str | None

    @property
    def exit_code(self) -> int:
        """0 valid, 1 invalid, 2 unknown."""
        return EXIT_CODES[self.verdict]


def limit_for(history: Path) -> float:
    """How many seconds the checkers may go without having a job done, by the size of the history. Raises OSError."""
    with history.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return float(round(LEAST_LIMIT_S + LIMIT_PER_LINE_S * lines))


def command_again(store: RunStore, failure: AnalysisFailed | None = None) -> str:
    """The command that judges the run; with a time limit that is twice as long where the limit was too short."""
    more = f" --time-limit {failure.enough_s:g}" if isinstance(failure, AnalysisTooLong) else ""
    return f"highwater analyze {shlex.quote(str(store.path))}{more}"


def analyze(
    store: RunStore,
    limit_s: float | None,
    *,
    named: str = "limits.analysis_s",
    where: Where = HERE,
    say: Callable[[str], None] = lambda _text: None,
    on_jobs: Callable[[int, int], None] = lambda _done, _all: None,
) -> Judged:
    """Run the checkers over a run's folder and build its report. Raises AnalysisFailed.

    limit_s: of the checkers, None: as long as they get jobs done, each in a time by the size of the history; named:
    what set it. on_jobs: told how many jobs are done, and of how many, 0 while that is not known.
    """
    try:
        found = recover(store.history)
        limit = (
            Limit(limit_for(store.history), "the limit by the history's size", renewed=True)
            if limit_s is None
            else Limit(limit_s, named)
        )
    except (HistoryError, OSError) as error:
        raise AnalysisFailed(str(error)) from None
    say(f"analysis of {found.lines:,} lines")
    if found.open or found.torn_bytes:
        say(f"{found.open} operations without an outcome count as info; {found.torn_bytes} bytes of a torn last line")
    for old in (store.results, store.report, store.junit):
        old.unlink(missing_ok=True)
    return _judged(store, run_checkers(store, limit, where, on_jobs, frozenset(EXIT_CODES.values())), say)


def analyze_elsewhere(
    uri: str,
    into: Path,
    limit_s: float | None,
    *,
    where: Where = HERE,
    say: Callable[[str], None] = lambda _text: None,
    on_jobs: Callable[[int, int], None] = lambda _done, _all: None,
) -> Judged:
    """Run the checkers over a folder that Hadoop knows by its URI, and build its report here. Raises AnalysisFailed,
    and FolderTaken where `into` is not for it.

    into: a new folder, or what an analysis that failed left, for what is read here, and for results, JUnit and report;
    results are written to the URI too. Nothing here looks at the history, so that no record's life is in the report.
    """
    limit = (
        Limit(LONGEST_JOB_S, "the limit of a job", renewed=True) if limit_s is None else Limit(limit_s, "--time-limit")
    )
    with filled(into, uri) as store:
        return _judged(store, run_checkers(store, limit, where, on_jobs, frozenset(EXIT_CODES.values()), uri), say)


def _judged(store: RunStore, code: int, say: Callable[[str], None]) -> Judged:
    """What came of checkers that ended with `code`. Raises AnalysisFailed where that is not what they wrote."""
    try:
        results = read_json(store.results)
    except StoreError as error:
        raise AnalysisFailed(f"the checkers ended without results: {error}; see {log_of(store)}") from None
    verdict = results.get("verdict")
    if verdict not in EXIT_CODES:
        allowed = ", ".join(EXIT_CODES)
        raise AnalysisFailed(f"{store.results}: verdict {verdict!r} is not one of {allowed}")
    if EXIT_CODES[str(verdict)] != code:
        raise AnalysisFailed(f"the checkers wrote {verdict}, but ended with exit code {code}; see {log_of(store)}")
    try:
        # Imported late, as the report is: a verdict stands without the package that writes it for CI systems.
        from harness.runs.junit import write_junit
    except ImportError as error:
        say(f"no {store.junit.name}: a package is missing ({error}); install highwater[lab]")
    else:
        try:
            write_junit(store.junit, _run_name(store), results)
        except OSError as error:
            # A verdict stands without the file that tells others of it.
            say(f"no {store.junit.name}: {said(error, store.path)}")
    report, problem = build_report(store)
    return Judged(str(verdict), str(results.get("sentence", "")), report, problem)


def _run_name(store: RunStore) -> str:
    return str(store.read_run().get("name", store.path.parent.name))


def build_report(store: RunStore) -> tuple[Path | None, str | None]:
    """(report, None), or (None, why there is none)."""
    try:
        # Imported late, as is jinja2 in there: a folder can be judged where the report's packages are not installed.
        report = importlib.import_module("harness.report")
        try:
            built = report.build(store.path)
        except report.ReportError as error:
            return None, str(error)
    except ImportError as error:
        return None, f"the report needs a package that is missing ({error}); install highwater[lab]"
    except Exception as error:
        # A verdict stands without its report.
        return None, f"{type(error).__name__}: {error}"
    return Path(built), None
