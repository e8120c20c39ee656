"""transactions as a name of run files, and its parts in one run.

Decides which parts a run's workload has, and which checkers judge it. Must not know what a part does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from harness.clients.admin import Admin, AdminError
from harness.clients.router import Cluster
from harness.clients.sampler import Sampler
from harness.operations.generator import Generator
from harness.operations.interpreter import Client
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.client import AppendPollClient, ProcessSettings, Shared
from harness.workloads.append_poll.drain import Drain
from harness.workloads.append_poll.leader_rotation import Topic
from harness.workloads.append_poll.workload import CHECKERS as OF_APPEND_POLL
from harness.workloads.base import Brokers, FinalTools, RunContext, ScriptSender, WorkloadFailed
from harness.workloads.transactions.client import Left, Settings, TransactionalClient
from harness.workloads.transactions.final_phase import FinalPhase
from harness.workloads.transactions.generators import load, threads_of
from harness.workloads.transactions.options import options_of
from harness.workloads.transactions.plain import PlainClient
from harness.workloads.transactions.processor import ProcessorRole
from harness.workloads.transactions.producer import ProducerRole

CHECKERS = (
    *OF_APPEND_POLL,
    "producer-order",
    "producer-sequence",
    "open-transaction",
    "aborted-transaction-read",
    "precommitted-read",
    "torn-transaction",
    "committed-lost",
    "last-stable-offset",
    "hanging-transaction",
    "transaction-offsets",
    "exactly-once",
    "fenced-producer",
    "g0",
    "g1b",
    "g1c",
    "g-single",
    "g2",
)


class Transactions:
    """Implements `harness.workloads.base.WorkloadKind`."""

    checkers = CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options of another workload, and for what this one cannot do."""
        options_of(plan)
        if plan.script:
            raise PlanError("script: the workload transactions has no sends for scripts")
        if plan.workload.acks != -1:
            raise PlanError('workload.acks: the workload transactions needs "all", as transactional producers do')
        if plan.workload.producers < 1 or plan.workload.consumers < 1:
            raise PlanError("workload: transactions needs one of `producers` and of `consumers` at least")

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> TransactionsRun:
        """Clients of these brokers; nothing is sent yet."""
        return TransactionsRun(plan, brokers, run)


class TransactionsRun:
    """transactions in one run; implements `harness.workloads.base.Workload` and `Coordinated`."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        self._threads = threads_of(plan)
        self.threads = self._threads.all
        self._plan = plan
        self._brokers = brokers
        self._run = run
        found = brokers.bootstrap()
        self._topics = (plan.topic.name, f"{plan.topic.name}-out")
        self._clusters = {topic: Cluster.of(topic, found) for topic in self._topics}
        self._admins = {topic: Admin(cluster, sleep=run.sleep) for topic, cluster in self._clusters.items()}
        self._shared = {topic: Shared() for topic in self._topics}
        options, workload = options_of(plan), plan.workload
        self._settings = Settings(
            *self._topics,
            self._clusters,
            plan.topic.partitions,
            workload.record_bytes,
            workload.request_timeout_ms,
            plan.seed_drawn,
            options,
        )
        self._left = Left()

    def setup(self, limit_s: float) -> None:
        """Create both topics; return once every broker knows their leaders and every replica is in sync."""
        try:
            for name, admin in self._admins.items():
                admin.make_topic(replace(self._plan.topic, name=name), limit_s)
        except AdminError as error:
            raise WorkloadFailed(str(error)) from None

    def observers(self) -> Mapping[str, Callable[[threading.Event], None]]:
        """The sampler of leaders and ISRs, which writes `leadership` lines."""
        return {"sampler": Sampler(self._clusters[self._topics[0]], self._run.history).run}

    def coordinated(self, kind: str) -> Collection[str]:
        """The run's transactional ids, and the processors' group; faults find their coordinators by them."""
        groups = (self._settings.group,) if self._settings.options.processors else ()
        return {"transaction": self._settings.all_ids, "group": groups}.get(kind, ())

    def generator(self) -> Generator:
        """The load: plain sends and polls, and steps of transactional processes."""
        return load(self._plan)

    def open_client(self, process: int, thread: int) -> Client:
        """A logical process of the kind that its thread has."""
        if thread < self._threads.first_producer:
            return PlainClient(
                self._plain(process, thread, self._topics[0]), lambda: self._plain(process, thread, self._topics[1])
            )
        if thread < self._threads.first_processor:
            return TransactionalClient(
                process,
                thread,
                self._settings,
                self._left,
                self._phase,
                lambda process, rng, last: ProducerRole(self._settings, process, rng, last),
            )
        return TransactionalClient(
            process,
            thread,
            self._settings,
            self._left,
            self._phase,
            lambda process, rng, last: ProcessorRole(self._settings, process, rng, last),
        )

    def _plain(self, process: int, thread: int, topic: str) -> AppendPollClient:
        workload = self._plan.workload
        settings = ProcessSettings(
            self._clusters[topic],
            workload.acks,
            workload.record_bytes,
            workload.request_timeout_ms,
            self._plan.seed_drawn,
            self._settings.options.read_committed,
        )
        return AppendPollClient(process, thread, settings, self._shared[topic], self._phase)

    def _phase(self) -> str:
        return self._run.history.phase

    def script_sender(self) -> ScriptSender:
        """`check` refuses scripts."""
        raise AssertionError("transactions has no sends for scripts")

    def final_phase(self, tools: FinalTools) -> None:
        """Ends of transactions, final writes, drains under both isolation levels, evidence, every replica as leader."""
        topic, out = (self._topic(name) for name in self._topics)
        FinalPhase(self._plan, self._run, topic, out, self._settings.all_ids, tools).carry_out(self._brokers)

    def _topic(self, name: str) -> Topic:
        drain = Drain(
            self._clusters[name],
            self._run.history,
            self._run.next_process,
            self._shared[name].sentinels,
            isolations=(0, 1),
            sleep=self._run.sleep,
        )
        return Topic(self._admins[name], drain)

    def close(self) -> None:
        """Close the harness's own connections; processes close theirs."""
        for admin in self._admins.values():
            admin.close()
