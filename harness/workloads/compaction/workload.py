"""compaction as a name of run files, and its parts in one run.

Decides its options, which parts of append-poll it has, and which checkers judge it. Must not know what a part does.
"""

from __future__ import annotations

from harness.operations.generator import Generator
from harness.operations.history import FINAL
from harness.operations.interpreter import Client
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.workload import AppendPollRun
from harness.workloads.base import Brokers, FinalTools, RunContext
from harness.workloads.compaction.client import KeyedClient
from harness.workloads.compaction.generators import load
from harness.workloads.compaction.options import options_of

CHECKERS = (
    "fabricated-value",
    "aborted-read",
    "inconsistent-offset",
    "duplicate",
    "read-above-hw",
    "refused-read",
    "nonmonotonic-end",
    "int-nonmonotonic-poll",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "real-time-order",
    "staleness",
    "availability",
    "last-value",
    "old-value",
)
"""Those of append-poll that hold where records go on purpose, and what must be left of each key."""


class Compaction:
    """Implements `harness.workloads.base.WorkloadKind`."""

    checkers = CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that there are not, and for a run that proves nothing of compaction."""
        options_of(plan)
        if plan.topic.config.get("cleanup.policy") != "compact":
            raise PlanError('topic.config: the workload compaction needs "cleanup.policy" = "compact"')
        if plan.script:
            raise PlanError("script: the workload compaction has no sends for scripts")
        if plan.workload.acks != -1:
            raise PlanError('workload.acks: the workload compaction needs "all"')
        if not plan.workload.producers or not plan.workload.consumers:
            raise PlanError("workload: compaction needs one of `producers` and of `consumers` at least")

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> CompactionRun:
        """Clients of these brokers; nothing is sent yet."""
        return CompactionRun(plan, brokers, run)


class CompactionRun(AppendPollRun):
    """compaction in one run; implements `harness.workloads.base.Workload`. Setup and drains are append-poll's."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        super().__init__(plan, brokers, run)
        self._options = options_of(plan)

    def generator(self) -> Generator:
        """The load: keyed sends and polls, mixed and paced."""
        return load(self._plan, self._options)

    def open_client(self, process: int, thread: int) -> Client:
        """A logical process of the load."""
        history = self._run.history
        return KeyedClient(process, thread, self._settings, self._shared, lambda: history.phase)

    def final_phase(self, tools: FinalTools) -> None:
        """The cleaners have a while; then append-poll's final phase, which reads what is left from every replica."""
        self._run.begin(FINAL, self._plan.limits.drain_s)
        self._run.sleep(self._options.settle_s)
        super().final_phase(tools)
