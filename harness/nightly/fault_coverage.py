"""Which of a run file's faults took effect in none of a night's runs: bugs that only these faults show were not looked
for. Decides after how many runs that makes the night's verdict unknown. A run of all faults has seven of fourteen kinds
or so: that twenty such runs leave one out by chance has odds of one to a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

RUNS_ENOUGH = 20


@dataclass(frozen=True, slots=True)
class Gap:
    """kinds: of faults that the run file names and its nodes can do. runs: how many were judged."""

    file: str
    kinds: tuple[str, ...]
    runs: int

    @property
    def counts(self) -> bool:
        """Whether this gap makes the night's verdict unknown."""
        return self.runs >= RUNS_ENOUGH

    @property
    def text(self) -> str:
        """One line for the console and the night's summary."""
        runs = f"{self.runs} run" + ("" if self.runs == 1 else "s")
        mild = "" if self.counts else f" (held against the night from {RUNS_ENOUGH} runs on)"
        return f"{self.file}: fired in none of {runs}: {', '.join(self.kinds)}{mild}"


def gaps(not_fired: Mapping[str, Sequence[Collection[str]]]) -> list[Gap]:
    """not_fired: by run file, the kinds that each of its judged runs did not see."""
    found = []
    for file, runs in not_fired.items():
        never = set(runs[0]).intersection(*runs[1:]) if runs else set()
        if never:
            found.append(Gap(file, tuple(sorted(never)), len(runs)))
    return found
