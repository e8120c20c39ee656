"""One transactional id, its producers and its coordinators, with appends that fail and coordinators that crash.

The twin is the log: what was stored, in order. It says which transaction is open, what was decided, and which markers
may be written; the rules of `broker.core.transaction` see their metadata alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from broker.core.transaction.metadata import EPOCH_MAX, NO_EPOCH, TransactionMetadata, Transit
from broker.core.transaction.producer_ids import NEEDS_PRODUCER_ID, Claimed, init_producer
from broker.core.transaction.requests import add_partitions, end, verify_partitions
from broker.core.transaction.states import AT_REST, PREPARED, TransactionState
from broker.core.transaction.upkeep import abort_if_late, expire_if_idle, finish_if_decided
from broker.model.ids import TopicPartition
from broker.wire.errors import ErrorCode
from tests.support.examples import examples

S = TransactionState
PARTITIONS = [TopicPartition("t", index) for index in range(3)]
CLIENTS = st.integers(0, 2)
TIMEOUT_MS = 100
EXPIRATION_MS = 10_000


class TransactionalId(RuleBasedStateMachine):
    """One append is under way at most, because a pending change bars the others."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1000
        self.log: list[Transit | None] = []
        self.first_epoch = NO_EPOCH
        self.serial = 0
        """Number of the newest transaction that the log has."""
        self.memory: TransactionMetadata | None = None
        self.appending: tuple[Transit, Callable[[bool], None]] | None = None
        self.completion: Transit | None = None
        self.fresh_id = 100
        self.held: dict[int, Claimed] = {}
        self.granted: dict[Claimed, int] = {}
        self.newest: Claimed | None = None
        self.markers: dict[int, dict[TopicPartition, bool]] = defaultdict(dict)

    @initialize(epoch=st.sampled_from([NO_EPOCH, 3, EPOCH_MAX - 3, EPOCH_MAX - 2, EPOCH_MAX - 1]))
    def begin(self, epoch: int) -> None:
        """A new id, or one whose epochs are about to be used up."""
        self.first_epoch = epoch
        self.memory = TransactionMetadata("tx", 50, epoch, TIMEOUT_MS, self.now_ms)

    # -- the store -------------------------------------------------------------------------------------------------

    def append(self, transit: Transit, done: Callable[[bool], None]) -> None:
        assert self.appending is None
        self.appending = transit, done

    def store(self, transit: Transit) -> None:
        before = self.log[-1] if self.log else None
        if transit.state is S.ONGOING and (before is None or before.state is not S.ONGOING):
            self.serial += 1
        self.log.append(None if transit.state is S.DEAD else transit)

    @precondition(lambda self: self.appending is not None)
    @rule(outcome=st.sampled_from(["stored", "stored", "stored", "lost", "not known"]))
    def outcome(self, outcome: str) -> None:
        """not known: it is in the log, and the coordinator has given up waiting for that."""
        assert self.appending is not None
        assert self.memory is not None
        (transit, done), self.appending = self.appending, None
        if outcome != "lost":
            self.store(transit)
        if outcome != "stored":
            if transit is self.completion:
                self.append(transit, done)  # until it is stored: nothing else may follow
                return
            self.memory.failed()
        elif transit.state is S.DEAD:
            self.memory = None
        else:
            self.memory.completed(transit)
            if transit.state in PREPARED:
                self.completion = finish_if_decided(self.memory, self.now_ms)
        done(outcome == "stored")

    @rule()
    def crash(self) -> None:
        """Another coordinator loads the log."""
        self.appending = self.completion = None
        if not self.log:
            self.begin(self.first_epoch)
            return
        stored = self.log[-1]
        self.memory = None
        if stored is None:
            return
        self.memory = TransactionMetadata(
            "tx",
            stored.producer_id,
            stored.epoch,
            stored.timeout_ms,
            stored.update_ms,
            stored.state,
            stored.partitions,
            stored.start_ms,
        )
        self.completion = finish_if_decided(self.memory, self.now_ms)

    # -- markers ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.completion is not None and self.appending is None)
    @rule(choice=st.integers(0, 2))
    def marker(self, choice: int) -> None:
        """One partition gets its marker; after the last one the completion is stored."""
        assert self.memory is not None
        assert self.completion is not None
        waiting = sorted(self.memory.partitions)
        if waiting:
            partition = waiting[choice % len(waiting)]
            committed = self.memory.state is S.PREPARE_COMMIT
            assert self.markers[self.serial].setdefault(partition, committed) is committed, "the decision changed"
            self.memory.marker_written(partition)
        if not self.memory.partitions:
            self.append(self.completion, self._completed)

    def _completed(self, stored: bool) -> None:
        assert stored
        self.completion = None
        decision = next(t for t in reversed(self.log) if t is not None and t.state in PREPARED)
        committed = decision.state is S.PREPARE_COMMIT
        assert self.markers[self.serial] == dict.fromkeys(decision.partitions, committed)

    # -- clients ---------------------------------------------------------------------------------------------------

    @rule(client=CLIENTS, claims=st.booleans())
    def init(self, client: int, claims: bool) -> None:
        """A start, or a producer that goes on after an error."""
        if self.memory is None:
            self.fresh_id += 1
            self.memory = TransactionMetadata("tx", self.fresh_id, NO_EPOCH, TIMEOUT_MS, self.now_ms)
        claim = self.held.get(client) if claims else None
        result = init_producer(self.memory, TIMEOUT_MS, claim, None, self.now_ms)
        if result is NEEDS_PRODUCER_ID:
            self.fresh_id += 1
            result = init_producer(self.memory, TIMEOUT_MS, claim, self.fresh_id, self.now_ms)
        if isinstance(result, Transit):
            transit = result
            self.append(transit, lambda stored: self._inited(client, transit, stored))

    def _inited(self, client: int, transit: Transit, stored: bool) -> None:
        if stored and transit.state is S.EMPTY:
            grant = Claimed(transit.producer_id, transit.epoch)
            assert self.granted.setdefault(grant, client) == client, "two producers with one epoch"
            self.held[client] = self.newest = grant

    def _is_zombie(self, client: int) -> bool:
        return self.held[client] != self.newest

    @rule(client=CLIENTS, partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def add(self, client: int, partitions: set[TopicPartition]) -> None:
        """AddPartitionsToTxn."""
        if client not in self.held:
            return
        result = add_partitions(self.memory, *self.held[client], partitions, self.now_ms)
        if isinstance(result, Transit):
            assert not self._is_zombie(client)
            self.append(result, lambda _: None)
        elif result is ErrorCode.NONE:
            assert not self._is_zombie(client)
            stored = self.log[-1]
            assert stored is not None
            assert partitions <= stored.partitions

    @rule(client=CLIENTS, commit=st.booleans())
    def end(self, client: int, commit: bool) -> None:
        """EndTxn."""
        if client not in self.held:
            return
        result = end(self.memory, *self.held[client], commit, self.now_ms)
        if isinstance(result, Transit):
            assert not self._is_zombie(client)
            self.append(result, lambda _: None)
        elif result is ErrorCode.NONE:
            stored = self.log[-1]
            assert stored is not None
            assert stored.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)

    @rule(client=CLIENTS, partition=st.sampled_from(PARTITIONS))
    def verify(self, client: int, partition: TopicPartition) -> None:
        """A batch is let through only where the transaction is stored, open, and will get a marker there."""
        if client not in self.held:
            return
        if verify_partitions(self.memory, *self.held[client], [partition])[partition] is ErrorCode.NONE:
            stored = next(t for t in reversed(self.log) if t is not None and t.state is S.ONGOING)
            assert partition in stored.partitions
            assert partition not in self.markers[self.serial]

    # -- time ------------------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, TIMEOUT_MS + 1, EXPIRATION_MS]))
    def wait(self, ms: int) -> None:
        """And what a coordinator does unasked."""
        self.now_ms += ms
        if self.memory is None or self.appending is not None:
            return
        transit = abort_if_late(self.memory, self.now_ms) or expire_if_idle(self.memory, self.now_ms, EXPIRATION_MS)
        if transit is not None:
            self.append(transit, lambda _: None)

    def teardown(self) -> None:
        """Left alone with a store that works, no transaction stays open."""
        for _ in range(2 * len(PARTITIONS) + 6):
            if self.appending is not None:
                self.outcome("stored")
            elif self.completion is not None:
                self.marker(0)
            else:
                self.wait(TIMEOUT_MS + 1)
        while self.appending is not None:
            self.outcome("stored")
        assert self.memory is None or (self.memory.state in AT_REST and self.memory.pending is None)


def test_transactional_id_against_its_log() -> None:
    run_state_machine_as_test(TransactionalId, settings=examples(400, stateful_step_count=60))
