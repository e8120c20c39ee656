"""The jobs of a night, their results, and which of these count as success.

Pure: reads and writes nothing. Must not know how a run is carried out (`nightly`) nor shown (`nightly_files`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.commands.fault_coverage import Gap, gaps
from harness.runs.analysis import CRASH, INVALID, UNKNOWN, VALID

WORST_FIRST = (INVALID, CRASH, UNKNOWN, VALID)
VERDICTS = {VALID: "valid", INVALID: "invalid", UNKNOWN: "unknown"}
NO_VERDICT = "crash"


@dataclass(frozen=True, slots=True)
class Job:
    """One run that is due. digest: of the run file's text; code: of broker, lab and packages that the run uses: a job
    with another digest runs again.

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

    not_fired: kinds of faults that the run file names and that never took effect.
    """

    exit_code: int
    seconds: float
    sentence: str
    run_dir: str | None
    found: Sequence[str] = ()
    not_fired: Sequence[str] = ()

    def verdict(self) -> str:
        """The verdict as the console shows it; `NO_VERDICT` for an exit code that `highwater test` does not have."""
        return VERDICTS.get(self.exit_code, NO_VERDICT)


def effective(job: Job, result: Result) -> int:
    """The exit code that counts: success when the verdict is the one that the run file expects.

    A run that was expected to be invalid and is not counts as invalid: the lab missed what it should have found.
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
    return next((code for code in WORST_FIRST if code in codes), VALID)
