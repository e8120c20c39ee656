"""What is wrong in a made history, where, and exactly which findings it must lead to; pure.

As many anomalies at every size, at places that the seed chooses: no two within three blocks of a partition, so that
each is found by itself. What each one leads to is docs/checkers.md: an acknowledged record that no poll returns is a
lost write, and each of those polls has a hole.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.checkers.shape import BATCH, BLOCK, PARTITIONS, READERS, ROUNDS, TOPIC, Shape

APART = 3
COPIES = {
    "lost-write": 2,
    "vanished-read": 2,
    "int-poll-skip": 2,
    "fabricated-value": 2,
    "duplicate": 2,
    "hole": 2,
    "torn-batch": 2,
    "reversed-batch": 2,
    "aborted-read": 2,
    "real-time-order": 1,
    "nonmonotonic-send": 1,
    "disordered-poll": 2,
    "skipped-poll": 2,
    "repeated-poll": 2,
    "read-above-hw": 2,
    "nonmonotonic-end": 2,
    "refused-read": 2,
    "unlike-drains": 2,
    "truncated-tail": 1,
}
"""Kind of anomaly → how many of it."""

OUTCOMES = {
    "hole": "info",
    "torn-batch": "info",
    "reversed-batch": "info",
    "aborted-read": "fail",
    **dict.fromkeys(("lost-write", "vanished-read", "fabricated-value", "duplicate"), "ok"),
    **dict.fromkeys(("int-poll-skip", "real-time-order", "nonmonotonic-send", "unlike-drains"), "ok"),
}
"""How the send of an anomaly's place comes out."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One that is planted: in this round of a block of a partition. foreign: a value that nobody sends."""

    kind: str
    p: int
    block: int
    round_: int
    foreign: int

    @property
    def offset(self) -> int:
        """Of the first value of its send."""
        return self.block * BLOCK + self.round_ * BATCH


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """What identifies a finding; -1: none."""

    checker: str
    p: str
    offset: int
    value: int


def plan(shape: Shape) -> list[Anomaly]:
    """All of a history. Raises ValueError where there is no room."""
    rng = random.Random(shape.seed)
    kinds = [kind for kind, copies in COPIES.items() for _ in range(copies)]
    taken: set[tuple[int, int]] = set()
    anomalies = []
    for nth, kind in enumerate(kinds):
        for _ in range(10_000):
            p, block = rng.randrange(PARTITIONS), rng.randrange(2, shape.blocks - 2)
            if not _changes_leader(shape, block) and all((p, block + step) not in taken for step in range(-2, 3)):
                break
        else:
            raise ValueError(f"no room for {len(kinds)} anomalies in {shape.blocks} blocks of {PARTITIONS} partitions")
        taken.add((p, block))
        # The first round of a block is another one's: that of the value that a duplicate repeats.
        anomalies.append(Anomaly(kind, p, block, rng.randrange(1, ROUNDS - 1), shape.foreign_value(nth)))
    return anomalies


def _changes_leader(shape: Shape, block: int) -> bool:
    """Whether the leader of these polls is another than that of those before."""
    rounds = (shape.poll_round(block - 2), shape.poll_round(block + 1))
    return shape.epoch(rounds[0]) != shape.epoch(rounds[1])


@dataclass(frozen=True, slots=True)
class Change:
    """A reader finds another value at an offset, or none."""

    offset: int
    value: int | None


def changes(shape: Shape, one: Anomaly, reader: str) -> list[Change]:
    """What this reader finds otherwise than it was sent."""
    at, p = one.offset, one.p
    third = Change(at + 2, None)
    drains = READERS[1:]
    match one.kind:
        case "lost-write" | "torn-batch":
            return [third]
        case "vanished-read" if reader in drains:
            return [third]
        case "int-poll-skip" if reader == "main":
            return [third]
        case "unlike-drains" if reader == "confluent":
            return [third]
        case "fabricated-value":
            return [Change(at + 2, one.foreign)]
        case "duplicate":
            return [Change(at + 2, shape.value_at(p, one.block * BLOCK))]
        case "hole":
            return [Change(at + nth, None) for nth in range(BATCH)]
        case "reversed-batch":
            return [Change(at + 1, shape.value_at(p, at + 2)), Change(at + 2, shape.value_at(p, at + 1))]
    return []


def expected(shape: Shape, anomalies: Sequence[Anomaly]) -> Counter[Found]:
    """Every finding that a judge must come to, and how often; and there must be no other."""
    return Counter(found for one in anomalies for found in _of_one(shape, one))


def _of_one(shape: Shape, one: Anomaly) -> Iterator[Found]:
    p, at = f"{TOPIC}-{one.p}", one.offset
    begin, end = one.block * BLOCK, (one.block + 1) * BLOCK
    value = shape.value_at(one.p, at + 2)
    third = (p, at + 2, value)
    polls = sum(any(change.value is None for change in changes(shape, one, reader)) for reader in READERS)
    yield from [Found("hole", p, begin, -1)] * polls
    match one.kind:
        case "lost-write":
            yield Found("lost-write", *third)
        case "torn-batch":
            yield Found("torn-batch", *third)
        case "vanished-read":
            yield from [Found("vanished-read", *third)] * 2
        case "int-poll-skip":
            yield Found("int-poll-skip", *third)
        case "unlike-drains":
            yield Found("vanished-read", *third)
            yield Found("confluent-repeat", *third)
        case "fabricated-value":
            yield Found("fabricated-value", p, at + 2, one.foreign)
            yield from _replaced(third)
        case "duplicate":
            yield Found("duplicate", p, at + 2, shape.value_at(one.p, begin))
            yield from _replaced(third)
        case "reversed-batch":
            yield Found("int-nonmonotonic-send", p, at + 2, shape.value_at(one.p, at + 1))
        case "aborted-read":
            yield from _whole("aborted-read", shape, one)
        case "real-time-order":
            yield from _whole("real-time-order", shape, one)
        case "nonmonotonic-send":
            yield from _whole("real-time-order", shape, one)
            yield from _whole("nonmonotonic-send", shape, one)
        case "disordered-poll":
            yield Found("int-nonmonotonic-poll", p, begin, -1)
        case "skipped-poll":
            yield Found("poll-skip", p, end, -1)
        case "repeated-poll":
            yield Found("nonmonotonic-poll", p, begin - BLOCK, -1)
            yield Found("poll-skip", p, end, -1)
        case "read-above-hw":
            yield Found("read-above-hw", p, shape.end_at(shape.poll_round(one.block)) - 1, -1)
        case "nonmonotonic-end":
            yield Found("nonmonotonic-end", p, denied_end(one), -1)
            yield Found("read-above-hw", p, shape.end_at(shape.poll_round(one.block)) - 1, -1)
        case "refused-read":
            yield Found("refused-read", p, begin, -1)
        case "truncated-tail":
            yield Found("lost-tail", p, shape.end + 1, one.foreign)
            yield Found("read-above-hw", p, shape.end + 1, -1)


def _replaced(place: tuple[str, int, int]) -> Iterator[Found]:
    """An acknowledged value, of which another one took the place."""
    yield Found("inconsistent-offset", *place)
    yield Found("lost-write", *place)


def _whole(checker: str, shape: Shape, one: Anomaly) -> Iterator[Found]:
    for nth in range(BATCH):
        at = one.offset + nth
        yield Found(checker, f"{TOPIC}-{one.p}", at, shape.value_at(one.p, at))


def denied_end(one: Anomaly) -> int:
    """An end, or a watermark, below what was shown before that block's poll."""
    return one.block * BLOCK - BLOCK // 2
