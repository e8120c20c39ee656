"""Has a recorded run judged: checkers in a process of their own, then JUnit and the report.

Decides the exit code. Must not know what the checkers look for: they are a program that reads a run's folder and writes
results.json. Invariant: an exit code of 0, 1 or 2 stands for a verdict that this very analysis wrote.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.operations.history import HistoryError, recover
from harness.runs.store import RunStore, StoreError, read_json

VALID, INVALID, UNKNOWN, USAGE, CRASH = 0, 1, 2, 254, 255
EXIT_CODES = {"valid": VALID, "invalid": INVALID, "unknown": UNKNOWN}
LEAST_LIMIT_S, LIMIT_PER_LINE_S = 600.0, 0.02
"""How long checkers may take where the run file sets no limit. The limit ends checkers that hang, and leaves room for a
busy machine: an idle one with two cores takes about half a minute for the 40,000 lines of a minute's run.
"""
_TAIL_LINES = 25


class AnalysisFailed(Exception):
    """No verdict came about; the text says why and where to look."""


class AnalysisTooLong(AnalysisFailed):
    """The checkers were ended at their limit. The recording is unchanged, and more time may be enough."""

    def __init__(self, limit_s: float, named: str, log: Path) -> None:
        super().__init__(f"the checkers did not end within {named} = {limit_s:g} s; see {log}")
        self.limit_s = limit_s


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
    """How long the checkers may take for a history of this size, in seconds. Raises OSError."""
    with history.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return float(round(LEAST_LIMIT_S + LIMIT_PER_LINE_S * lines))


def command_again(store: RunStore, failure: AnalysisFailed | None = None) -> str:
    """The command that judges the run; with twice the time limit where the limit was too short."""
    more = f" --time-limit {2 * failure.limit_s:g}" if isinstance(failure, AnalysisTooLong) else ""
    return f"highwater analyze {shlex.quote(str(store.path))}{more}"


def analyze(
    store: RunStore,
    limit_s: float | None,
    *,
    named: str = "limits.analysis_s",
    spark_master: str | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> Judged:
    """Run the checkers over a run's folder and build its report. Raises AnalysisFailed.

    limit_s: of the checkers, None: by the size of the history; named: what set it.
    """
    try:
        found = recover(store.history)
        limit_s, named = (
            (limit_for(store.history), "the limit by the history's size") if limit_s is None else (limit_s, named)
        )
    except (HistoryError, OSError) as error:
        raise AnalysisFailed(str(error)) from None
    say(f"analysis of {found.lines:,} lines")
    if found.open or found.torn_bytes:
        say(f"{found.open} operations without an outcome count as info; {found.torn_bytes} bytes of a torn last line")
    for old in (store.results, store.report, store.junit):
        old.unlink(missing_ok=True)
    code = _run_checkers(store, limit_s, named, spark_master)
    try:
        results = read_json(store.results)
    except StoreError as error:
        raise AnalysisFailed(f"the checkers ended without results: {error}; see {_log(store)}") from None
    verdict = results.get("verdict")
    if verdict not in EXIT_CODES:
        allowed = ", ".join(EXIT_CODES)
        raise AnalysisFailed(f"{store.results}: verdict {verdict!r} is not one of {allowed}")
    if EXIT_CODES[str(verdict)] != code:
        raise AnalysisFailed(f"the checkers wrote {verdict}, but ended with exit code {code}; see {_log(store)}")
    try:
        # Imported late, as the report is: a verdict stands without the package that writes it for CI systems.
        from harness.runs.junit import write_junit
    except ImportError as error:
        say(f"no {store.junit.name}: a package is missing ({error}); install highwater[lab]")
    else:
        write_junit(store.junit, _run_name(store), results)
    report, problem = build_report(store)
    return Judged(str(verdict), str(results.get("sentence", "")), report, problem)


def _run_name(store: RunStore) -> str:
    return str(store.read_run().get("name", store.path.parent.name))


def build_report(store: RunStore) -> tuple[Path | None, str | None]:
    """(report, None), or (None, why there is none)."""
    try:
        # Imported late, as is jinja2 in there: a folder can be judged where the report's packages are not installed.
        built = importlib.import_module("harness.report").build(store.path)
    except ImportError as error:
        return None, f"the report needs a package that is missing ({error}); install highwater[lab]"
    except Exception as error:
        # A verdict stands without its report.
        return None, f"{type(error).__name__}: {error}"
    return Path(built), None


def _log(store: RunStore) -> Path:
    return store.path / "analysis.log"


@contextlib.contextmanager
def _scratch(store: RunStore) -> Iterator[Path]:
    """A folder for temporary files, below the run's: an analysis that is killed leaves none elsewhere, and the next
    analysis removes them.
    """
    folder = store.path / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_checkers(store: RunStore, limit_s: float, named: str, spark_master: str | None) -> int:
    """Their exit code, which is a verdict's."""
    command = [sys.executable, "-m", "checkers", str(store.path)]
    if spark_master is not None:
        command += ["--spark-master", spark_master]
    log = _log(store)
    with _scratch(store) as scratch, log.open("wb") as output:
        # A group of its own, so that the JVM which Spark starts ends with it, before it could tidy up.
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(scratch)},
        )
        try:
            code = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise AnalysisTooLong(limit_s, named, log) from None
        finally:
            _end_group(process)
    if code not in (VALID, INVALID, UNKNOWN):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        tail = "\n".join(lines)
        raise AnalysisFailed(f"the checkers crashed with exit code {code}; end of {log}:\n{tail}")
    return code


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
