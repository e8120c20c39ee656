"""The real runtime under random faults in which sessions end without the process, and one producer retries in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.runtime.test_runtime_cluster import Run
from tests.support.examples import examples
from tests.support.memory_cluster import produced
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("C9")

_PRODUCER = 900_000


class SessionRun(Run):
    """Beside the other faults: registrations lost and renewed, deadlines that pass and come back."""

    def __init__(self, seed: int, min_isr: int) -> None:
        super().__init__(seed, min_isr)
        self.unregistered: set[int] = set()
        """Processes that run on while the controller counts them as dead."""
        self.next = 0
        self.in_flight: FakeSlot | None = None
        self.acknowledged: dict[int, int] = {}

    def step(self) -> None:
        cluster = self.cluster
        roll = self.rng.random()
        i = self.rng.choice(cluster.ids)
        node = cluster.nodes[i]
        if roll < 0.06:
            if node.manager is not None and i in cluster.registered:
                cluster.expire(i)
                self.unregistered.add(i)
        elif roll < 0.14:
            if i in self.unregistered and not node.paused:
                self.register_again(i)
        elif roll < 0.17:
            if node.manager is not None and not node.paused:
                node.manager.replicas.set_session_deadline_passed(not node.manager.replicas.locally_fenced)
        elif roll < 0.40:
            self.send(i)
        else:
            super().step()
        self.unregistered = {
            j for j in self.unregistered if cluster.nodes[j].manager is not None and j not in cluster.registered
        }

    def register_again(self, i: int) -> None:
        cluster = self.cluster
        node = cluster.nodes[i]
        node.up.resign_all()
        node.up.replicas.set_session_deadline_passed(False)
        cluster.register(i)
        self.unregistered.discard(i)
        cluster.elect_if_leaderless()
        cluster.tell(i)

    def send(self, i: int) -> None:
        """An idempotent producer with one batch in flight: what is not acknowledged is sent again, to anyone."""
        node = self.cluster.nodes[i]
        if node.manager is None or node.paused:
            return
        if self.in_flight is not None:
            if produced(self.in_flight) is None and self.rng.random() < 0.5:
                return
            self.settle_in_flight()
        self.in_flight = self.cluster.produce(
            i, f"i{self.next}", producer_id=_PRODUCER, producer_epoch=0, base_sequence=self.next
        )

    def settle_in_flight(self) -> None:
        result = produced(self.in_flight) if self.in_flight is not None else None
        if result is not None and result.error == 0:
            self.acknowledged[self.next] = result.base_offset
            self.next += 1
        self.in_flight = None

    def heal(self) -> None:
        cluster = self.cluster
        for i, node in cluster.nodes.items():
            if node.manager is not None:
                node.paused = False
                node.manager.replicas.set_session_deadline_passed(False)
                if i not in cluster.registered:
                    self.register_again(i)
        super().heal()
        for _ in range(3):
            self.settle_in_flight()
            self.send(cluster.state.leader)
            cluster.settle()
        self.settle_in_flight()

    def check(self) -> None:
        super().check()
        log = self.cluster.nodes[1].log.values()
        mine = [value for value in log if value.startswith("i")]
        assert mine == [f"i{number}" for number in range(len(mine))], "each once and in order"
        for number, offset in self.acknowledged.items():
            assert log[offset] == f"i{number}"
        assert self.next >= 3, "the producer never got stuck"


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), min_isr=st.integers(1, 3))
def test_runtime_lost_sessions_lose_and_double_nothing(seed: int, min_isr: int) -> None:
    run = SessionRun(seed, min_isr)
    for _ in range(160):
        run.step()
    run.heal()
    run.check()
