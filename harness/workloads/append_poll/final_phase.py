"""The final phase of append-poll, once the faults are gone: final writes, drain, evidence, leader rotation.

Decides the order. What is not reached in time is recorded, and the checkers judge it. Must not know faults, or how the
evidence is copied. Evidence comes before the rotation, which changes the logs; the run copies the brokers' own logs
once more after this phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.clients.admin import Admin, AdminError, has_full_isrs
from harness.operations.history import FINAL, drain_phase
from harness.plan.plan import Plan
from harness.workloads.append_poll.drain import Drain
from harness.workloads.append_poll.generators import final_sends
from harness.workloads.append_poll.leader_rotation import Rotation, Topic, current_leaders
from harness.workloads.base import Brokers, FinalTools, RunContext

RETENTION, NEVER = "retention.ms", "-1"
_FETCH_WAIT_MS = 500  # Kafka's default of replica.fetch.wait.max.ms
_SETTLE_MS_MAX = 1000.0
_SETTLE_MARGIN_S = 0.2


@dataclass(frozen=True, slots=True)
class FinalPhase:
    """One run's final phase; limits.drain_s bounds each of its waits and drains."""

    plan: Plan
    run: RunContext
    admin: Admin
    drain: Drain
    tools: FinalTools

    def carry_out(self, brokers: Brokers) -> None:
        """All of it, in order. Ends the run on a signal."""
        limit_s, topic = self.plan.limits.drain_s, self.plan.topic
        try:
            self.admin.wait("leaders and full ISRs after the heal", has_full_isrs(topic), limit_s)
        except AdminError as error:
            self.run.history.harness("heal", error=str(error))
            self.run.show(str(error), limit_s)
        self._keep_what_is_left(limit_s)
        self._write_and_drain("current")
        self.run.check()
        self.tools.collect_evidence()
        self.run.check()
        rotation = Rotation(
            brokers,
            [Topic(self.admin, self.drain)],
            self.run.history,
            topic,
            limit_s,
            settle_s=settle_s(self.plan.system.settings),
            say=lambda text: self.run.show(text, limit_s),
        )
        incomplete = rotation.run()
        self.run.check()
        if incomplete:
            # A replica that lacks records at its end cannot be read to the sentinel, and that alone proves no loss.
            # Only records that are written over them do.
            rotation.restore()
            self._write_and_drain("again", again=1)
            self.run.check()

    def _keep_what_is_left(self, limit_s: float) -> None:
        """Where records go for their age, end that: a log that loses its head while it is read cannot be read whole by
        one reader after the other, and in the end nothing would be left.
        """
        if not deletes_by_time(self.plan):
            return
        try:
            self.admin.set_topic_config(RETENTION, NEVER, limit_s)
        except AdminError as error:
            self.run.history.harness("heal", error=str(error))
            self.run.show(str(error), limit_s)

    def _write_and_drain(self, name: str, again: int = 0) -> None:
        """A fresh acknowledged sentinel per partition, and a drain of everything up to it from the leader."""
        limit_s = self.plan.limits.drain_s
        self.run.begin(FINAL, limit_s)
        self.tools.carry_out(final_sends(self.plan, again))
        self.run.begin(drain_phase(name), limit_s)
        incomplete = self.drain.round(list(range(self.plan.topic.partitions)), current_leaders(self.admin), limit_s)
        if incomplete:
            # Nothing makes up for the first of these drains: the rotation restarts brokers before it reads them.
            self.run.show(f"drain {name}: {incomplete} readings did not reach the end", limit_s)


def deletes_by_time(plan: Plan) -> bool:
    """Whether the run file says how old records may become, and does not say that they stay for ever."""
    if RETENTION in plan.topic.config:
        return plan.topic.config[RETENTION] != NEVER
    return any(f"log.retention.{unit}" in plan.system.settings for unit in ("ms", "minutes", "hours"))


def settle_s(settings: Mapping[str, str]) -> float:
    """How long followers may take to learn the watermark: one fetch wait and a little; long waits are not sat out."""
    wait_ms = float(settings.get("replica.fetch.wait.max.ms", _FETCH_WAIT_MS))
    return min(wait_ms, _SETTLE_MS_MAX) / 1000 + _SETTLE_MARGIN_S
