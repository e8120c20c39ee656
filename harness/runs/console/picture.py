"""What there is to show of a run at one moment, and which partitions come first.

Decides what is worse of two partitions. Must not know how anything looks, or where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OUTCOMES = ("ok", "fail", "info")
INVALID_SO_FAR = "INVALID so far"
"""How a verdict so far begins that no line to come can excuse."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of the run. number: 1, 2, … in the order of their beginnings; of: how many there will be, None where
    that is not known; limit_s: how long it may take, None where nothing limits it.
    """

    name: str
    number: int
    of: int | None
    limit_s: float | None
    elapsed_s: float = 0.0

    @property
    def place(self) -> str:
        """`phase 3 of 9`."""
        return f"phase {self.number}" + ("" if self.of is None else f" of {self.of}")


@dataclass(slots=True)
class PartitionLine:
    """What is shown of one partition. epoch, hw, read: -1 while unknown; isr: broker ids, None while unknown; read:
    the offset up to which some client has read.
    """

    leader: str | None = None
    epoch: int = -1
    isr: Sequence[int] | None = None
    hw: int = -1
    read: int = -1

    @property
    def lag(self) -> int:
        """How many offsets below the high watermark nobody has read; 0 while that is not known."""
        return max(0, self.hw - self.read) if self.read >= 0 else 0


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """text: kind and nodes."""

    text: str
    age_s: float


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is shown.

    elapsed_s: since the run began; rates: completions per second, by outcome; ok_by_second: of the last whole seconds,
    the newest last; p50_ms, p99_ms: of acknowledged sends, None where there were none of late; coming: the next fault
    or step, for people; partitions: the worst first; jobs: (done, all) of the analysis; so_far: the verdict
    while the run goes on, empty where nobody judges it.
    """

    phase: Phase
    doing: str = ""
    elapsed_s: float = 0.0
    totals: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    ok_by_second: Sequence[int] = ()
    p50_ms: float | None = None
    p99_ms: float | None = None
    faults_done: int = 0
    faults: Sequence[ActiveFault] = ()
    coming: str = ""
    partitions: Sequence[tuple[int, PartitionLine]] = ()
    last_error: str = ""
    last_error_age_s: float = 0.0
    jobs: tuple[int, int] | None = None
    so_far: str = ""


def worst_first(partitions: Mapping[int, PartitionLine]) -> list[tuple[int, PartitionLine]]:
    """Without a leader, then the smallest ISR, then the largest lag; of equals the lowest number first."""
    return sorted(partitions.items(), key=lambda item: (*_badness(item[1]), item[0]))


def _badness(p: PartitionLine) -> tuple[bool, float, int]:
    """Less is worse. A partition that Metadata has not told of yet is no worse than others."""
    if p.isr is None:
        return True, float("inf"), -p.lag
    return p.leader is not None, len(p.isr), -p.lag
