"""Replication keeps its promises over random interleavings, and the model sees it when a rule is missing."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.replication import epochs
from broker.core.replication.isr import IsrState, Proposal
from broker.core.replication.leader import Leader
from tests.property.core.cluster import Cluster
from tests.property.core.invariants import Violation
from tests.property.core.random_life import run, settle
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("R2", "isr-changes")

SEEDS = st.integers(0, 2**32 - 1)


@examples(250)
@given(seed=SEEDS, replicas=st.integers(2, 5), data=st.data())
def test_cluster_random_interleavings_keep_every_invariant(seed: int, replicas: int, data: st.DataObject) -> None:
    min_isr = data.draw(st.integers(1, replicas))
    run(Cluster(random.Random(seed), replicas, min_isr), 250)


@examples(40)
@given(seed=SEEDS, replicas=st.integers(2, 4))
def test_cluster_after_any_life_settles_to_equal_logs_and_full_isr(seed: int, replicas: int) -> None:
    cluster = Cluster(random.Random(seed), replicas, 2)
    run(cluster, 200)
    settle(cluster)
    assert set(cluster.state.isr) == set(cluster.ids)
    logs = [broker.log for broker in cluster.brokers.values()]
    assert all(log == logs[0] for log in logs)
    assert cluster.committed == logs[0]
    role = cluster.leader_role(cluster.state.leader)
    assert role is not None
    assert role.high_watermark == len(logs[0])


def violation_found(seeds: int, protocol: str = "leader-epoch", min_isr: int = 2, replicas: int = 3) -> bool:
    for seed in range(seeds):
        try:
            run(Cluster(random.Random(seed), replicas, min_isr, protocol), 250)
        except Violation:
            return True
    return False


def test_cluster_with_high_watermark_truncation_loses_a_committed_record() -> None:
    assert violation_found(300, protocol="high-watermark")


def _expand_without_catching_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def propose(self: Leader, follower_id: int, now_ms: float) -> Proposal | None:
        if self.isr.pending is not None or follower_id in self.isr.committed:
            return None
        return self._propose("expand", self.isr.committed | {follower_id}, "caught-up")

    monkeypatch.setattr(Leader, "propose_expand", propose)


def _expand_below_epoch_start(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Leader.propose_expand

    def propose(self: Leader, follower_id: int, now_ms: float) -> Proposal | None:
        start, self.epoch_start_offset = self.epoch_start_offset, 0
        try:
            return original(self, follower_id, now_ms)
        finally:
            self.epoch_start_offset = start

    monkeypatch.setattr(Leader, "propose_expand", propose)


def _pending_joiner_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    original = IsrState.propose

    def propose(self: IsrState, proposal: Proposal) -> None:
        original(self, proposal)
        self.maximal = self.committed

    monkeypatch.setattr(IsrState, "propose", propose)
    monkeypatch.setattr(Leader, "_may_join", lambda *_: False, raising=True)
    monkeypatch.setattr(Leader, "propose_expand", _expand_ignoring_may_join())


def _expand_ignoring_may_join() -> Callable[[Leader, int, float], Proposal | None]:
    def propose(self: Leader, follower_id: int, now_ms: float) -> Proposal | None:
        if self.isr.pending is not None or follower_id in self.isr.committed:
            return None
        progress = self.followers[follower_id]
        if progress.leo < self.high_watermark or progress.leo < self.epoch_start_offset:
            return None
        return self._propose("expand", self.isr.committed | {follower_id}, "caught-up")

    return propose


def _pending_shrink_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original = IsrState.propose

    def propose(self: IsrState, proposal: Proposal) -> None:
        original(self, proposal)
        if proposal.kind == "shrink":
            self.maximal = frozenset(proposal.isr)
            self.committed = frozenset(proposal.isr)

    monkeypatch.setattr(IsrState, "propose", propose)


def _advance_on_append(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(self: Leader, now_ms: float) -> bool:
        rose = self.leo > self.high_watermark
        self.high_watermark = self.leo
        return rose

    monkeypatch.setattr(Leader, "maybe_advance_high_watermark", advance)


def _divergence_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "diverging_epoch", lambda *_: None)


@pytest.mark.patches
@pytest.mark.parametrize(
    "break_rule",
    [
        _expand_without_catching_up,
        _expand_below_epoch_start,
        _pending_joiner_not_counted,
        _pending_shrink_counted_at_once,
        _advance_on_append,
        _divergence_ignored,
    ],
)
def test_cluster_with_a_broken_rule_shows_a_violation(
    break_rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_rule(monkeypatch)
    assert violation_found(600, min_isr=1) or violation_found(600, min_isr=2, replicas=4)
