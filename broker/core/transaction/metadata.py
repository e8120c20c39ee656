"""One transactional id: producer id, epoch and transaction, and the change of them that is being stored.

A change is prepared, which yields the values to store and bars other changes; `completed` applies it once the record
is stored, `failed` takes it back. Source: kafka.coordinator.transaction.TransactionMetadata, TxnTransitMetadata.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from broker.core.transaction.states import PREDECESSORS, PREPARED, TransactionState
from broker.model.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_START: Final = -1
EPOCH_MAX: Final = 2**15 - 1


class IllegalTransition(Exception):
    """A change that no request can lead to: an error of the program."""


class Transit(NamedTuple):
    """What a transactional id becomes once this is stored. Times in ms since 1970."""

    producer_id: int
    last_producer_id: int
    """The one before, whose last epoch was used up."""
    epoch: int
    last_epoch: int
    """The one that the producer itself had raised: a repeat of its request is recognised by that."""
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_ms: int
    update_ms: int


def is_exhausted(epoch: int) -> bool:
    """Whether no producer may have an epoch above this: the largest one is left for fencing."""
    return epoch >= EPOCH_MAX - 1


class TransactionMetadata:
    """One transactional id. Times in ms since 1970."""

    __slots__ = (
        "epoch",
        "fence_failed",
        "last_epoch",
        "last_producer_id",
        "partitions",
        "pending",
        "producer_id",
        "seen",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "update_ms",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        timeout_ms: int,
        update_ms: int,
        state: TransactionState = TransactionState.EMPTY,
        partitions: Collection[TopicPartition] = (),
        start_ms: int = NO_START,
        last_producer_id: int = NO_PRODUCER_ID,
        last_epoch: int = NO_EPOCH,
    ) -> None:
        """As a record has it; a new one has NO_EPOCH until its first change is stored."""
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = epoch
        self.timeout_ms = timeout_ms
        self.update_ms = update_ms
        self.state = state
        self.partitions = set(partitions)
        self.seen: set[TopicPartition] = set()
        """Those of its partitions that were known to exist when they were added here: not stored."""
        self.start_ms = start_ms
        self.last_producer_id = last_producer_id
        self.last_epoch = last_epoch
        self.pending: TransactionState | None = None
        """The state of the change that is being stored."""
        self.fence_failed = False
        """The epoch was raised to fence, which could not be stored: the next attempt does not raise it again."""

    # -- prepared changes ------------------------------------------------------------------------------------------

    def prepare_epoch(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int, repeat: bool = False) -> Transit:
        """Another epoch of the same producer id, or a repeat of the one that was given out."""
        before = self.last_producer_id if repeat else self.producer_id
        return self._prepare(
            Transit(
                self.producer_id,
                before,
                epoch,
                last_epoch,
                timeout_ms,
                TransactionState.EMPTY,
                frozenset(),
                NO_START,
                now_ms,
            )
        )

    def prepare_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transit:
        """Another producer id, with epoch 0."""
        return self._prepare(
            Transit(
                producer_id,
                self.producer_id,
                0,
                last_epoch,
                timeout_ms,
                TransactionState.EMPTY,
                frozenset(),
                NO_START,
                now_ms,
            )
        )

    def prepare_partitions(self, partitions: Collection[TopicPartition], now_ms: int) -> Transit:
        """More partitions in the transaction, which begins with the first."""
        start_ms = self.start_ms if self.state is TransactionState.ONGOING else now_ms
        return self._prepare(
            self._as_is(now_ms)._replace(
                state=TransactionState.ONGOING,
                partitions=frozenset(self.partitions).union(partitions),
                start_ms=start_ms,
            )
        )

    def prepare_end(self, commit: bool, now_ms: int) -> Transit:
        """The decision."""
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        return self._prepare(self._as_is(now_ms)._replace(state=state))

    def prepare_fencing_abort(self, now_ms: int) -> Transit:
        """Abort with a raised epoch: whoever has the transaction open is fenced from now on, stored or not."""
        self._check_follows(TransactionState.PREPARE_EPOCH_FENCE, self.state)
        if not self.fence_failed:
            if self.epoch >= EPOCH_MAX:
                raise IllegalTransition(f"{self!r} has no epoch left to fence with")
            self.epoch += 1
        self.last_epoch = NO_EPOCH
        transit = self._as_is(now_ms)._replace(state=TransactionState.PREPARE_ABORT)
        self._check_follows(TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE)
        self.fence_failed = True  # until it is stored
        return self._mark_pending(transit)

    def prepare_complete(self, now_ms: int) -> Transit:
        """What to store once every partition has its marker."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        return self._prepare(self._as_is(now_ms)._replace(state=state, partitions=frozenset()))

    def after_completion(self, completion: Transit, partitions: Collection[TopicPartition], now_ms: int) -> Transit:
        """The next transaction, to be stored in one batch with the completion that was prepared, and behind it."""
        return completion._replace(
            state=TransactionState.ONGOING, partitions=frozenset(partitions), start_ms=now_ms, update_ms=now_ms
        )

    def prepare_dead(self) -> Transit:
        """A tombstone is to be stored; where that succeeds, the caller forgets this id."""
        return self._prepare(self._as_is(self.update_ms)._replace(state=TransactionState.DEAD, partitions=frozenset()))

    def as_stored(self) -> Transit:
        """What its last record says. No change: none is barred meanwhile."""
        return self._as_is(self.update_ms)

    def _as_is(self, now_ms: int) -> Transit:
        return Transit(
            self.producer_id,
            self.producer_id,
            self.epoch,
            self.last_epoch,
            self.timeout_ms,
            self.state,
            frozenset(self.partitions),
            self.start_ms,
            now_ms,
        )

    def _prepare(self, transit: Transit) -> Transit:
        self._check_follows(transit.state, self.state)
        if transit.producer_id < 0 or (transit.epoch < 0 and transit.state is not TransactionState.DEAD):
            raise IllegalTransition(f"{self!r} would become {transit}")
        return self._mark_pending(transit)

    def _check_follows(self, state: TransactionState, before: TransactionState) -> None:
        if self.pending is not None or before not in PREDECESSORS[state]:
            raise IllegalTransition(f"{self!r} cannot become {state.kafkas_name}")

    def _mark_pending(self, transit: Transit) -> Transit:
        self.pending = transit.state
        return transit

    # -- their outcome ---------------------------------------------------------------------------------------------

    def completed(self, transit: Transit) -> None:
        """The prepared change is stored: apply it."""
        state = transit.state
        if self.pending is not state or not self._is_sound(transit):
            raise IllegalTransition(f"{self!r} stored {transit}")
        self.producer_id = transit.producer_id
        self.epoch = transit.epoch
        if state is TransactionState.EMPTY:
            self.last_producer_id = transit.last_producer_id
            self.last_epoch = transit.last_epoch
            self.timeout_ms = transit.timeout_ms
        else:
            self.start_ms = transit.start_ms
        if state not in PREPARED:
            self.partitions = set(transit.partitions)
            self.seen &= self.partitions
        self.update_ms = transit.update_ms
        self.state = state
        self.pending = None
        self.fence_failed = False

    def completed_and_begun(self, completion: Transit, beginning: Transit) -> None:
        """The completion and what `after_completion` put behind it are stored: apply both, in that order."""
        self.completed(completion)
        self.completed(self._prepare(beginning))

    def failed(self) -> None:
        """The prepared change was not stored, or that is not known: the state is the one before."""
        self.pending = None

    def _is_sound(self, transit: Transit) -> bool:
        """Whether the values are what can be reached from here in one step."""
        state = transit.state
        same_producer = transit.producer_id == self.producer_id and transit.epoch == self.epoch
        if state is TransactionState.EMPTY:
            raised = transit.producer_id == self.producer_id and transit.epoch == self.epoch + 1
            fresh = transit.producer_id != self.producer_id and transit.epoch == 0
            return (same_producer or raised or fresh) and not transit.partitions
        if not same_producer or transit.timeout_ms != self.timeout_ms or transit.start_ms == NO_START:
            return False
        if state is TransactionState.ONGOING:
            return self.partitions <= transit.partitions
        if state in PREPARED:
            return self.partitions == transit.partitions and self.start_ms == transit.start_ms
        return state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT) and not self.partitions

    def marker_written(self, partition: TopicPartition) -> None:
        """This partition has its marker, or exists no more. Legal for one that is not waited for."""
        if self.state not in PREPARED:
            raise IllegalTransition(f"{self!r} has no decision that a marker could tell")
        self.partitions.discard(partition)

    def __repr__(self) -> str:
        pending = "" if self.pending is None else f" → {self.pending.kafkas_name}"
        return (
            f"TransactionMetadata({self.transactional_id!r}, producer {self.producer_id} epoch {self.epoch},"
            f" {self.state.kafkas_name}{pending}, {len(self.partitions)} partitions)"
        )
