"""append-poll as a name of run files, and its parts in one run.

Decides which parts a run's workload has, and which checkers judge it. Must not know what a part does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from harness.clients.admin import Admin, AdminError
from harness.clients.router import Cluster
from harness.clients.sampler import Sampler
from harness.operations.generator import Generator
from harness.operations.interpreter import Client
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.client import AppendPollClient, ProcessSettings, Shared
from harness.workloads.append_poll.drain import Drain
from harness.workloads.append_poll.final_phase import FinalPhase
from harness.workloads.append_poll.generators import load, threads_of
from harness.workloads.append_poll.script_sender import WireScriptSender
from harness.workloads.base import Brokers, FinalTools, RunContext, WorkloadFailed

CHECKERS = (
    "fabricated-value",
    "aborted-read",
    "inconsistent-offset",
    "duplicate",
    "lost-write",
    "lost-tail",
    "unseen",
    "torn-batch",
    "vanished-read",
    "read-above-hw",
    "refused-read",
    "nonmonotonic-end",
    "int-poll-skip",
    "hole",
    "poll-skip",
    "int-nonmonotonic-poll",
    "nonmonotonic-poll",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "real-time-order",
    "staleness",
    "availability",
    "final-drain",
    "confluent-repeat",
)
"""What clients saw: every black-box anomaly, and that the drains reached the end."""
DELETED_RECORDS = "deleted-records"
DELETES = "delete-records"
"""The step of a script that deletes records."""


class AppendPoll:
    """Implements `harness.workloads.base.WorkloadKind`. Its options are the keys of [workload] (docs/run-files.md)."""

    checkers = (*CHECKERS, DELETED_RECORDS)

    def checkers_of(self, plan: Plan) -> Sequence[str]:
        """Deletions are those of a script alone."""
        deletes = any(step.do == DELETES for step in plan.script)
        return self.checkers if deletes else CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options of another workload."""
        for option, where in plan.workload.options_where.items():
            raise PlanError(f"{where}: workload.options.{option}: append-poll has no options beside [workload]'s keys")

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> AppendPollRun:
        """Clients of these brokers; nothing is sent yet."""
        return AppendPollRun(plan, brokers, run)


class AppendPollRun:
    """append-poll in one run; implements `harness.workloads.base.Workload`."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        self.threads = threads_of(plan.workload)
        self._plan = plan
        self._brokers = brokers
        self._run = run
        self._cluster = Cluster.of(plan.topic.name, brokers.bootstrap())
        self._admin = Admin(self._cluster, sleep=run.sleep)
        self._shared = Shared()
        self._settings = ProcessSettings(
            self._cluster,
            plan.workload.acks,
            plan.workload.record_bytes,
            plan.workload.request_timeout_ms,
            plan.seed_drawn,
        )

    def setup(self, limit_s: float) -> None:
        """Create the topic; return once every broker knows its leaders and every replica is in sync."""
        try:
            self._admin.make_topic(self._plan.topic, limit_s)
        except AdminError as error:
            raise WorkloadFailed(str(error)) from None

    def observers(self) -> Mapping[str, Callable[[threading.Event], None]]:
        """The sampler of leaders and ISRs, which writes `leadership` lines."""
        return {"sampler": Sampler(self._cluster, self._run.history).run}

    def generator(self) -> Generator:
        """The load: sends and polls, mixed and paced."""
        return load(self._plan)

    def open_client(self, process: int, thread: int) -> Client:
        """A logical process of the load; it starts with the leaders and positions of the thread's last process."""
        return AppendPollClient(process, thread, self._settings, self._shared, lambda: self._run.history.phase)

    def script_sender(self) -> WireScriptSender:
        """Sends of single requests, each by a process that the load does not have."""
        workload = self._plan.workload
        return WireScriptSender(
            self._admin,
            self._run.history,
            self._run.next_process,
            record_bytes=workload.record_bytes,
            request_timeout_ms=workload.request_timeout_ms,
            sleep=self._run.sleep,
        )

    def final_phase(self, tools: FinalTools) -> None:
        """Final writes, a drain of the healed cluster, evidence, and a drain from every replica as leader."""
        drain = Drain(
            self._cluster, self._run.history, self._run.next_process, self._shared.sentinels, sleep=self._run.sleep
        )
        FinalPhase(self._plan, self._run, self._admin, drain, tools).carry_out(self._brokers)

    def close(self) -> None:
        """Close the harness's own connections; processes close theirs."""
        self._admin.close()
