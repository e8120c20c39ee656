"""idempotent as a name of run files, and its parts in one run.

Decides its options, which parts of append-poll it has, and which checkers judge it. Must not know what a part does.
"""

from __future__ import annotations

from harness.operations.generator import Generator
from harness.operations.interpreter import Client
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.workload import CHECKERS as APPEND_POLL
from harness.workloads.append_poll.workload import AppendPollRun
from harness.workloads.base import Brokers, RunContext
from harness.workloads.idempotent.client import ACKS_ALL, IdempotentClient, Identities
from harness.workloads.idempotent.generators import load, threads_of
from harness.workloads.idempotent.options import options_of

OF_PRODUCERS = ("resend-offset", "producer-order", "producer-sequence")
"""What responses say of sequences, and the sequences in the brokers' files."""
CHECKERS = (*APPEND_POLL, *OF_PRODUCERS)
"""What clients saw, as of append-poll, and what is of producers with ids."""


class Idempotent:
    """Implements `harness.workloads.base.WorkloadKind`."""

    checkers = CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that it does not have, and for what an idempotent producer cannot do."""
        options_of(plan)
        workload = plan.workload
        if workload.acks != ACKS_ALL:
            raise PlanError(f"workload.acks: {workload.acks} is not all, which an idempotent producer needs")
        if not workload.producers:
            raise PlanError("workload.producers: 0 is not at least 1")

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> IdempotentRun:
        """Clients of these brokers; nothing is sent yet."""
        return IdempotentRun(plan, brokers, run)


class IdempotentRun(AppendPollRun):
    """idempotent in one run; implements `harness.workloads.base.Workload`. Setup and final phase are append-poll's."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        super().__init__(plan, brokers, run)
        self._options = options_of(plan)
        self.threads = threads_of(plan, self._options)
        self._identities = Identities()

    def generator(self) -> Generator:
        """The load: requests of every producer and polls, mixed and paced."""
        return load(self._plan, self._options)

    def open_client(self, process: int, thread: int) -> Client:
        """A logical process of the load; whichever producer its thread belongs to goes on with its identity."""
        history = self._run.history
        return IdempotentClient(process, thread, self._settings, self._shared, self._identities, lambda: history.phase)
