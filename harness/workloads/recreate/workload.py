"""recreate as a name of run files, and its parts in one run.

Decides its options, which parts of append-poll it has, and which checkers judge it. Must not know what a part does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from harness.clients.admin import Admin, AdminError, has_leaders
from harness.clients.router import Cluster
from harness.operations.generator import Generator
from harness.operations.interpreter import Client
from harness.plan.plan import Plan, TopicPlan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.final_phase import FinalPhase
from harness.workloads.append_poll.workload import CHECKERS as OF_THE_LOG
from harness.workloads.append_poll.workload import AppendPollRun
from harness.workloads.base import Brokers, FinalTools, RunContext, WorkloadFailed
from harness.workloads.recreate.client import LifeClient, Lives, RecreateClient, Size
from harness.workloads.recreate.final_reads import DrainWithLives, LastLives
from harness.workloads.recreate.generators import load
from harness.workloads.recreate.options import first_administrator, options_of, topic_name

CHECKERS = (*OF_THE_LOG, "deleted-topic-read", "lost-topic", "topic-id-again")
SETTLE_S = 30.0
"""For how long the last administrator of a topic tries to have it."""


class Recreate:
    """Implements `harness.workloads.base.WorkloadKind`, and `Remaking`."""

    checkers = CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that there are not, and for what leaves nothing to judge."""
        options_of(plan)
        if plan.script:
            raise PlanError("script: the workload `recreate` has no sends for scripts")
        if plan.workload.acks != -1:
            raise PlanError(f"workload.acks is {plan.workload.acks}; the workload `recreate` needs all")

    def remade_topics(self, plan: Plan) -> Sequence[str]:
        """Their names."""
        return [topic_name(plan, nth) for nth in range(options_of(plan).topics)]

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> RecreateRun:
        """Clients of these brokers; nothing is sent yet."""
        return RecreateRun(plan, brokers, run)


class RecreateRun(AppendPollRun):
    """recreate in one run; implements `harness.workloads.base.Workload`. The run's topic is append-poll's."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        super().__init__(plan, brokers, run)
        options = self._options = options_of(plan)
        self._first = first_administrator(plan)
        self.threads = self._first + options.topics + options.senders + options.readers
        topics = [topic_name(plan, nth) for nth in range(options.topics)]
        self._clusters = [Cluster.of(topic, brokers.bootstrap()) for topic in topics]
        self._of_topics = [replace(self._settings, cluster=cluster) for cluster in self._clusters]
        self._lives = Lives(options.topics)
        self._size = Size(options.partitions, max(1, min(plan.topic.replication_factor, plan.nodes.brokers)))
        self._last = LastLives(
            self._clusters,
            options.partitions,
            self._lives,
            run.history,
            run.next_process,
            self._administrator,
            lambda process: self._life_client(process, 0),
            sleep=run.sleep,
        )

    def setup(self, limit_s: float) -> None:
        """Make all topics; return once every broker knows their leaders."""
        super().setup(limit_s)
        self._last.settle(limit_s)
        for nth, cluster in enumerate(self._clusters):
            life = self._lives.of(nth)
            if life.stage != "there":
                raise WorkloadFailed(f"topic {cluster.topic} was not made within {limit_s:g} s")
            admin = Admin(cluster, sleep=self._run.sleep)
            topic = TopicPlan(cluster.topic, self._size.partitions, self._size.replicas)
            try:
                admin.wait(f"leaders of {cluster.topic}", has_leaders(topic), limit_s, every_broker=True)
            except AdminError as error:
                raise WorkloadFailed(str(error)) from None
            finally:
                admin.close()
            self._lives.set(nth, replace(life, since_ns=time.monotonic_ns()))

    def generator(self) -> Generator:
        """The load: sends and polls, and topics that are made anew meanwhile."""
        return load(self._plan, self._options)

    def open_client(self, process: int, thread: int) -> Client:
        """A process of append-poll's load, a topic's administrator, or one that uses these topics."""
        if thread < self._first:
            return super().open_client(process, thread)
        if thread < self._first + self._options.topics:
            return self._administrator(process)
        return self._life_client(process, thread)

    def _administrator(self, process: int) -> Client:
        return RecreateClient(
            process,
            self._clusters,
            self._size,
            self._lives,
            self._options.life_s,
            self._plan.workload.request_timeout_ms,
            self._plan.seed_drawn,
            self._phase,
        )

    def _life_client(self, process: int, thread: int) -> Client:
        options = self._options
        return LifeClient(
            process, thread, self._of_topics, options.partitions, self._lives, options.former, self._phase
        )

    def _phase(self) -> str:
        return self._run.history.phase

    def final_phase(self, tools: FinalTools) -> None:
        """append-poll's final phase, each round of which reads the last life of each topic."""
        self._last.settle(SETTLE_S)
        self._last.write(SETTLE_S)
        drain = DrainWithLives(
            self._cluster,
            self._run.history,
            self._run.next_process,
            self._shared.sentinels,
            self._last.read,
            sleep=self._run.sleep,
        )
        FinalPhase(self._plan, self._run, self._admin, drain, tools).carry_out(self._brokers)

    def close(self) -> None:
        """Close the harness's own connections."""
        self._last.close()
        super().close()
