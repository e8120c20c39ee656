"""append-poll: producers append unique values to all partitions, consumers poll all partitions by assignment.

Decides the mix, the pace and the values. Must not know clients. Values below `SENTINELS` are the load's, those from
there on are sentinels; a script sends values of its own, and a run has a script or this load.
"""

from __future__ import annotations

from harness.operations.generator import Generator, Mix, Rng, Sentinels, Stagger, TimeLimit
from harness.plan.plan import Plan
from harness.workloads.append_poll.generators import Polls, Sends, Spread

SENTINELS = 10**12


class AppendPoll:
    """Threads [0, producers) send, [producers, threads) poll."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        workload = plan.workload
        self.threads = max(1, workload.producers + workload.consumers)

    def main(self) -> Generator:
        workload, partitions = self._plan.workload, self._plan.topic.partitions
        rng = Rng(self._plan.seed_drawn)
        parts: list[Generator] = []
        weights: list[int] = []
        if workload.producers:
            parts.append(Sends(rng.split(1), Spread(0, workload.producers, partitions), workload.records_per_send))
            weights.append(workload.producers)
        if workload.consumers:
            parts.append(Polls(rng.split(2), Spread(workload.producers, self.threads, partitions)))
            weights.append(workload.consumers)
        mixed = Mix(rng.split(3), tuple(parts), tuple(weights))
        paced = Stagger(rng.split(4), 1e9 / workload.rate, mixed)
        return TimeLimit(int(workload.time_limit_s * 1e9), paced)

    def final(self, again: int = 0) -> Generator:
        senders = self._plan.workload.producers or self.threads
        limit_ns = int(self._plan.limits.drain_s * 1e9)
        partitions = tuple(range(self._plan.topic.partitions))
        return TimeLimit(limit_ns, Sentinels(partitions, SENTINELS * (again + 1), 0, senders))
