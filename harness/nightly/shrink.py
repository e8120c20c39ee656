"""The smallest run that still fails as a run did: fewer faults, shorter, fewer clients.

Pure: how a smaller run comes out is a function's business. Decides what is tried, in which order, and that a smaller
run counts only where a checker fails that failed before. Must not know how runs are carried out. Invariant: what is
returned has failed itself, or is the run that it all began with.
Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (ddmin), 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.plan.plan import Plan

LEAST_S = 10.0
"""A shorter load says nothing."""
MARGIN_S = 2.0

Fails = Callable[[Plan], bool]


@dataclass(frozen=True, slots=True)
class Fired:
    """A fault of the schedule that took effect. number: in the schedule, from 1; end_s: when it was over, in seconds
    after the beginning of the load.
    """

    number: int
    end_s: float


@dataclass(slots=True)
class Shrunk:
    """The smallest run so far that fails. tried: how many smaller ones were; whole: whether all were tried."""

    plan: Plan
    tried: int = 0
    whole: bool = False


def shrink(plan: Plan, fired: Sequence[Fired], fails: Fails, go_on: Callable[[], bool]) -> Shrunk:
    """plan: failed, by faults drawn from its seed. go_on: whether there is time for another run."""
    found = Shrunk(plan)

    def accept(candidate: Plan) -> bool:
        found.tried += 1
        if not fails(candidate):
            return False
        found.plan = candidate
        return True

    if plan.faults is not None:
        _fewer_faults(found, sorted(fired, key=lambda fault: fault.number), accept, go_on)
    for candidates in (_shorter, _fewer_producers, _fewer_consumers):
        tries = candidates(found, fired)
        while (candidate := next(tries, None)) is not None:
            if not go_on():
                return found
            if accept(candidate):
                tries = candidates(found, fired)
    found.whole = go_on()
    return found


def _fewer_faults(found: Shrunk, fired: Sequence[Fired], accept: Fails, go_on: Callable[[], bool]) -> None:
    """ddmin: complements of ever finer parts; at last each fault by itself. None at all comes first."""
    numbers = [fault.number for fault in fired]
    if not go_on() or accept(_only(found.plan, [])):
        return
    parts = 2
    while len(numbers) > 1:
        size = -(-len(numbers) // parts)
        chunks = [numbers[at : at + size] for at in range(0, len(numbers), size)]
        for chunk in chunks:
            if not go_on():
                return
            left = [number for number in numbers if number not in chunk]
            if left and accept(_only(found.plan, left)):
                numbers, parts = left, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return
            parts = min(2 * parts, len(numbers))


def _only(plan: Plan, numbers: Sequence[int]) -> Plan:
    assert plan.faults is not None
    return replace(plan, faults=replace(plan.faults, only=tuple(numbers)))


def _shorter(found: Shrunk, fired: Sequence[Fired]) -> Iterator[Plan]:
    """As short as the faults that are left allow; then half of the way there."""
    plan, only = found.plan, found.plan.faults.only if found.plan.faults is not None else ()
    ends = [fault.end_s for fault in fired if only is None or fault.number in only]
    # The schedule ends 15 % of the load before its end.
    least_s = max(LEAST_S, (max(ends, default=0.0) + MARGIN_S) / 0.85)
    for limit_s in (least_s, (least_s + plan.workload.time_limit_s) / 2):
        limit_s = float(round(limit_s))
        if limit_s <= plan.workload.time_limit_s - MARGIN_S:
            yield replace(plan, workload=replace(plan.workload, time_limit_s=limit_s))


def _fewer_producers(found: Shrunk, _: Sequence[Fired]) -> Iterator[Plan]:
    plan = found.plan
    for count in _fewer(plan.workload.producers):
        yield replace(plan, workload=replace(plan.workload, producers=count))


def _fewer_consumers(found: Shrunk, _: Sequence[Fired]) -> Iterator[Plan]:
    plan = found.plan
    for count in _fewer(plan.workload.consumers):
        yield replace(plan, workload=replace(plan.workload, consumers=count))


def _fewer(count: int) -> Iterator[int]:
    """One, then half of them."""
    yield from sorted({1, count // 2} - {0, count}) if count > 1 else ()
