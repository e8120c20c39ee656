"""What comes before the drains: the group reads to a sentinel, its members close, and its offsets are asked for.

Decides when the group counts as having come to the end. What is not reached in time is recorded, and the checkers judge
it. Must not know librdkafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.clients.admin import Admin, AdminError, has_full_isrs
from harness.operations.generator import Generator, Phases, Sentinels, TimeLimit
from harness.operations.history import FINAL
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import SENTINELS
from harness.workloads.base import FinalTools, RunContext
from harness.workloads.groups.final_fetch import FinalFetch
from harness.workloads.groups.offsets_topic import OffsetsTopic
from harness.workloads.real_clients.load import LOOK_S, Load
from harness.workloads.real_clients.processing import Reached
from harness.workloads.transactions.final_phase import FinalPhase
from harness.workloads.transactions.generators import OUT, About

READERS = 2
"""Wire readers beside the application; they send the sentinels too."""
OF_GROUP = 8
"""Sentinels of the group are those of the OF_GROUP-th time, which no final phase comes to."""


def sentinels_of(plan: Plan, again: int, *, out: bool = False) -> Generator:
    """Acknowledged sends, one for each partition; of the topic, or of both topics."""
    partitions, first = tuple(range(plan.topic.partitions)), SENTINELS * (again + 1)
    topic = Sentinels(partitions, first, 0, READERS)
    both = (topic, About(OUT, Sentinels(partitions, first + SENTINELS // 2, 0, READERS)))
    return TimeLimit(int(plan.limits.drain_s * 1e9), Phases(both if out else (topic,)))


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """sentinels: partition → offset of its acknowledged sentinel."""

    plan: Plan
    run: RunContext
    admin: Admin
    offsets_topic: OffsetsTopic
    load: Load
    reached: Reached
    sentinels: Mapping[int, int]
    fetch: FinalFetch

    def carry_out(self, tools: FinalTools, after: Callable[[], None]) -> None:
        """All of it. after: what is to be done once the members are closed, before the offsets are asked for."""
        limit_s = self.plan.limits.drain_s
        self.run.begin(FINAL, limit_s)
        try:
            self.admin.wait("full ISRs after the heal", has_full_isrs(self.plan.topic), limit_s)
            self.offsets_topic.wait(limit_s)
        except AdminError as error:
            self.run.history.harness("heal", error=str(error))
        self.load.wait_for_producers(self.run.sleep, limit_s)
        tools.carry_out(sentinels_of(self.plan, OF_GROUP))
        self._wait_for_group(time.monotonic() + limit_s)
        self.load.end_members(self.run.sleep, limit_s)
        after()
        self.fetch.all_groups(limit_s)

    def _wait_for_group(self, end_s: float) -> None:
        """Write `group-drained` for each partition whose sentinel the group has committed, else `group-undrained`."""
        for partition in range(self.plan.topic.partitions):
            sentinel = self.sentinels.get(partition)
            while sentinel is not None and self.reached.offsets.get(partition, 0) <= sentinel:
                if time.monotonic() >= end_s:
                    break
                self.run.sleep(LOOK_S)
            end = self.reached.offsets.get(partition, 0)
            drained = sentinel is not None and end > sentinel
            self.run.history.harness(
                "group-drained" if drained else "group-undrained",
                topic=self.plan.topic.name,
                partition=partition,
                start=0,
                end=end,
                error=None if drained else f"the group had committed {end}, the sentinel is at {sentinel}",
            )


@dataclass(frozen=True, slots=True)
class ExactlyOnceFinalPhase(FinalPhase):
    """As of transactions, with the application's transactions in place of the lab's own. take_ids: ends what the
    application's producers left open.
    """

    group_end: GroupEnd
    take_ids: Callable[[], None]

    def end_transactions(self) -> None:
        """The group's end; then no transaction may be open."""

        def after() -> None:
            self.take_ids()
            self.wait_until_stable()

        self.group_end.carry_out(self.tools, after)

    def sentinels(self, again: int) -> Generator:
        """Of both topics."""
        return sentinels_of(self.plan, again, out=True)
