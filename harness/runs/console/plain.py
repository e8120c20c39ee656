"""The console as lines of text, for where there is no terminal.

Decides wording. Must not know where the figures come from.
"""

from __future__ import annotations

from harness.runs.console.picture import OUTCOMES, PartitionLine, Phase, Picture

PARTITIONS_MOST = 8


def phase_line(phase: Phase, before_s: float) -> str:
    """A phase begins; before_s: how long the one before it took."""
    limit = "" if phase.limit_s is None else f", at most {phase.limit_s:.0f} s"
    before = "" if phase.number == 1 else f" (the one before took {before_s:.1f} s)"
    return f"{phase.place}: {phase.name}{limit}{before}"


def jobs_text(picture: Picture) -> str:
    """How far the analysis is; empty where there is none."""
    if picture.jobs is None:
        return ""
    done, of = picture.jobs
    return f"analysis: {done} of {of} jobs" if of else "analysis: reading what was recorded"


def plain(picture: Picture) -> str:
    """One line of text."""
    left = "" if picture.phase.limit_s is None else f", {_left_s(picture.phase):.0f} s left"
    if picture.jobs is not None:
        return f"{jobs_text(picture)}{left}"
    rates = " ".join(f"{picture.rates.get(key, 0.0):.0f} {key}/s" for key in OUTCOMES)
    parts = [f"{picture.phase.name}{left}", rates]
    if picture.p50_ms is not None and picture.p99_ms is not None:
        parts.append(f"sends p50 {picture.p50_ms:.1f} p99 {picture.p99_ms:.1f} ms")
    if picture.so_far:
        parts.append(picture.so_far)
    faults = _faults(picture)
    if faults:
        parts.append(f"faults: {faults}")
    if picture.partitions:
        shown = " ".join(f"{index}:{_partition(p)}" for index, p in picture.partitions[:PARTITIONS_MOST])
        more = len(picture.partitions) - PARTITIONS_MOST
        parts.append(f"{shown} and {more} more" if more > 0 else shown)
    if picture.last_error:
        parts.append(f"last error {picture.last_error_age_s:.0f} s ago: {picture.last_error}")
    return " | ".join(parts)


def _left_s(phase: Phase) -> float:
    return max(0.0, (phase.limit_s or 0.0) - phase.elapsed_s)


def _faults(picture: Picture) -> str:
    parts = [f"{picture.faults_done} done"] if picture.faults_done else []
    parts += [f"{fault.text} for {fault.age_s:.0f} s" for fault in picture.faults]
    if picture.coming:
        parts.append(picture.coming)
    return "; ".join(parts)


def _partition(p: PartitionLine) -> str:
    isr = "?" if p.isr is None else ",".join(str(broker) for broker in p.isr)
    return f"{p.leader or '-'}[{isr}]@{p.hw if p.hw >= 0 else '?'}"
