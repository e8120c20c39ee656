"""A log of more than 200 segments, a clock whose turns the test makes, and how many descriptors are open."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from broker.log.environment import Done, Environment, Job, run_inline
from broker.log.files.open_segments import OpenSegments
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.log_tools import TINY, TP, Clock, append_values, open_log, open_store

MANY = TINY | {"segment.bytes": "300"}
BOUND = 4


@dataclass
class Turns(Clock):
    """Turns that pass when told, few segments that may stay open over one, background jobs that wait for `work`."""

    turn: int = 1
    bound: int = BOUND
    patient: bool = False
    waiting: list[tuple[Job, Done]] = field(default_factory=list)

    def environment(self) -> Environment:
        return Environment(
            lambda: self.now,
            self._schedule,
            lambda job, done: self.waiting.append((job, done)) if self.patient else run_inline(job, done),
            open_segments=OpenSegments(self.bound, lambda: self.turn),
        )

    def next_turn(self, store: LogManager) -> None:
        self.turn += 1
        store.close_unread()

    def work(self, steps: int = 1 << 30) -> None:
        for _ in range(min(steps, len(self.waiting))):
            run_inline(*self.waiting.pop(0))


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def stopped_with_many_segments(path: str) -> None:
    store = open_store(path, Clock(), MANY)
    append_values(store, range(450))
    assert len(open_log(store).segment_base_offsets) > 200
    store.close(clean=True)


def restarted_with_many_segments(path: str, clock: Clock) -> tuple[LogManager, PartitionLog]:
    stopped_with_many_segments(path)
    store = open_store(path, clock, MANY)
    return store, store.logs()[TP]
