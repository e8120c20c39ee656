"""The real runtime under random faults, judged by what clients saw and by the event log's own rules."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.replication import epochs
from broker.core.replication.leader import Leader
from broker.core.replication.purgatory import OffsetWaiters
from broker.wire.errors import ErrorCode
from tests.support.event_twins import goes_on_elsewhere
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster, fetched, produced, values_of
from tests.support.memory_links import Held
from tests.support.memory_node import FakeSlot

pytestmark = pytest.mark.guarantee("R4")


class Run:
    """Faults and clients drawn from one seed."""

    def __init__(self, seed: int, min_isr: int, replicas: int = 3) -> None:
        self.rng = random.Random(seed)
        # One batch per fetch: catching up takes time.
        slow = {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}
        self.cluster = MemoryCluster(replicas, min_isr, slow if seed % 2 else None)
        self.cut: set[tuple[int, int]] = set()
        self.cluster.hold = self._cut
        self.slots: dict[str, FakeSlot] = {}
        self.seen: dict[int, str] = {}
        self.count = 0
        self.cluster.settle()

    def _cut(self, message: Held) -> bool:
        return (message.source, message.target) in self.cut

    def step(self) -> None:
        cluster, rng = self.cluster, self.rng
        i = rng.choice(cluster.ids)
        node = cluster.nodes[i]
        roll = rng.random()
        if roll < 0.35:
            if node.manager is not None and not node.paused:
                self.count += 1
                value = f"v{self.count}"
                idempotent = {"producer_id": self.count, "producer_epoch": 0, "base_sequence": 0}
                self.slots[value] = cluster.produce(i, value, **(idempotent if rng.random() < 0.2 else {}))
        elif roll < 0.50:
            for _ in range(rng.randint(1, 4)):
                cluster.turn()
        elif roll < 0.62:
            cluster.advance(rng.choice((10.0, 600.0, 6000.0)))
        elif roll < 0.72:
            self.read(i)
        elif roll < 0.80:
            link = (i, rng.choice((0, *cluster.ids)))
            self.cut ^= {link}
            if rng.random() < 0.3:
                cluster.lose()
            else:
                cluster.release(lambda message: not self._cut(message))
        elif roll < 0.86:
            if node.manager is not None:
                if node.paused:
                    cluster.resume(i)
                else:
                    node.paused = True
        elif roll < 0.93:
            if node.manager is not None:
                cluster.kill(i)
            else:
                if i in cluster.registered:
                    cluster.expire(i)
                node.deaf = False
                cluster.start(i)
        elif roll < 0.96:
            if node.manager is None and i in cluster.registered:
                cluster.expire(i)
        elif roll < 0.98:
            live = [b for b in cluster.state.isr if b in cluster.registered]
            if live:
                cluster.elect(rng.choice(live))
        else:
            node.deaf = not node.deaf
            cluster.tell(i)

    def read(self, i: int) -> None:
        """A consumer reads everything; what was seen once at an offset stays there."""
        node = self.cluster.nodes[i]
        if node.manager is None or node.paused:
            return
        result = fetched(self.cluster.fetch(i, 0))
        if result is None or result.error:
            return
        for offset, value in enumerate(values_of(result)):
            assert self.seen.setdefault(offset, value) == value, f"offset {offset}: {value}, was {self.seen[offset]}"

    def heal(self) -> None:
        cluster = self.cluster
        self.cut.clear()
        for i, node in cluster.nodes.items():
            node.deaf = False
            node.paused = False
            if node.manager is None:
                if i in cluster.registered:
                    cluster.expire(i)
                cluster.start(i)
        cluster.elect_if_leaderless()
        cluster.tell_all()
        cluster.release()
        cluster.advance(60000)

    def check(self) -> None:
        cluster = self.cluster
        logs = [node.log.values() for node in cluster.nodes.values()]
        assert all(log == logs[0] for log in logs), logs
        assert set(cluster.state.isr) == set(cluster.ids)
        for value, slot in self.slots.items():
            result = produced(slot)
            if result is not None and result.error == 0:
                assert logs[0][result.base_offset] == value, f"{value} was acknowledged at {result.base_offset}"
        for offset, value in self.seen.items():
            assert logs[0][offset] == value, f"{value} was read at {offset}"
        check_events([line for node in cluster.nodes.values() for log in node.events for line in log.events])


def check_events(events: list[dict[str, Any]]) -> None:
    """White-box rules 2, 4, 5, 6, 8, 9, 17 and the log's own form."""
    streams: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in events:
        streams[line["i"]].append(line)
    appenders: dict[int, set[int]] = defaultdict(set)
    exposed: dict[int, int] = defaultdict(int)
    elected: dict[int, int] = {}
    for stream in streams.values():
        assert [line["s"] for line in stream] == list(range(len(stream)))
        hw_of_epoch: dict[int, int] = {}
        for line in stream:
            match line["e"]:
                case "become_leader":
                    elected[line["le"]] = line["leo"]
                    assert line["hw"] <= line["leo"]
                case "append" if line["role"] == "leader":
                    appenders[line["le"]].add(line["b"])
                    assert line["base"] <= line["last"]
                case "hw" if line["role"] == "leader":
                    assert line["hw"] > hw_of_epoch.get(line["le"], -1)
                    hw_of_epoch[line["le"]] = line["hw"]
                    exposed[line["le"]] = max(exposed[line["le"]], line["hw"])
                    assert line["hw"] <= min(line["leos"][str(b)] for b in line["maximal"])
                    assert set(line["isr"]) <= set(line["maximal"])
                case "ack" if line["acks"] == -1:
                    assert line["hw"] > line["last"]
                    assert len(line["isr"]) >= line["min_isr"]
                case "visible":
                    assert line["upto"] <= line["hw"]
    for epoch, leo in elected.items():
        earlier = max((hw for led, hw in exposed.items() if led < epoch), default=0)
        assert leo >= earlier, f"leader of epoch {epoch} has {leo}, {earlier} was committed before"
    assert all(len(brokers) == 1 for brokers in appenders.values()), appenders
    assert not goes_on_elsewhere({**line, "t_ns": 0} for line in events)


@examples(120)
@given(seed=st.integers(0, 2**32 - 1), min_isr=st.integers(1, 3))
def test_runtime_random_faults_lose_nothing_and_break_no_rule(seed: int, min_isr: int) -> None:
    run = Run(seed, min_isr)
    for _ in range(120):
        run.step()
    run.heal()
    run.check()


def _finds_a_fault(seeds: int) -> bool:
    for seed in range(seeds):
        run = Run(seed, 1)
        try:
            for _ in range(120):
                run.step()
            run.heal()
            run.check()
        except AssertionError:
            return True
    return False


@pytest.mark.patches
@pytest.mark.parametrize("fault", ["ack at append", "watermark at append", "divergence ignored"])
def test_runtime_with_a_planted_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(self: Leader, now_ms: float) -> bool:
        rose = self.leo > self.high_watermark
        self.high_watermark = self.leo
        return rose

    match fault:
        case "ack at append":
            monkeypatch.setattr(OffsetWaiters, "reach", lambda self, _: self.take_all())
            monkeypatch.setattr(Leader, "check_committed", lambda *_: ErrorCode.NONE)
        case "watermark at append":
            monkeypatch.setattr(Leader, "maybe_advance_high_watermark", everything)
        case _:
            monkeypatch.setattr(epochs, "diverging_epoch", lambda *_: None)
    assert _finds_a_fault(60)
