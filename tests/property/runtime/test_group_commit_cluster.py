"""Group commit under random faults, power failures among them: what was acknowledged survives all brokers at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.runtime.replicas.replica import Replica
from tests.property.runtime.test_runtime_cluster import Run
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster, produced

pytestmark = pytest.mark.guarantee("L7")

GROUP_COMMIT = {"flush.policy": "group-commit"}


class PowerRun(Run):
    """Beside the other faults: disks that stall, and power that fails on one broker or on all."""

    def __init__(self, seed: int, min_isr: int, flush: dict[str, str] | None = None) -> None:
        super().__init__(seed, min_isr)
        slow = {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}
        chosen = GROUP_COMMIT if flush is None else flush
        self.cluster = MemoryCluster(3, min_isr, {**chosen, **(slow if seed % 2 else {})})
        self.cluster.hold = self._cut
        self.cluster.settle()

    def step(self) -> None:
        cluster, rng = self.cluster, self.rng
        roll = rng.random()
        i = rng.choice(cluster.ids)
        if roll < 0.10:
            cluster.stalled_disks ^= {i}
        elif roll < 0.14:
            self.lose_power(i)
        elif roll < 0.17:
            for each in cluster.ids:
                self.lose_power(each)
        else:
            super().step()

    def lose_power(self, i: int) -> None:
        if self.cluster.nodes[i].manager is not None:
            self.cluster.lose_power(i)

    def heal(self) -> None:
        self.cluster.stalled_disks.clear()
        super().heal()


def _run(seed: int, min_isr: int, flush: dict[str, str] | None = None) -> PowerRun:
    run = PowerRun(seed, min_isr, flush)
    for _ in range(120):
        run.step()
    run.heal()
    return run


@examples(80)
@given(seed=st.integers(0, 2**32 - 1), min_isr=st.integers(1, 3))
def test_group_commit_under_power_failures_loses_nothing_and_breaks_no_rule(seed: int, min_isr: int) -> None:
    _run(seed, min_isr).check()


def _finds_a_loss(flush: dict[str, str], seeds: int = 40) -> bool:
    for seed in range(seeds):
        try:
            _run(seed, 1, flush).check()
        except (AssertionError, IndexError):
            return True
    return False


def test_default_policy_under_the_same_power_failures_is_seen_to_lose() -> None:
    assert _finds_a_loss({})


def test_group_commit_that_counts_what_is_only_written_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "replicated_leo", property(lambda self: self.log.log_end_offset))
    assert _finds_a_loss(GROUP_COMMIT)


def test_acks_all_waits_for_the_disk_of_every_isr_member() -> None:
    cluster = MemoryCluster(3, 2, GROUP_COMMIT)
    cluster.settle()
    for stalled in cluster.ids:
        cluster.stalled_disks = {stalled}
        waiting = cluster.produce(1, f"while {stalled} stalls")
        cluster.settle()
        assert not waiting.done
        assert cluster.nodes[2].log.values()[-1] == f"while {stalled} stalls", "the bytes go round before the disk"
        cluster.stalled_disks = set()
        cluster.settle()
        result = produced(waiting)
        assert result is not None
        assert result.error == 0


def test_acks_one_does_not_wait_for_the_disk() -> None:
    cluster = MemoryCluster(3, 2, GROUP_COMMIT)
    cluster.settle()
    cluster.stalled_disks = set(cluster.ids)
    slot = cluster.produce(1, "v", acks=1)
    cluster.settle()
    assert slot.done


def test_batches_that_come_during_a_flush_share_the_next_one() -> None:
    cluster = MemoryCluster(1, 1, GROUP_COMMIT)
    cluster.settle()
    cluster.stalled_disks = {1}
    slots = [cluster.produce(1, f"v{n}") for n in range(20) if cluster.turn() or True]
    log = cluster.nodes[1].log
    (first,) = log.commits
    assert first[0] < log.log_end_offset
    cluster.stalled_disks = set()
    cluster.settle()
    assert all(slot.done for slot in slots)
    flushed = [line["upto"] for line in cluster.nodes[1].event_log.of("flush")]
    assert flushed == [first[0], 20]


@pytest.mark.parametrize("flush_messages", [1, 3])
def test_group_commit_with_flush_messages_commits_what_a_write_has_flushed_itself(flush_messages: int) -> None:
    cluster = MemoryCluster(3, 2, GROUP_COMMIT)
    cluster.settle()
    for i in cluster.ids:
        cluster.nodes[i].log.flush_messages = flush_messages
    for n in range(7):
        slot = cluster.produce(1, f"v{n}")
        cluster.settle()
        result = produced(slot)
        assert result is not None, f"v{n} waits"
        assert result.error == 0
