"""The end of a run, once the faults are gone: final writes, drain, evidence, rotation.

Decides the order. What does not come about in time is recorded: the checkers judge it. Must not know faults, or how the
evidence is copied. Evidence comes before the rotation, which changes the logs; the brokers' own logs are copied once
more after it (harness/runs/run.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.clients.admin import Admin, AdminError, has_full_isrs
from harness.operations.history import FINAL, History, drain_phase
from harness.operations.interpreter import Interpreter
from harness.plan.plan import Plan
from harness.runs.run_control import Abort
from harness.workloads import make_workload
from harness.workloads.append_poll.drain import Drain
from harness.workloads.append_poll.leader_rotation import BrokerControl, Rotation, current_leaders

_FETCH_WAIT_MS = 500  # Kafka's default of replica.fetch.wait.max.ms
_SETTLE_MS_MAX = 1000.0
_SETTLE_MARGIN_S = 0.2


class Begin(Protocol):
    """Begin a phase of the history, which is shown for at most limit_s. Raises Aborted."""

    def __call__(self, phase: str, limit_s: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """show: (what goes on, limit in s) for people; unlike `begin` it changes no phase."""

    plan: Plan
    history: History
    abort: Abort
    admin: Admin
    interpreter: Interpreter
    drain: Drain
    begin: Begin
    show: Callable[[str, float | None], None]

    def carry_out(self, control: BrokerControl, collect: Callable[[], None]) -> None:
        """All of it, in order. collect: copies the evidence."""
        limit_s, topic = self.plan.limits.drain_s, self.plan.topic
        try:
            self.admin.wait("leaders and full ISRs after the heal", has_full_isrs(topic), limit_s)
        except AdminError as error:
            self.history.harness("heal", error=str(error))
            self.show(str(error), limit_s)
        self._write_and_drain("current")
        self.abort.check()
        collect()
        self.abort.check()
        rotation = Rotation(
            control,
            self.admin,
            self.drain,
            self.history,
            topic,
            limit_s,
            settle_s=_settle_s(self.plan.system.settings),
            say=lambda text: self.show(text, limit_s),
        )
        incomplete = rotation.run()
        self.abort.check()
        if incomplete:
            # A replica that lacks records at its end cannot be read to the sentinel, and that alone proves no loss.
            # What is written over them does.
            rotation.restore()
            self._write_and_drain("again", again=1)
            self.abort.check()

    def _write_and_drain(self, name: str, again: int = 0) -> None:
        """A fresh acknowledged sentinel per partition, and everything up to it from whoever leads."""
        limit_s = self.plan.limits.drain_s
        self.begin(FINAL, limit_s)
        self.interpreter.run(make_workload(self.plan).final(again), self.abort)
        self.begin(drain_phase(name), limit_s)
        incomplete = self.drain.round(list(range(self.plan.topic.partitions)), current_leaders(self.admin), limit_s)
        if incomplete:
            # Nothing makes up for the first of these drains: the rotation restarts brokers before it reads them.
            self.show(f"drain {name}: {incomplete} readings did not reach the end", limit_s)


def _settle_s(settings: Mapping[str, str]) -> float:
    """How long followers may take to learn the watermark: one fetch wait and a little; long waits are not sat out."""
    wait_ms = float(settings.get("replica.fetch.wait.max.ms", _FETCH_WAIT_MS))
    return min(wait_ms, _SETTLE_MS_MAX) / 1000 + _SETTLE_MARGIN_S
