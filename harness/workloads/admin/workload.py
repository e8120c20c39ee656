"""admin as a name of run files, and its parts in one run.

Decides its options, which parts of append-poll it has, and which checkers judge it. Must not know what a part does.
"""

from __future__ import annotations

from harness.clients.admin import Admin, AdminError
from harness.clients.router import Cluster
from harness.operations.generator import Generator
from harness.operations.interpreter import Client
from harness.plan.plan import Plan, TopicPlan
from harness.plan.toml_source import PlanError
from harness.workloads.admin.client import AdminClient, AdminSettings
from harness.workloads.admin.final_reads import DrainWithRegisters, ReadBack
from harness.workloads.admin.generators import load
from harness.workloads.admin.options import first_administrator, options_of, topic_name
from harness.workloads.append_poll.final_phase import FinalPhase
from harness.workloads.append_poll.workload import CHECKERS as OF_THE_LOG
from harness.workloads.append_poll.workload import AppendPollRun
from harness.workloads.base import Brokers, FinalTools, RunContext, WorkloadFailed

CHECKERS = (*OF_THE_LOG, "config-not-linearizable", "partitions-went-back", "partitions-not-linearizable")


class Administrators:
    """Implements `harness.workloads.base.WorkloadKind`."""

    checkers = CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that there are not, and for topics that cannot grow."""
        options = options_of(plan)
        if options.partitions_most <= options.partitions_first:
            raise PlanError(
                f"workload.options: partitions_most ({options.partitions_most}) is not above partitions_first "
                f"({options.partitions_first}): no topic could grow"
            )
        if plan.script:
            raise PlanError("script: the workload `admin` has no sends for scripts")

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> AdministratorsRun:
        """Clients of these brokers; nothing is sent yet."""
        return AdministratorsRun(plan, brokers, run)


class AdministratorsRun(AppendPollRun):
    """admin in one run; implements `harness.workloads.base.Workload`. The run's topic is append-poll's."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        super().__init__(plan, brokers, run)
        self._options = options_of(plan)
        self._first = first_administrator(plan)
        self.threads = self._first + self._options.administrators
        topics = tuple(topic_name(plan, nth) for nth in range(self._options.topics))
        self._administrators = AdminSettings(
            self._cluster, topics, plan.workload.request_timeout_ms, plan.seed_drawn, self._has_grown
        )
        self._all_topics = ReadBack(self._cluster, topics, run.history, run.next_process, sleep=run.sleep)
        self._grown_to = dict.fromkeys(topics, self._options.partitions_first)

    def setup(self, limit_s: float) -> None:
        """Create all topics, and read those of the administrators back once every broker knows them."""
        super().setup(limit_s)
        # One broker may be away, and topics grow all the same.
        replicas = max(1, min(self._plan.topic.replication_factor, self._plan.nodes.brokers - 1))
        for name in self._administrators.topics:
            admin = Admin(Cluster.of(name, self._brokers.bootstrap()), sleep=self._run.sleep)
            topic = TopicPlan(name, self._options.partitions_first, replicas)
            try:
                admin.make_topic(topic, limit_s)
            except AdminError as error:
                raise WorkloadFailed(str(error)) from None
            finally:
                admin.close()
        self._read_back()

    def _has_grown(self, topic: str, count: int) -> None:
        """By any thread: one that is overtaken may leave a lower number, and the drain waits for less then."""
        self._grown_to[topic] = max(self._grown_to[topic], count)

    def _read_back(self) -> None:
        self._all_topics.every_broker(self._grown_to)

    def generator(self) -> Generator:
        """The load: sends and polls, and what administrators do."""
        return load(self._plan, self._options)

    def open_client(self, process: int, thread: int) -> Client:
        """A process of append-poll's load, or an administrator."""
        if thread < self._first:
            return super().open_client(process, thread)
        history = self._run.history
        return AdminClient(process, self._administrators, lambda: history.phase)

    def final_phase(self, tools: FinalTools) -> None:
        """append-poll's final phase, each round of which reads back what administrators left."""
        drain = DrainWithRegisters(
            self._cluster,
            self._run.history,
            self._run.next_process,
            self._shared.sentinels,
            self._read_back,
            sleep=self._run.sleep,
        )
        FinalPhase(self._plan, self._run, self._admin, drain, tools).carry_out(self._brokers)
