"""real-clients as a name of run files, and its parts in one run.

Decides which parts a run has, and which checkers judge it: what the application promises is one of them. Must not know
what a part does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from harness.clients.admin import Admin, AdminError
from harness.clients.java.program import ClientMissing, client_program
from harness.clients.router import Cluster
from harness.clients.sampler import Sampler
from harness.operations.generator import Generator, Rng, Stagger, TimeLimit
from harness.operations.interpreter import Client
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.client import AppendPollClient, ProcessSettings, Shared
from harness.workloads.append_poll.drain import Drain
from harness.workloads.append_poll.final_phase import FinalPhase as PlainFinalPhase
from harness.workloads.append_poll.generators import Polls, Spread
from harness.workloads.append_poll.leader_rotation import Topic
from harness.workloads.append_poll.workload import CHECKERS as OF_THE_LOG
from harness.workloads.base import Brokers, FinalTools, RunContext, ScriptSender, WorkloadFailed
from harness.workloads.groups.final_fetch import DrainWithOffsets, FinalFetch
from harness.workloads.groups.offsets_topic import OffsetsTopic
from harness.workloads.real_clients.consumer import Member, Processing
from harness.workloads.real_clients.exactly_once import Transforming, take_ids
from harness.workloads.real_clients.final_phase import READERS, ExactlyOnceFinalPhase, GroupEnd
from harness.workloads.real_clients.java import JavaClients
from harness.workloads.real_clients.librdkafka import LibrdkafkaClients, LibrdkafkaTransactional
from harness.workloads.real_clients.load import Load, Work
from harness.workloads.real_clients.options import ASYNC, AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, options_of
from harness.workloads.real_clients.ports import Clients
from harness.workloads.real_clients.processing import Committing, Reached
from harness.workloads.real_clients.producer import ProducerLoop
from harness.workloads.real_clients.record import Process
from harness.workloads.real_clients.settings import Settings
from harness.workloads.transactions.plain import PlainClient

OF_COMMITS = ("commit-lost", "commit-ahead")
OF_TRANSACTIONS = ("hanging-transaction", "transaction-offsets", "exactly-once")
OF_PROMISE: Mapping[str, Sequence[str]] = {
    AT_MOST_ONCE: (*OF_THE_LOG, *OF_COMMITS, "at-most-once"),
    AT_LEAST_ONCE: (*OF_THE_LOG, *OF_COMMITS, "at-least-once"),
    EXACTLY_ONCE: (*OF_THE_LOG, *OF_TRANSACTIONS),
}
POLLS_SHARE = 0.3
"""Of the load's rate, of the wire readers; the rest are records of the producers."""


