"""A stream of transactions, of several clients at once, while brokers restart and coordinators are killed.

Whoever reads committed records finds each transaction that a client was told is committed whole, none that it was told
is aborted, and nothing of the rest by half.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.core.coordination import TRANSACTION_TOPIC, partition_of
from tests.interop.transactions.conftest import SETTINGS, Open
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.reading import read_values
from tests.support.transactional_clients import ABORTED, COMMITTED, PARTITIONS, TransactionalClient

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.guarantee("transactions", "K1"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
CLIENTS = ("confluent-kafka", "kafka-python", "java-3.9", "java-4", "franz-go")
STATE_PARTITIONS = int(SETTINGS["transaction.state.log.num.partitions"])
RECORDS = 2 * PARTITIONS
EVERY = 5
"""Of so many transactions one is aborted."""
STEP_S = 240


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, settings=SETTINGS) as running:
        yield running


class Stream:
    """Transactions one after the other on a thread. outcomes: what the client was told of each."""

    def __init__(self, library: str, open_client: Callable[[], TransactionalClient], topic: str) -> None:
        self.library = library
        self.outcomes: dict[str, str] = {}
        self.committed = 0
        self._open, self._topic = open_client, topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream-{library}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        client = self._open()
        while not self._ended.is_set():
            name = f"{self.library}:{len(self.outcomes)}"
            self.outcomes[name] = "begun"
            commit = len(self.outcomes) % EVERY != 0
            told = client.transact(self._topic, commit, [f"{name}:{place}" for place in range(RECORDS)])
            self.outcomes[name] = told
            self.committed += told == COMMITTED
            if told not in (COMMITTED, ABORTED):
                client = self._open()

    @property
    def told_last(self) -> str:
        return list(self.outcomes.values())[-1] if self.outcomes else "nothing"

    def goes_on(self) -> bool:
        assert self._thread.is_alive(), f"{self.library} ended; it was last told {self.told_last}"
        return True

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(STEP_S)
        assert not self._thread.is_alive(), f"{self.library} does not end"


def go_on(streams: list[Stream]) -> None:
    """Each commits two more: the first may have been decided before."""
    before = [stream.committed for stream in streams]
    wait_until(
        lambda: all(s.goes_on() and s.committed >= b + 2 for s, b in zip(streams, before, strict=True)),
        lambda: f"every stream goes on: {[(s.library, s.committed, s.told_last) for s in streams]}",
        STEP_S,
    )


def judge(cluster: Cluster, topic: str, streams: list[Stream]) -> Counter[str]:
    """How often each was told what; fails where what is read is another."""
    found = Counter(value.rsplit(":", 1)[0] for value in read_values(cluster, topic))
    told: Counter[str] = Counter()
    for stream in streams:
        for name, outcome in stream.outcomes.items():
            told[outcome.split(":")[0]] += 1
            if outcome == COMMITTED:
                assert found.pop(name, 0) == RECORDS, f"{name} was committed"
            elif outcome == ABORTED:
                assert name not in found, f"{name} was aborted"
            else:
                assert found.pop(name, RECORDS) == RECORDS, f"{name}, {outcome}, is torn"
    assert not found, "nobody wrote these"
    return told


def coordinator_of(cluster: Cluster, transactional_id: str) -> int:
    state = cluster.state(TRANSACTION_TOPIC, partition_of(transactional_id, STATE_PARTITIONS))
    assert state is not None
    return int(str(state["leader"]))


def await_in_sync(cluster: Cluster, topic: str) -> None:
    everybody = set(cluster.brokers)
    for partition in range(PARTITIONS):
        cluster.wait_state(topic, partition, isr=everybody)
    for partition in range(STATE_PARTITIONS):
        cluster.wait_state(TRANSACTION_TOPIC, partition, isr=everybody)


@pytest.fixture
def streams(cluster: Cluster, topic: str, opened: Open) -> Iterator[list[Stream]]:
    """Of each client one, with its name as its transactional id, once all have begun."""
    running: list[Stream] = []

    def opening(library: str) -> Callable[[], TransactionalClient]:
        return lambda: opened(library, library)

    try:
        running += [Stream(library, opening(library), topic) for library in CLIENTS]
        go_on(running)
        yield running
    finally:
        for stream in running:
            stream.stop()


def test_rolling_restart_tears_no_transaction(
    cluster: Cluster, topic: str, streams: list[Stream], capsys: pytest.CaptureFixture[str]
) -> None:
    for broker in cluster.brokers.values():
        assert broker.stop() == 0
        go_on(streams)
        broker.start()
        await_in_sync(cluster, topic)
        go_on(streams)
    finish(cluster, topic, streams, capsys)


def test_kills_of_coordinators_tear_no_transaction(
    cluster: Cluster, topic: str, streams: list[Stream], capsys: pytest.CaptureFixture[str]
) -> None:
    for library in CLIENTS:
        broker = cluster.brokers[coordinator_of(cluster, library)]
        broker.kill()
        go_on(streams)
        broker.start()
        await_in_sync(cluster, topic)
        go_on(streams)
    finish(cluster, topic, streams, capsys)


def finish(cluster: Cluster, topic: str, streams: list[Stream], capsys: pytest.CaptureFixture[str]) -> None:
    for stream in streams:
        stream.stop()
    told = judge(cluster, topic, streams)
    with capsys.disabled():
        print(f"\ntransactions through failures: {dict(told)}; {[(s.library, s.committed) for s in streams]}")
    assert told[COMMITTED] > 0
    assert told[ABORTED] > 0
