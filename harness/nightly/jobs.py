"""The jobs of a night, their results, and which of these count as success.

Pure: reads and writes nothing. Must not know how a run is carried out (`runner`) nor shown (`pages`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from harness.nightly.fault_coverage import Gap, gaps
from harness.runs.analysis import CRASH, INVALID, UNKNOWN, VALID

WORST_FIRST = (INVALID, CRASH, UNKNOWN, VALID)
VERDICTS = {VALID: "valid", INVALID: "invalid", UNKNOWN: "unknown"}
NO_VERDICT = "crash"

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Job:
    """One run that is due. digest: of the run file's text; code: of broker, lab and packages that the run uses: a job
    with another digest runs again.

    expect_found: checkers of which one at least must say invalid, where invalid is expected. cell: of a matrix, axis →
    value; empty for a run file. night: how the run file is called there.
    """

    file: str
    name: str
    digest: str
    seed: int
    expect: str
    expect_found: tuple[str, ...] = ()
    code: str = ""
    cell: Mapping[str, str] = field(default_factory=lambda: _NOTHING, hash=False)

    @property
    def key(self) -> str:
        """The same for the same run file, code and seed."""
        return f"{self.file} {self.digest} code {self.code} seed {self.seed}"

    @property
    def schedule(self) -> str:
        """The same for the same run file and seed, whatever code they run with."""
        return f"{self.name} {self.digest} seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a judged run measured; None where it did not. acknowledged: records; per_s: of them in a second of the load.

    unavailable_ms: the longest time without an acknowledgement; recovery_ms: the longest from a fault's end to one.
    """

    acknowledged: int | None = None
    per_s: float | None = None
    unavailable_ms: float | None = None
    recovery_ms: float | None = None
    faults: int | None = None
    elections: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """exit_code: of `highwater test`; run_dir: None when the run made none; found: checkers that say invalid.

    not_fired: kinds of faults that the run file names and that never took effect. trouble: of a run without a verdict,
    what kept it from one (`harness.runs.trouble`).
    """

    exit_code: int
    seconds: float
    sentence: str
    run_dir: str | None
    found: Sequence[str] = ()
    not_fired: Sequence[str] = ()
    trouble: str | None = None
    figures: Figures = Figures()

    @property
    def judged(self) -> bool:
        """Whether the run came to a verdict; one that did not is due again."""
        return self.exit_code in VERDICTS

    def verdict(self) -> str:
        """The verdict as the console shows it; `NO_VERDICT` for an exit code that `highwater test` does not have."""
        return VERDICTS.get(self.exit_code, NO_VERDICT)


def effective(job: Job, result: Result) -> int:
    """The exit code that counts: success when the verdict is the one that the run file expects.

    A run that was expected to be invalid and is not counts as invalid: the lab missed what it should have found.
    """
    if not result.judged:
        return CRASH
    if job.expect == "valid":
        return result.exit_code
    as_expected = result.verdict() == job.expect
    if job.expect_found:
        as_expected = as_expected and not set(job.expect_found).isdisjoint(result.found)
    return VALID if as_expected else INVALID


def counts_as(job: Job, result: Result) -> str:
    """`effective`, as a word."""
    return VERDICTS.get(effective(job, result), NO_VERDICT)


def fault_gaps(results: Mapping[Job, Result]) -> list[Gap]:
    """Of the run files, in their order."""
    judged: dict[str, list[Sequence[str]]] = {}
    for job, result in results.items():
        if result.judged:
            judged.setdefault(job.file, []).append(result.not_fired)
    return gaps(judged)


def worst(results: Mapping[Job, Result], uncovered: Sequence[Gap] = ()) -> int:
    """Invalid over crash over unknown over valid; faults that never fired in enough runs make the night unknown, and
    so does a night in which nothing was run.
    """
    codes = {effective(job, result) for job, result in results.items()}
    if not codes or any(gap.counts for gap in uncovered):
        codes.add(UNKNOWN)
    return next((code for code in WORST_FIRST if code in codes), VALID)
