"""Transactions through moves of their coordinator and of leaders, lost messages, time-outs and zombies."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.transaction.states import AT_REST
from tests.property.runtime.transaction_clients import Client, Told, Value
from tests.property.runtime.transaction_logs import DataLog
from tests.property.runtime.transaction_world import PARTITIONS, TransactionWorld
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("transactions", "no-hanging-transactions")

IDS = ("tx", "other")
STEPS = 2000


class Run:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = TransactionWorld(self.rng)
        self.told = Told()
        self.clients = {name: Client(self.world, name, self.told) for name in IDS}

    def step(self) -> None:
        name = self.rng.choice(IDS)
        client = self.clients[name]
        if not client.alive or self.rng.random() < 0.005:
            # What it sent is still under way.
            client.alive = False
            self.clients[name] = Client(self.world, name, self.told)
        client.step()
        self.world.step()

    def heal(self) -> None:
        for client in self.clients.values():
            client.alive = False
        self.world.heal()


def outcomes(log: DataLog) -> dict[Value, bool]:
    """What became of each value in the partition, by the next marker of its producer."""
    open_: dict[int, list[Value]] = {}
    found: dict[Value, bool] = {}
    for entry in log.entries:
        if entry.value is not None:
            open_.setdefault(entry.producer_id, []).append(entry.value)
        elif entry.end is not None:
            found.update(dict.fromkeys(open_.pop(entry.producer_id, ()), entry.end.committed))
    assert not open_, f"transactions hang: {open_}"
    return found


def check(run: Run) -> None:
    world, told = run.world, run.told
    home = world.coordinator.home
    assert home is not None
    assert all(each.state in AT_REST and each.pending is None for each in home.transactions.values()), home.transactions
    of_transaction: dict[int, bool] = {}
    for partition in PARTITIONS:
        log = world.data[partition]
        assert log.states.transactions.last_stable_offset(len(log.entries)) == len(log.entries)
        counted = Counter(entry.value for entry in log.entries if entry.value is not None)
        assert set(counted.values()) <= {1}, "a repeat was appended"
        ended = outcomes(log)
        for (serial, number), committed in ended.items():
            assert of_transaction.setdefault(serial, committed) is committed, f"transaction {serial} is torn"
            assert told.decided is not None
            assert told.decided.get(serial, committed) is committed, f"transaction {serial} ended otherwise than told"
            assert (partition, (serial, number)) in told.acknowledged[serial] or not told.decided.get(serial, False)
        for values in told.acknowledged.values():
            for where, value in values:
                assert where != partition or value in ended, f"{value} was acknowledged, and is gone"


@given(seed=st.integers(0, 2**32 - 1))
@examples(30)
def test_transactions_end_whole_as_decided_and_never_hang(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.heal()
    check(run)
