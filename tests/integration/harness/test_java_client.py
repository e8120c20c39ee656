"""An application of Kafka's Java client on real brokers, of which one is killed, and so are the client's processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

from harness.clients.connection import Address
from harness.clients.java.program import ClientMissing, Program, client_program
from harness.operations.history import MAIN, History, read_lines, recover
from harness.workloads.real_clients.consumer import Member, Processing
from harness.workloads.real_clients.exactly_once import Transforming
from harness.workloads.real_clients.java import JavaClients
from harness.workloads.real_clients.options import AT_LEAST_ONCE, EXACTLY_ONCE, Options
from harness.workloads.real_clients.processing import Committing, Reached
from harness.workloads.real_clients.producer import ProducerLoop
from harness.workloads.real_clients.record import Process
from harness.workloads.real_clients.settings import Settings
from tests.support.brokers import Cluster, running_cluster, wait_until

WAIT_S = 120.0
BROKERS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
}
Line = dict[str, Any]


@pytest.fixture(scope="module", params=["3.9.1", pytest.param("4.4.0", marks=pytest.mark.nightly)])
def program(request: pytest.FixtureRequest) -> Program:
    try:
        return client_program(request.param)
    except ClientMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=BROKERS) as running:
        yield running


class Run:
    """A history, and the only run of it."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder / "history.jsonl", 0)
        self.history.begin_phase(MAIN)
        self.closed = False
        self._processes = count()

    def close(self) -> None:
        self.closed = True
        self.history.close()

    def next_process(self) -> int:
        return next(self._processes)

    def lines(self) -> list[Line]:
        if not self.closed:
            self.history.flush()
        return list(read_lines(self.history.path))


class Application:
    """One producer and one member of the Java client, each with its own process."""

    def __init__(self, cluster: Cluster, program: Program, run: Run, topic: str, promise: str, assignor: str) -> None:
        addresses = [Address(broker.host, broker.port) for broker in cluster.brokers.values()]
        options = Options(promise=promise, client="java", assignor=assignor, life_s=3600, stall=0)
        settings = Settings(addresses, topic, f"{topic}-out", 2, 100, 3000, -1, 1, options)
        self.run = run
        self.made = [
            JavaClients(settings, number, program, lambda why: run.history.harness("client-lost", error=why))
            for number in range(2)
        ]
        reached, numbers = Reached(), count(1)

        def processing(process: Process) -> Processing:
            if promise == EXACTLY_ONCE:
                return Transforming(settings, 1, process, reached, numbers, self.made[1])
            return Committing(promise, reached)

        self.producer = ProducerLoop(settings, 0, Process(run, "java"), 50, self.made[0])  # type: ignore[arg-type]
        process = Process(run, "java")  # type: ignore[arg-type]
        self.member = Member(settings, 1, process, processing, self.made[1])

    def completed(self, f: str, outcome: str) -> Sequence[Line]:
        return [line for line in self.run.lines() if (line["f"], line["type"]) == (f, outcome)]

    def wait_for_more(self, f: str, more: int = 20) -> None:
        """Until so many more operations came out well."""
        before = len(self.completed(f, "ok"))
        wait_until(lambda: len(self.completed(f, "ok")) >= before + more, f"{more} more of {f}", WAIT_S)

    def kill_process(self, number: int) -> None:
        process = self.made[number]._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)

    def values(self, f: str, field: str = "values") -> list[int]:
        """Of invocations that came out well, or may have."""
        lines = self.run.lines()
        ok = {line["invoke"] for line in lines if line["f"] == f and line["type"] == "ok"}
        return [value for line in lines if line["index"] in ok for value in line.get(field, ())]


@contextmanager
def going(work: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    """Runs on a thread until the block ends. An error of it is raised."""
    over, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work(lambda: not over.is_set())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(WAIT_S)
    assert not thread.is_alive()
    assert not errors, errors


def make_topics(cluster: Cluster, *names: str) -> None:
    topics = [NewTopic(name, num_partitions=2, replication_factor=3) for name in names]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics(topics).values():
        made.result(30)
    for name in names:
        cluster.wait_told(name)


def leader_of(cluster: Cluster, topic: str) -> int:
    state = cluster.state(topic, 0)
    assert state is not None
    leader = state["leader"]
    assert isinstance(leader, int)
    return leader


def committed_epochs(cluster: Cluster, group: str) -> dict[int, int]:
    """By partition, of what the group has committed: without them who goes on there may believe a leader of before."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = {one.partition: one.leader_epoch for one in asked.result(30).topic_partitions}
    assert set(found) == {0, 1}
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("promise", "assignor", "done"),
    [(AT_LEAST_ONCE, "cooperative-sticky", "process"), (EXACTLY_ONCE, "range", "end_txn")],
)
def test_no_operation_is_lost_with_brokers_and_processes_that_are_killed(
    cluster: Cluster, program: Program, tmp_path: Path, promise: str, assignor: str, done: str
) -> None:
    topic = f"java-{program.version}-{promise}"
    make_topics(cluster, topic, f"{topic}-out")
    run = Run(tmp_path)
    application = Application(cluster, program, run, topic, promise, assignor)
    with ExitStack() as working:
        working.callback(run.close)
        working.enter_context(going(lambda going: application.member.run(going, lambda: True)))
        with going(application.producer.run):
            application.wait_for_more("send")
            application.wait_for_more(done, 3)
            killed = cluster.brokers[leader_of(cluster, topic)]
            killed.kill()
            application.wait_for_more("send")
            application.wait_for_more(done, 3)
            killed.start()
            for number in range(2):
                application.kill_process(number)
            application.wait_for_more("send")
            application.wait_for_more(done, 3)

        def reflected() -> set[int]:
            if promise == EXACTLY_ONCE:
                return set(application.values("send", "sources"))
            return set(application.values("process"))

        acknowledged = {value for value in application.values("send") if value < 10**9}
        wait_until(lambda: acknowledged <= reflected(), lambda: f"{len(acknowledged - reflected())} are not", WAIT_S)
        cluster.wait_state(topic, 0, isr={1, 2, 3})
    assert recover(run.history.path).open == 0
    assert all(epoch >= 0 for epoch in committed_epochs(cluster, f"{topic}-app").values())
    lost = [line["error"] for line in run.lines() if line["f"] == "client-lost"]
    assert {line.split(":")[0] for line in lost} == {"the Java client 0", "the Java client 1"}
    assert all("exit code -9" in line for line in lost)
    unknown = [line["error"] for line in run.lines() if line["f"] == "send" and line["type"] == "info"]
    assert set(unknown) <= {"client-died", "timeout", "client-error"} | {"connection-reset"}
