"""The final phase: open transactions are ended, sentinels sent, both topics drained under both isolation levels,
evidence copied, and every replica of both topics read as leader.

Decides the order. What is not reached in time is recorded, and the checkers judge it. Must not know faults, or how the
evidence is copied.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from harness.clients.admin import AdminError, has_full_isrs
from harness.clients.connection import ClientError, Connection
from harness.clients.requests import LATEST, list_offset
from harness.operations.generator import Generator
from harness.operations.history import FINAL, drain_phase
from harness.plan.plan import Plan
from harness.workloads.append_poll.final_phase import settle_s
from harness.workloads.append_poll.leader_rotation import Rotation, Topic, current_leaders
from harness.workloads.base import Brokers, FinalTools, RunContext
from harness.workloads.transactions.generators import committed_offsets, ends, sentinels

REQUEST_TIMEOUT_NS = 2_000_000_000
PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class FinalPhase:
    """One run's final phase; limits.drain_s bounds each of its waits and drains."""

    plan: Plan
    run: RunContext
    topic: Topic
    out: Topic
    ids: tuple[str, ...]
    tools: FinalTools

    def carry_out(self, brokers: Brokers) -> None:
        """All of it, in order. Ends the run on a signal."""
        limit_s = self.plan.limits.drain_s
        for each in (self.topic, self.out):
            try:
                each.admin.wait("leaders and full ISRs after the heal", has_full_isrs(self.plan.topic), limit_s)
            except AdminError as error:
                self.run.history.harness("heal", error=str(error))
                self.run.show(str(error), limit_s)
        self.end_transactions()
        self._write_and_drain("current")
        self.run.check()
        self.tools.collect_evidence()
        self.run.check()
        rotation = Rotation(
            brokers,
            [self.topic, self.out],
            self.run.history,
            self.plan.topic,
            limit_s,
            settle_s=settle_s(self.plan.system.settings),
            say=lambda text: self.run.show(text, limit_s),
        )
        incomplete = rotation.run()
        self.run.check()
        if incomplete:
            rotation.restore()
            self._write_and_drain("again", again=1)
            self.run.check()

    def end_transactions(self) -> None:
        """Abort what was left open; a partition whose last stable offset stays behind is recorded. Then ask for the
        committed offsets.
        """
        self.run.begin(FINAL, self.plan.limits.drain_s)
        self.tools.carry_out(ends(self.plan, self.ids))
        self.wait_until_stable()
        self.tools.carry_out(committed_offsets(self.plan))

    def sentinels(self, again: int) -> Generator:
        """The acknowledged sends behind which every drain ends. again: how often there were some before."""
        return sentinels(self.plan, again)

    def wait_until_stable(self) -> None:
        """Of every partition of both topics."""
        end_s = time.monotonic() + self.plan.limits.drain_s
        for each in (self.topic, self.out):
            for partition in range(self.plan.topic.partitions):
                self._wait_until_stable(each, partition, end_s)

    def _wait_until_stable(self, topic: Topic, partition: int, end_s: float) -> None:
        """Write `transactions-ended` once LSO and HW are equal, `transactions-open` where they are not in time.

        start: the last stable offset, end: the high watermark, null where there was no response.
        """
        cluster = topic.admin.cluster
        resolve = current_leaders(topic.admin)
        stable: int | None = None
        end: int | None = None
        while True:
            leader = resolve(partition)
            if leader is not None:
                connection = Connection(cluster.addresses[leader.broker_id], "highwater-final")
                try:
                    stable, end = (self._end_of(connection, cluster.topic, partition, level) for level in (1, 0))
                except ClientError:
                    stable, end = None, None
                finally:
                    connection.close()
                if stable is not None and stable == end:
                    break
            if time.monotonic() >= end_s:
                self.run.history.harness(
                    "transactions-open",
                    error="its last stable offset did not reach its high watermark",
                    topic=cluster.topic,
                    partition=partition,
                    start=stable,
                    end=end,
                )
                return
            self.run.sleep(PAUSE_S)
        self.run.history.harness("transactions-ended", topic=cluster.topic, partition=partition, start=stable, end=end)

    @staticmethod
    def _end_of(connection: Connection, topic: str, partition: int, isolation: int) -> int | None:
        deadline_ns = time.monotonic_ns() + REQUEST_TIMEOUT_NS
        connection.connect(deadline_ns)
        listed = list_offset(
            connection,
            topic,
            partition,
            timestamp=LATEST,
            isolation=isolation,
            leader_epoch=-1,
            deadline_ns=deadline_ns,
        )
        return None if listed.error is not None else listed.offset

    def _write_and_drain(self, name: str, again: int = 0) -> None:
        """A fresh acknowledged sentinel per partition, and a drain of everything up to it from the leader."""
        limit_s = self.plan.limits.drain_s
        self.run.begin(FINAL, limit_s)
        self.tools.carry_out(self.sentinels(again))
        self.run.begin(drain_phase(name), limit_s)
        partitions = list(range(self.plan.topic.partitions))
        for each in (self.topic, self.out):
            incomplete = each.drain.round(partitions, current_leaders(each.admin), limit_s)
            if incomplete:
                self.run.show(
                    f"drain {name} of {each.admin.cluster.topic}: {incomplete} did not reach the end", limit_s
                )
