"""ZooKeeper's versions of a partition's state as steps of a record's life, and who led by which epoch.

Decides which versions belong to a life, when each was, and its words. Pure. A version's own time is ZooKeeper's wall
clock, in whole milliseconds; what a broker logged of it (`pe`, the version's number) cannot have been before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.report.life.zookeeper import Version
from harness.report.steps import Step
from harness.report.words import listed

LANE = "ZooKeeper"


@dataclass(frozen=True, slots=True)
class State:
    """A version, and when it was, in seconds of the run."""

    version: Version
    at_s: float


def placed(versions: Sequence[Version], origin_wall_ns: int, seen_s: Mapping[int, float]) -> list[State]:
    """In their order. seen_s: number of a version → when the first broker logged it.

    Numbers begin anew with a topic that is created again: then brokers' lines are of no help.
    """
    once = all(version.life == 1 for version in versions)
    found: list[State] = []
    for version in reversed(versions):
        at_s = (version.time_ms * 1_000_000 - origin_wall_ns) / 1e9
        if once and not version.deleted:
            at_s = min(at_s, seen_s.get(version.number, at_s))
        # Later versions were not before earlier ones, whatever the clock says.
        found.append(State(version, min(at_s, found[-1].at_s) if found else at_s))
    return found[::-1]


def of_life(
    states: Sequence[State], open_s: Sequence[tuple[float, float]], cuts_s: Sequence[float]
) -> list[tuple[State, Version | None]]:
    """Those that tell something of a record, each with the version before it.

    They are: what was in force when it began, and when it was cut, and what had begun that leader epoch; every change
    while it was not committed; every later leader, and the deletion of the topic. open_s: (appended, committed) of each
    record that stood at the offset.
    """
    if not open_s:
        return []
    begins_s = min(from_s for from_s, _ in open_s)
    then = [in_force(states, at_s) for at_s in (*(from_s for from_s, _ in open_s), *cuts_s)]
    wanted = {id(one) for state in then if state is not None for one in (state, _began(states, state))}
    found: list[tuple[State, Version | None]] = []
    before: Version | None = None
    for state in states:
        one = state.version
        led = before is None or one.deleted or (one.leader, one.leader_epoch) != (before.leader, before.leader_epoch)
        if (
            id(state) in wanted
            or (led and state.at_s >= begins_s)
            or any(from_s <= state.at_s <= to_s for from_s, to_s in open_s)
        ):
            found.append((state, before))
        before = one
    return found


def _began(states: Sequence[State], of: State) -> State:
    """The first version of the leader epoch of another one."""
    epoch = (of.version.life, of.version.leader_epoch)
    return next(state for state in states if (state.version.life, state.version.leader_epoch) == epoch)


def in_force(states: Sequence[State], at_s: float) -> State | None:
    """The version at a moment; None before the first."""
    return next((state for state in reversed(states) if state.at_s <= at_s), None)


def step(state: State, before: Version | None, p: str, names: Mapping[int, str], reason: str | None) -> Step:
    """One version. reason: the controller's, where it is told with it."""
    one = state.version
    if one.deleted:
        text = f"The state of {p} was deleted (zxid {one.zxid:#x}): so was the topic."
        return Step(state.at_s, "cut", (LANE,), text, "deleted")
    leader = "no leader" if one.leader < 0 else f"leader {_name(one.leader, names)}"
    isr = listed(_name(broker, names) for broker in one.isr) or "nobody"
    changes = ""
    if before is not None and before.life == one.life:
        left = [_name(broker, names) for broker in before.isr if broker not in one.isr]
        came = [_name(broker, names) for broker in one.isr if broker not in before.isr]
        said = [f"{listed(left)} left"] * bool(left) + [f"{listed(came)} came"] * bool(came)
        changes = f" ({', '.join(said)})" if said else ""
    text = (
        f"Version {one.number} of the state of {p} (zxid {one.zxid:#x}): {leader}, leader epoch {one.leader_epoch}, "
        f"ISR {isr}{changes}."
    )
    same = before is not None and (before.leader, before.leader_epoch) == (one.leader, one.leader_epoch)
    label = f"v{one.number}, epoch {one.leader_epoch}"
    return Step(
        state.at_s, "isr" if same else "election", (LANE,), text if reason is None else f"{text} {reason}.", label
    )


def led_by(versions: Sequence[Version], epoch: int, names: Mapping[int, str]) -> str | None:
    """Who had a leader epoch; None where ZooKeeper does not say, or says it of several lives of the topic."""
    leaders = {version.leader for version in versions if version.leader_epoch == epoch}
    return _name(min(leaders), names) if len(leaders) == 1 and min(leaders) >= 0 else None


def _name(broker: int, names: Mapping[int, str]) -> str:
    return names.get(broker, f"broker {broker}")
