"""The load of admin: append-poll's, and what administrators change and ask for.

Decides the mix, topics, settings and numbers. Must not know clients. Every change of a setting has a number of its own,
so that a description shows which one it is of. A growth that certainly had no effect is asked for again; now and then
one that was asked for already is, as by an administrator who had no answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.operations.generator import PENDING, Completed, Context, Generator, Op, Pending, Rng, TimeLimit, within
from harness.plan.plan import Plan
from harness.workloads.admin.options import CONFIGS, SETTINGS_FROM, Options, first_administrator
from harness.workloads.append_poll.generators import Polls, Sends, mixed

ALTER, DESCRIBE, GROW, COUNT = "alter_config", "describe_config", "create_partitions", "count_partitions"
UNSET = -1

_GROWTHS = 0.03
_CHANGES = 0.3
_DESCRIPTIONS = 0.75
"""Shares of an administrator's operations, added up; the rest counts partitions."""
_DELETED = 0.15
"""Of the changes, those that take the topic's own value away."""
_AGAIN = 0.3
"""Of the growths, those that were asked for already."""


class Wanted(NamedTuple):
    """Detail of an op: which administrators' topic, and which setting of CONFIGS (-1: none). number: the value to set,
    or how many partitions there are to be; since: for how many had been asked before.
    """

    topic: int
    config: int
    number: int
    since: int = UNSET


@dataclass(frozen=True, slots=True)
class Administration:
    """Endless operations by idle threads of [first, end). counts: of each topic the most partitions asked for."""

    rng: Rng
    first: int
    end: int
    options: Options
    counts: tuple[int, ...]
    next_setting: int = SETTINGS_FROM

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        """An operation of an idle thread, in random order."""
        mine = within(context.free, self.first, self.end)
        if not mine:
            return PENDING
        at, rng = self.rng.below(len(mine))
        topic, rng = rng.below(len(self.counts))
        chance, rng = rng.unit()
        after = self
        if chance < _GROWTHS:
            f, after, wanted, rng = self._growth(topic, rng)
        elif chance < _CHANGES:
            f, after, wanted, rng = self._change(topic, rng)
        elif chance < _DESCRIPTIONS:
            config, rng = rng.below(len(CONFIGS))
            f, wanted = DESCRIBE, Wanted(topic, config, UNSET)
        else:
            f, wanted = COUNT, Wanted(topic, -1, UNSET)
        return Op(context.time_ns, mine[at], f, -1, detail=wanted), replace(after, rng=rng)

    def _growth(self, topic: int, rng: Rng) -> tuple[str, Administration, Wanted, Rng]:
        again, rng = rng.unit()
        step, rng = rng.below(2)
        count = self.counts[topic]
        if again >= _AGAIN or count == self.options.partitions_first:
            count = min(count + 1 + step, self.options.partitions_most)
        return GROW, self._asked(topic, count), Wanted(topic, -1, count, self.counts[topic]), rng

    def _change(self, topic: int, rng: Rng) -> tuple[str, Administration, Wanted, Rng]:
        config, rng = rng.below(len(CONFIGS))
        deleted, rng = rng.unit()
        if deleted < _DELETED:
            return ALTER, self, Wanted(topic, config, UNSET), rng
        after = replace(self, next_setting=self.next_setting + 1)
        return ALTER, after, Wanted(topic, config, self.next_setting), rng

    def _asked(self, topic: int, count: int) -> Administration:
        return replace(self, counts=(*self.counts[:topic], count, *self.counts[topic + 1 :]))

    def update(self, completed: Completed) -> Generator:
        """The newest growth is asked for again where it had no effect, but for one that found as many partitions."""
        wanted = completed.op.detail
        if completed.op.f != GROW or completed.outcome != "fail" or not isinstance(wanted, Wanted):
            return self
        if completed.error == "INVALID_PARTITIONS" or self.counts[wanted.topic] != wanted.number:
            return self
        return self._asked(wanted.topic, wanted.since)


def load(plan: Plan, options: Options) -> Generator:
    """The operations of the main phase, at the plan's rate."""
    rng, first = Rng(plan.seed_drawn), first_administrator(plan)
    records, counts = plan.workload.records_per_send, (options.partitions_first,) * options.topics
    administration = Administration(rng.split(5), first, first + options.administrators, options, counts)
    paced = mixed(
        plan,
        rng,
        lambda spread: Sends(rng.split(1), spread, records),
        lambda spread: Polls(rng.split(2), spread),
        [(administration, options.administrators)],
    )
    return TimeLimit(int(plan.workload.time_limit_s * 1e9), paced)
