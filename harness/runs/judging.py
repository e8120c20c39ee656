"""The verdict of a run that has ended, and its exit code.

Decides which ended runs are judged at all. Must not know how checkers work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.runs.analysis import CRASH, INVALID, Judged, analyze, command_again
from harness.runs.checkers_process import AnalysisFailed, Where
from harness.runs.expected_phases import ANALYSIS
from harness.runs.recording import Recording
from harness.runs.run_control import Aborted


class Judgement(NamedTuple):
    """judged: None when the run was not judged. problem: of the run or of its analysis, for people."""

    judged: Judged | None
    problem: str | None

    @property
    def exit_code(self) -> int:
        """A run that broke off is a crash, unless its history proves a loss."""
        if self.judged is None:
            return 0 if self.problem is None else CRASH
        return self.judged.exit_code if self.problem is None or self.judged.exit_code == INVALID else CRASH


def judge(recording: Recording, problem: str | None, limit_s: float | None, where: Callable[[], Where]) -> Judgement:
    """Have a closed recording judged, within limit_s where there is one. problem: what the run broke off for; where:
    asked for once it is to be judged.

    What was recorded before a run broke off may already prove a loss. A run that a signal ended is not judged, nor one
    that ended for want of space: checkers write more than a run does.
    """
    if problem is not None and (recording.abort.is_set() or not recording.stats.operations):
        return Judgement(None, problem)
    if problem is not None and recording.no_room:
        again = f"`{command_again(recording.store)}` judges what was recorded, once there is space"
        return Judgement(None, f"{problem}\n{again}")
    try:
        with recording.abort.released():
            # A signal during the run's ending counts as one before its analysis.
            recording.check()
            recording.stats.phase(ANALYSIS, limit_s)
            recording.stats.jobs(0, 0)
            judged = analyze(
                recording.store,
                limit_s,
                where=where(),
                say=recording.console.say,
                on_jobs=recording.stats.jobs,
            )
    except Aborted:
        again = f"`{command_again(recording.store)}` judges it"
        return Judgement(None, problem or f"analysis aborted by {recording.abort.reason}; the run is recorded: {again}")
    except AnalysisFailed as error:
        again = f"`{command_again(recording.store, error)}` judges it"
        if problem is not None:
            return Judgement(None, f"{problem}; what was recorded could not be judged ({error}): {again}")
        return Judgement(None, f"the run is recorded, but could not be judged: {error}\n{again}")
    return Judgement(judged, problem)
