"""Transactions on whole clusters under random faults, in virtual time: they end whole, as their producers were told."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.core.group.offsets import GroupOffsets
from broker.core.transaction.states import TransactionState
from broker.runtime.transaction.marker_sender import MarkerSender
from broker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.support.simulation.cluster import Cluster, simulated
from tests.support.simulation.judgement import settle
from tests.support.simulation.schedule import Outcome, Schedule, first_failure
from tests.support.simulation.transaction_judgement import judge_transactions
from tests.support.simulation.transactions import TOPIC, Told, TransactionalProducer

pytestmark = [pytest.mark.patches, pytest.mark.guarantee("transactions", "no-hanging-transactions")]

QUICK = range(4)
NIGHTLY = range(2000, 2200)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.commit.timeout.ms": "2000",
    "request.timeout.ms": "5000",
    "transaction.state.log.segment.bytes": "4000",
    "offsets.topic.segment.bytes": "4000",
}
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"flush.policy": "group-commit"},
    {"failure.suspicion.enable": "false"},
    {"transaction.state.log.num.partitions": "3"},
    {"replica.lag.time.max.ms": "800"},
)
REST_MS = 30_000.0


class TransactionSchedule(Schedule):
    """Producers go on by themselves; the faults are the other schedule's, but for what makes topics anew."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        anew = (self._delete_topic, self._create_topics)
        self._weights = [
            0.0 if fault in anew else weight for weight, (_, fault) in zip(self._weights, self._faults, strict=True)
        ]
        cluster.consume = lambda *_: None  # type: ignore[method-assign]

    def run(self) -> None:
        cluster, rng, told = self.cluster, self._rng, Told()
        for id_ in cluster.ids:
            cluster.start(id_)
        cluster.run(3000.0)
        self._ask("make the topic", CreateTopicsRequest([CreatableTopic(TOPIC, 2, 3)]), 5, CreateTopicsResponse)
        cluster.run(1000.0)
        names = rng.choice((("tx0", "tx1"), ("tx0", "tx1", "tx0")))
        producers = [TransactionalProducer(cluster, name, told) for name in names]
        for producer in producers:
            producer.refresh()
        cluster.run(2000.0)
        chance, pace_ms = rng.uniform(0.2, 0.7), rng.choice((100.0, 300.0))
        for _ in range(rng.randint(30, 60)):
            if rng.random() < chance:
                self._fault()
            cluster.run(rng.expovariate(1 / pace_ms))
        self._heal()
        settle_ms = 60_000.0
        for producer in producers:
            producer.over = True
        cluster.run(REST_MS)
        settle(cluster, settle_ms)
        if not all(producer.idle for producer in producers):
            cluster.observer.fail("a producer hangs")
        assert told.decided, "nothing was done"
        for producer in producers:
            producer.fetch_offset()
        cluster.run(3000.0)
        judge_transactions(cluster, told, producers)


def run(seed: int, folder: Path) -> Outcome:
    failure = None
    rng = random.Random(seed)
    with simulated(seed, folder, rng.choice((3, 3, 4)), SETTINGS | rng.choice(OPTIONS)) as cluster:
        try:
            TransactionSchedule(cluster).run()
        except AssertionError as wrong:
            failure = cluster.scheduler.failures[0] if cluster.scheduler.failures else str(wrong)
        return Outcome(seed, cluster.scheduler.trace, failure)


def test_transactions_end_as_their_producers_were_told(tmp_path: Path) -> None:
    failed = first_failure(run, QUICK, tmp_path)
    assert failed is None, failed.text()


def _forget_aborts(patch: pytest.MonkeyPatch) -> None:
    queue = MarkerSender._queue

    def committed_alone(self: MarkerSender, marker: Any) -> None:
        if marker.job.open and marker.job.transaction.state is TransactionState.PREPARE_ABORT:
            self._written(marker.job, marker.partition)
        else:
            queue(self, marker)

    patch.setattr(MarkerSender, "_queue", committed_alone)


def _lose_offsets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        GroupOffsets, "end_transaction", lambda self, producer_id, _: self._transactional.pop(producer_id, None)
    )


@pytest.mark.parametrize("plant", [_forget_aborts, _lose_offsets])
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(monkeypatch)
    assert first_failure(run, QUICK, tmp_path) is not None


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_many_transactions_end_as_their_producers_were_told(tmp_path: Path) -> None:
    failed = first_failure(run, NIGHTLY, tmp_path)
    assert failed is None, failed.text()
