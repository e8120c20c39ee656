"""When which kind of fault comes, and at whom: a random mix, from the seed alone. Pure.

Kinds and selectors are drawn from shuffled decks, so each comes up before any comes up again. The first deck begins
with what a short run needs to prove something: a leader killed, a leader paused until its session ends, a follower cut
off for longer than the lag time, a damaged file where the mix has such faults, a leader that goes another way (stopped,
heard by nobody, or cut from ZooKeeper), a skewed clock. Where controllers are among the targets, the leader is the
controller in half of those. These are drawn from the shorter half of the ranges, so that a slow machine gets through
them in a minute. The other partitions come next. Nothing is active after `time_limit_s - recovery_s`.
Which kind takes which turn, and how long it has to last, is in the kind's description (`nemesis.kinds`).
Must not know nodes or how a fault is applied: targets are resolved at the moment of firing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from harness.plan.fault_kinds import CUTS_LINKS
from nemesis.kinds import FaultKind, Outlasts, Timing, Turn

ROLES = frozenset({"leader", "follower", "controller"})
ZOOKEEPER_TICK_S = 0.5

Card = tuple[FaultKind, str | None, Mapping[str, object]]
"""Kind, role or None for the next selector, wanted parameters."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The run file's [faults], and the run's length. Ranges are closed, in seconds."""

    kinds: Sequence[FaultKind]
    targets: Sequence[str]
    interval_s: tuple[float, float]
    duration_s: tuple[float, float]
    overlap: int
    time_limit_s: float
    recovery_s: float
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Slot:
    """One fault to come: active [start_s, start_s + duration_s) after the beginning of the load.

    lane: slots of one lane follow each other; of different lanes they overlap. number is unique in the run.
    """

    number: int
    lane: int
    kind: str
    target: str
    wanted: Mapping[str, object]
    start_s: float
    duration_s: float

    @property
    def end_s(self) -> float:
        """When it is over, in seconds after the beginning of the load."""
        return self.start_s + self.duration_s


def default_recovery_s(time_limit_s: float) -> float:
    """How long before the end of the load the last fault must be over: 15 % of it, 8 s at most."""
    return min(8.0, 0.15 * time_limit_s)


def timing_of(settings: Mapping[str, str]) -> Timing:
    """The timing that server.properties sets explicitly; settings that it leaves to defaults stay unknown."""
    return Timing(
        session_s=_seconds(settings.get("zookeeper.session.timeout.ms")),
        lag_s=_seconds(settings.get("replica.lag.time.max.ms")),
    )


def needed_s(kind: FaultKind, timing: Timing) -> float:
    """Shortest duration in which the kind can have its whole effect on sessions and ISRs, in seconds."""
    session = 0.0 if timing.session_s is None else timing.session_s + 2 * ZOOKEEPER_TICK_S + 1.0
    lag = 0.0 if timing.lag_s is None else 1.5 * timing.lag_s + 1.0
    match kind.outlasts:
        case Outlasts.ELECTION:
            # The broker itself must notice nothing, and the controller have time to elect.
            return session + 1.0 if session else 0.0
        case Outlasts.SESSION_AND_LAG:
            return max(session, lag)
        case Outlasts.NOTHING:
            return 0.0


def slots(mix: Mix, seed: int) -> tuple[Slot, ...]:
    """The whole schedule in order of start; the same for the same mix and seed."""
    rng = Random(f"{seed}/schedule")
    head = _head(mix, rng)
    deck = _kinds(mix, head, rng)
    selectors = _cycle(list(mix.targets), rng)
    end_s = mix.time_limit_s - mix.recovery_s
    free_at = [0.0] * mix.overlap
    drawn: list[Slot] = []
    while True:
        lane = min(range(mix.overlap), key=free_at.__getitem__)
        kind, role, wanted = next(deck)
        share = 0.5 if len(drawn) < len(head) else 1.0
        start_s = free_at[lane] + _within(mix.interval_s, share, rng)
        duration_s = _within(_durations(kind, mix), share, rng)
        if start_s + duration_s > end_s:
            return tuple(sorted(drawn, key=lambda slot: (slot.start_s, slot.number)))
        target = role if role is not None else next(selectors)
        drawn.append(Slot(len(drawn), lane, kind.name, target, wanted, start_s, duration_s))
        free_at[lane] = start_s + duration_s


def _durations(kind: FaultKind, mix: Mix) -> tuple[float, float]:
    low, high = mix.duration_s
    low = max(low, needed_s(kind, mix.timing))
    return low, max(low, high)


def _within(span: tuple[float, float], share: float, rng: Random) -> float:
    """From the first part of a range: all of it when share is 1."""
    low, high = span
    return rng.uniform(low, low + share * (high - low))


def _kinds(mix: Mix, head: Sequence[Card], rng: Random) -> Iterator[Card]:
    """Endless: the head, the other kinds, then deck after deck."""
    yield from head
    in_head = {kind.name for kind, _, _ in head}
    rest = [kind for kind in mix.kinds if kind.name not in in_head]
    rng.shuffle(rest)
    if head:
        # A short run has time for one more: a partition rather than a kind that the head has shown in another form.
        rest.sort(key=lambda kind: CUTS_LINKS not in kind.effects)
    for kind in rest:
        yield kind, None, {}
    for kind in _cycle(list(mix.kinds), rng):
        yield kind, None, {}


def _head(mix: Mix, rng: Random) -> list[Card]:
    if not ROLES & set(mix.targets):
        return []
    leaders = ["leader", *(["leading-controller"] if "controller" in mix.targets else [])]
    turns: dict[Turn, list[tuple[int, Card]]] = {turn: [] for turn in Turn}
    for kind in mix.kinds:
        if kind.opening is None:
            continue
        opening = kind.opening
        for role in leaders if opening.role == "leader" else [opening.role]:
            turns[opening.turn].append((opening.place, (kind, role, opening.wanted(mix.timing))))
    return [
        rng.choice([card for _, card in sorted(cards, key=lambda placed: placed[0])])
        for _, cards in sorted(turns.items())
        if cards
    ]


T = TypeVar("T")


def _cycle(cards: list[T], rng: Random) -> Iterator[T]:
    while True:
        deck = list(cards)
        rng.shuffle(deck)
        yield from deck


def _seconds(ms: str | None) -> float | None:
    return None if ms is None else float(ms) / 1000