class RealClients:
    """Implements `harness.workloads.base.WorkloadKind`, `PlanChecked` and `Prepared`."""

    checkers = (*OF_THE_LOG, *OF_COMMITS, "at-most-once", "at-least-once", *OF_TRANSACTIONS)

    def checkers_of(self, plan: Plan) -> Sequence[str]:
        """By what the application promises."""
        return OF_PROMISE[options_of(plan).promise]

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that there are not, and for what makes no load of an application."""
        promise = options_of(plan).promise
        if plan.script:
            raise PlanError("script: the workload real-clients has no sends for scripts")
        if not plan.workload.producers or not plan.workload.consumers:
            raise PlanError("workload: real-clients needs producers, and consumers (the members of its group)")
        if plan.workload.acks != -1 and (promise != AT_MOST_ONCE or plan.workload.acks == 0):
            raise PlanError(f'workload.acks: an application that promises {promise} needs "all"')
        if promise != AT_LEAST_ONCE and options_of(plan).commits == ASYNC:
            raise PlanError(f"workload.options.commits: an application that promises {promise} waits for its commits")
        if plan.workload.records_per_send != 1:
            raise PlanError("workload.records_per_send: the application hands records over one by one")

    def prepare(self, plan: Plan) -> Mapping[str, str]:
        """Fetch and compile the Java client, where it takes part."""
        options = options_of(plan)
        if not options.any_java:
            return {}
        try:
            return {"kafka-clients": client_program(options.java_client).version}
        except ClientMissing as error:
            raise PlanError(f'workload.options.client = "{options.client}": {error}') from None

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> RealClientsRun:
        """Clients of these brokers; nothing is sent yet."""
        return RealClientsRun(plan, brokers, run)


def idle_readers(done: Iterable[tuple[str, int]]) -> Sequence[str]:
    """Of (reader, how many records one of its producers had acknowledged, or one of its members was given), those
    without any.
    """
    found: Counter[str] = Counter()
    for reader, records in done:
        found[reader] += records
    return [reader for reader, records in found.items() if not records]


class RealClientsRun:
    """real-clients in one run; implements `harness.workloads.base.Workload`, and `Coordinated`."""

    threads = READERS

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        self._plan, self._brokers, self._run = plan, brokers, run
        self._options = options_of(plan)
        self._exactly_once = self._options.promise == EXACTLY_ONCE
        found = brokers.bootstrap()
        names = (plan.topic.name, *((f"{plan.topic.name}-out",) if self._exactly_once else ()))
        self._clusters = {name: Cluster.of(name, found) for name in names}
        self._admins = {name: Admin(cluster, sleep=run.sleep) for name, cluster in self._clusters.items()}
        self._shared = {name: Shared() for name in names}
        self._offsets_topic = OffsetsTopic(found, sleep=run.sleep)
        workload = plan.workload
        self._settings = Settings(
            list(self._clusters[names[0]].addresses.values()),
            names[0],
            names[-1],
            plan.topic.partitions,
            workload.record_bytes,
            workload.request_timeout_ms,
            workload.acks,
            plan.seed_drawn,
            self._options,
        )
        self._ids = tuple(self._settings.transactional_id(number) for number in range(workload.consumers))
        self._reached = Reached()
        self._made: list[Clients] = []
        self._loops: list[tuple[str, ProducerLoop]] = []
        self._members: list[tuple[str, Member]] = []
        self._numbers = count(1)
        rate = workload.rate * (1 - POLLS_SHARE) / workload.producers
        self._program = client_program(self._options.java_client) if self._options.any_java else None
        producers = [self._producer(number, rate) for number in range(workload.producers)]
        self._load = Load(run, producers, [self._member(number) for number in range(workload.consumers)])

    def _clients(self, number: int) -> Clients:
        self._made.append(self._one_of(number))
        return self._made[-1]

    def _one_of(self, number: int) -> Clients:
        if self._program is None or not self._options.is_java(number):
            return LibrdkafkaClients(self._settings, number)

        def on_lost(reason: str) -> None:
            self._run.history.harness("client-lost", error=reason)

        return JavaClients(self._settings, number, self._program, on_lost)

    def _producer(self, number: int, rate: float) -> Work:
        clients = self._clients(number)
        loop = ProducerLoop(self._settings, number, Process(self._run, clients.reader), rate, clients)
        self._loops.append((clients.reader, loop))
        return loop.run

    def _member(self, number: int) -> Work:
        clients = self._clients(number)

        def processing(process: Process) -> Processing:
            if self._exactly_once:
                return Transforming(self._settings, number, process, self._reached, self._numbers, clients)
            return Committing(self._options.promise, self._reached)

        member = Member(self._settings, number, Process(self._run, clients.reader), processing, clients)
        self._members.append((clients.reader, member))
        return lambda going: member.run(going, self._load.loaded)

    def coordinated(self, kind: str) -> Collection[str]:
        """The group, and under exactly-once the members' transactional ids."""
        match kind:
            case "group":
                return (self._settings.group,)
            case "transaction" if self._exactly_once:
                return self._ids
        return ()

    def setup(self, limit_s: float) -> None:
        """Create the topics and the offsets topic; return once all replicas are in sync, and clients are ready."""
        try:
            for name, admin in self._admins.items():
                admin.make_topic(replace(self._plan.topic, name=name), limit_s)
            self._offsets_topic.make(self._settings.group, limit_s)
        except AdminError as error:
            raise WorkloadFailed(str(error)) from None
        for clients in self._made:
            clients.start()
        for clients in self._made:
            clients.wait_started()

    def observers(self) -> Mapping[str, Callable[[threading.Event], None]]:
        """The application's threads, and the sampler of leaders and ISRs."""
        sampler = Sampler(self._clusters[self._settings.topic], self._run.history)
        return {"sampler": sampler.run, "application": self._load.run}

    def generator(self) -> Generator:
        """Polls of the wire readers; the application goes its own pace beside them."""
        rng, workload = Rng(self._plan.seed_drawn), self._plan.workload
        polls = Polls(rng.split(2), Spread(0, READERS, self._plan.topic.partitions))
        paced = Stagger(rng.split(4), 1e9 / (workload.rate * POLLS_SHARE), polls)
        return TimeLimit(int(workload.time_limit_s * 1e9), paced)

    def open_client(self, process: int, thread: int) -> Client:
        """A wire reader, who sends the sentinels at the end."""
        return PlainClient(
            self._plain(process, thread, self._settings.topic), lambda: self._plain(process, thread, self._settings.out)
        )

    def _plain(self, process: int, thread: int, topic: str) -> AppendPollClient:
        workload = self._plan.workload
        settings = ProcessSettings(
            self._clusters[topic], -1, workload.record_bytes, workload.request_timeout_ms, self._plan.seed_drawn
        )
        return AppendPollClient(process, thread, settings, self._shared[topic], lambda: self._run.history.phase)

    def script_sender(self) -> ScriptSender:
        """`check` refuses scripts."""
        raise NotImplementedError("the workload real-clients has no sends for scripts")

    def final_phase(self, tools: FinalTools) -> None:
        """The group's end; then the drains, the evidence, and every replica as leader."""
        plan, run, topic = self._plan, self._run, self._settings.topic
        fetch = FinalFetch(
            self._clusters[topic],
            [self._settings.group],
            plan.topic.partitions,
            run.history,
            run.next_process,
            sleep=run.sleep,
        )
        sentinels = self._shared[topic].sentinels
        end = GroupEnd(plan, run, self._admins[topic], self._offsets_topic, self._load, self._reached, sentinels, fetch)
        isolations = (0, 1) if self._exactly_once else (0,)
        drain = DrainWithOffsets(
            self._clusters[topic],
            run.history,
            run.next_process,
            sentinels,
            fetch,
            isolations=isolations,
            sleep=run.sleep,
        )
        if not self._exactly_once:
            end.carry_out(tools, self._note_idle)
            PlainFinalPhase(plan, run, self._admins[topic], drain, tools).carry_out(self._brokers)
            return
        out = self._settings.out
        out_drain = Drain(
            self._clusters[out],
            run.history,
            run.next_process,
            self._shared[out].sentinels,
            isolations=isolations,
            sleep=run.sleep,
        )
        ExactlyOnceFinalPhase(
            plan,
            run,
            Topic(self._admins[topic], drain),
            Topic(self._admins[out], out_drain),
            self._ids,
            tools,
            end,
            self._after_the_group,
        ).carry_out(self._brokers)

    def _after_the_group(self) -> None:
        self._note_idle()
        # By librdkafka, whichever clients had them.
        takers = {
            id_: LibrdkafkaTransactional.open(self._settings, number, lambda *_: None)
            for number, id_ in enumerate(self._ids)
        }
        take_ids(takers, Process(self._run, "confluent"))

    def _note_idle(self) -> None:
        """A library with no record acknowledged, or none handed out, took no part, and the run says nothing of it."""
        for idle in idle_readers((reader, loop.acknowledged) for reader, loop in self._loops):
            self._observed(f"no record of the {idle} producers was acknowledged")
        for idle in idle_readers((reader, member.given) for reader, member in self._members):
            self._observed(f"no {idle} member was given a record")

    def _observed(self, error: str) -> None:
        self._run.history.harness("observer", error=error, name="application")

    def close(self) -> None:
        """Close the harness's own connections, and the clients of threads that never began."""
        for clients in self._made:
            clients.close()
        for admin in self._admins.values():
            admin.close()
        self._offsets_topic.close()
