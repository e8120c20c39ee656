"""groups as a name of run files, and its parts in one run.

Decides which parts a run has, and which checkers judge it. Producers, drain and final phase are append-poll's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from random import Random

from harness.clients.admin import Admin, AdminError, has_full_isrs
from harness.clients.router import Cluster
from harness.clients.sampler import Sampler
from harness.operations.generator import Generator
from harness.operations.history import FINAL
from harness.operations.interpreter import Client
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.client import AppendPollClient, ProcessSettings, Shared
from harness.workloads.append_poll.final_phase import FinalPhase
from harness.workloads.append_poll.workload import CHECKERS as OF_THE_LOG
from harness.workloads.base import Brokers, FinalTools, RunContext, ScriptSender, WorkloadFailed
from harness.workloads.groups.client import MemberClient, Members, MemberSettings
from harness.workloads.groups.final_fetch import DrainWithOffsets, FinalFetch
from harness.workloads.groups.generators import load, settling
from harness.workloads.groups.member import Membership
from harness.workloads.groups.offsets_topic import OffsetsTopic
from harness.workloads.groups.options import group_name, options_of, threads_of

OF_GROUPS = (
    "overlapping-owners",
    "offset-regression",
    "commit-lost",
    "offset-not-linearizable",
    "commit-ahead",
    "fenced-commit",
    "generation",
    "static-member",
)
CHECKERS = (*OF_THE_LOG, *OF_GROUPS)
STATIC_EVERY = 3
"""Every third member of a group is a static one."""


class Groups:
    """Implements `harness.workloads.base.WorkloadKind`."""

    checkers = CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that there are not, and for what makes no load of groups."""
        options_of(plan)
        if plan.script:
            raise PlanError("script: the workload `groups` has no sends for scripts")
        if not plan.workload.producers or not plan.workload.consumers:
            raise PlanError("workload: groups needs producers, and consumers (the members of each group)")

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> GroupsRun:
        """Clients of these brokers; nothing is sent yet."""
        return GroupsRun(plan, brokers, run)


class GroupsRun:
    """groups in one run; implements `harness.workloads.base.Workload` and `Coordinated`."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        self._threads = threads_of(plan)
        self.threads = self._threads.count
        self._plan = plan
        self._brokers = brokers
        self._run = run
        self._options = options_of(plan)
        self._groups = [group_name(nth) for nth in range(self._options.groups)]
        found = brokers.bootstrap()
        self._cluster = Cluster.of(plan.topic.name, found)
        self._admin = Admin(self._cluster, sleep=run.sleep)
        self._offsets_topic = OffsetsTopic(found, sleep=run.sleep)
        self._shared = Shared()
        workload = plan.workload
        self._producers = ProcessSettings(
            self._cluster, workload.acks, workload.record_bytes, workload.request_timeout_ms, plan.seed_drawn
        )
        self._settings = MemberSettings(
            self._cluster,
            workload.request_timeout_ms,
            self._options.session_timeout_ms,
            self._options.rebalance_timeout_ms,
            plan.seed_drawn,
        )
        first, count = self._threads.first_member, self._threads.members
        self._members = Members({first + nth: self._member(nth) for nth in range(count)})

    def _member(self, nth: int) -> Membership:
        """Groups with an even number rebalance eagerly, the others cooperatively."""
        group, of_group = divmod(nth, self._plan.workload.consumers)
        static = of_group % STATIC_EVERY == STATIC_EVERY - 1
        return Membership(
            self._groups[group],
            self._plan.topic.name,
            "cooperative" if group % 2 else "eager",
            f"{self._groups[group]}-i{of_group}" if static else None,
            self._plan.topic.partitions,
            self._options.session_timeout_ms * 1_000_000,
            Random(self._plan.seed_drawn * 1_000_003 + nth),
        )

    def setup(self, limit_s: float) -> None:
        """Create the topic and the offsets topic; return once every replica of both is in sync."""
        try:
            self._admin.make_topic(self._plan.topic, limit_s)
            self._offsets_topic.make(self._groups[0], limit_s)
        except AdminError as error:
            raise WorkloadFailed(str(error)) from None

    def observers(self) -> Mapping[str, Callable[[threading.Event], None]]:
        """The sampler of leaders and ISRs, which writes `leadership` lines."""
        return {"sampler": Sampler(self._cluster, self._run.history).run}

    def coordinated(self, kind: str) -> Collection[str]:
        """The run's groups; faults find their coordinators by them."""
        return self._groups if kind == "group" else ()

    def generator(self) -> Generator:
        """The load: sends, and steps of members."""
        return load(self._plan)

    def open_client(self, process: int, thread: int) -> Client:
        """A producer or reader, or the member that the thread's last process was."""
        if thread < self._threads.first_member:
            return AppendPollClient(process, thread, self._producers, self._shared, self._phase)
        return MemberClient(process, thread, self._settings, self._members, self._phase)

    def _phase(self) -> str:
        return self._run.history.phase

    def script_sender(self) -> ScriptSender:
        """`check` refuses scripts."""
        raise NotImplementedError("the workload `groups` has no sends for scripts")

    def final_phase(self, tools: FinalTools) -> None:
        """Groups settle; then append-poll's final phase, each round of which reads back what groups have committed."""
        limit_s, history = self._plan.limits.drain_s, self._run.history
        self._run.begin(FINAL, limit_s)
        try:
            self._admin.wait("full ISRs after the heal", has_full_isrs(self._plan.topic), limit_s)
            self._offsets_topic.wait(limit_s)
        except AdminError as error:
            history.harness("heal", error=str(error))
        settle_ms = self._options.session_timeout_ms + self._options.rebalance_timeout_ms + 1000
        tools.carry_out(settling(self._plan, settle_ms / 1000))
        fetch = FinalFetch(
            self._cluster,
            self._groups,
            self._plan.topic.partitions,
            history,
            self._run.next_process,
            sleep=self._run.sleep,
        )
        drain = DrainWithOffsets(
            self._cluster, history, self._run.next_process, self._shared.sentinels, fetch, sleep=self._run.sleep
        )
        FinalPhase(self._plan, self._run, self._admin, drain, tools).carry_out(self._brokers)

    def close(self) -> None:
        """Close the harness's own connections; processes close theirs."""
        self._admin.close()
        self._offsets_topic.close()
