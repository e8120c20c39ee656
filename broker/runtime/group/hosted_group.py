"""One group at its coordinator: the rules at work, with a timer, with records in the log, and with those who wait.

`core.group.Group` decides and hands back effects; this carries them out. A generation's assignments are handed out once
their record is committed, and an offset counts once its own is. Loop thread.
Source: kafka.coordinator.group.GroupCoordinator, DelayedJoin, DelayedSync, DelayedHeartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Protocol

from broker.core.group.effects import Effect, Reply, Result, Store
from broker.core.group.errors import commit_error, store_error
from broker.core.group.group import Group
from broker.core.group.offsets import CommittedOffset, GroupOffsets, Partition
from broker.core.group.requests import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from broker.model.ids import Offset
from broker.runtime.coordinators.appends import CoordinatorAppends
from broker.runtime.group import records
from broker.runtime.ports import Loop, Timer
from broker.wire.coordinator_records.batches import TransactionalProducer
from broker.wire.errors import ErrorCode
from broker.wire.records import NewRecord

logger = logging.getLogger(__name__)

_IN_THE_LOG: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
"""What came of an append whose records stay in the log, unless another leader's log is without them."""

_FENCE_CHECK_MS: Final = 1000.0
"""How much later than it is due what time does to a group may happen after a fence."""


class Waiter(Protocol):
    """Who made a request of membership. One of the two is called, once."""

    def reply(self, result: Result) -> None:
        """What came of the request."""
        ...

    def fail(self, error: ErrorCode) -> None:
        """The group is not coordinated here any more."""
        ...


class Fence(Protocol):
    """While this broker is locally fenced members can neither show themselves nor join: no time passes for them."""

    def fenced_now(self) -> bool:
        """Whether this broker is."""
        ...

    def serving_ms(self) -> float:
        """Monotonic ms, which stand still meanwhile."""
        ...


@dataclass(slots=True)
class Surroundings:
    """What all groups of a partition share. over: this broker does not coordinate the partition any more."""

    loop: Loop
    appends: CoordinatorAppends
    fence: Fence
    over: bool = False


class HostedGroup:
    """`offsets` has what is committed; `unloaded` is True once this broker does not coordinate the group any more,
    `being_deleted` while tombstones for all of it are on their way.
    """

    def __init__(self, group: Group, offsets: GroupOffsets, partition: int, around: Surroundings) -> None:
        """partition: of `__consumer_offsets`."""
        self.group = group
        self.offsets = offsets
        self.partition = partition
        self._forgotten = False
        self.being_deleted = False
        self._around = around
        self._waiters: dict[int, Waiter] = {}
        self._timer: Timer | None = None
        self._armed_ms = 0.0
        self._arm()

    @property
    def unloaded(self) -> bool:
        """Nothing that is still under way changes the group."""
        return self._forgotten or self._around.over

    @property
    def group_id(self) -> str:
        return self.group.group_id

    # -- membership ------------------------------------------------------------------------------------------------

    def join(self, waiter: Waiter, request: JoinGroup) -> None:
        """The waiter's reply comes when the group has come together."""
        self._expect(waiter)
        self._carry_out(self.group.join(waiter, request, self._now_ms()))

    def sync(self, waiter: Waiter, request: SyncGroup) -> None:
        """The waiter's reply comes when the leader's assignment is stored."""
        self._expect(waiter)
        self._carry_out(self.group.sync(waiter, request, self._now_ms()))

    def heartbeat(self, waiter: Waiter, request: Heartbeat) -> None:
        """Replies at once. Moves deadlines further away only, so the timer stays as it is."""
        self._expect(waiter)
        self._carry_out(self.group.heartbeat(waiter, request, self._now_ms()), arm=False)

    def leave(self, waiter: Waiter, request: LeaveGroup) -> None:
        """Replies at once."""
        self._expect(waiter)
        self._carry_out(self.group.leave(waiter, request, self._now_ms()))

    def _now_ms(self) -> float:
        return self._around.fence.serving_ms()

    def _expect(self, waiter: Waiter) -> None:
        self._waiters[id(waiter)] = waiter

    def _carry_out(self, effects: Iterable[Effect], *, arm: bool = True) -> None:
        for effect in effects:
            match effect:
                case Reply(waiter, result):
                    self._waiters.pop(id(waiter)).reply(result)
                case Store():
                    self._store(effect)
        if arm:
            self._arm()

    def _store(self, store: Store) -> None:
        record = records.group_record(store.snapshot)

        def done(error: ErrorCode, _: Offset) -> None:
            if not self.unloaded:
                if error is not ErrorCode.NONE:
                    logger.warning(
                        "group %r: generation %d is not stored: %s",
                        self.group_id,
                        store.snapshot.generation,
                        error.name,
                    )
                self._carry_out(self.group.stored(store.token, store_error(error), self._now_ms()))

        self._around.appends.add(self.partition, [record], done)

    def _arm(self) -> None:
        due_ms = None if self.unloaded else self.group.next_deadline_ms
        if due_ms is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        if self._timer is not None:
            if self._armed_ms <= due_ms:
                return
            self._timer.cancel()
        self._armed_ms = due_ms
        self._timer = self._around.loop.call_later(max(0.0, due_ms - self._now_ms()), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self.unloaded:
            return
        if self._around.fence.fenced_now():
            self._timer = self._around.loop.call_later(_FENCE_CHECK_MS, self._on_time)
            return
        self._carry_out(self.group.on_time(self._now_ms()))

    # -- offsets ---------------------------------------------------------------------------------------------------

    def check_commit(
        self, member_id: str, generation: int, group_instance_id: str | None, *, transactional: bool = False
    ) -> ErrorCode:
        """Whether this member may commit offsets; if so, it counts as a heartbeat."""
        if transactional:
            return self.group.check_transactional_commit(member_id, generation, group_instance_id)
        return self.group.check_commit(member_id, generation, group_instance_id, self._now_ms())

    @property
    def topics_in_use(self) -> Collection[str] | None:
        """Topics whose offsets may not be deleted, as members subscribe to them; None: no offset may be."""
        if self.group.is_empty:
            return ()
        return self.group.subscribed_topics if self.group.is_consumer_group else None

    def commit(self, offsets: Mapping[Partition, CommittedOffset], done: Callable[[ErrorCode], None]) -> None:
        """Store offsets (at least one) that were checked; `done` gets NONE once they are committed."""
        self.offsets.begin(offsets)

        def appended(error: ErrorCode, position: Offset) -> None:
            if not self.unloaded:
                if error is ErrorCode.NONE:
                    self.offsets.commit(offsets, position)
                else:
                    self.offsets.abandon(offsets, in_doubt=error in _IN_THE_LOG)
            done(self._told(error))

        self._around.appends.add(self.partition, self._records(offsets), appended)

    def commit_transactional(
        self,
        producer: TransactionalProducer,
        offsets: Mapping[Partition, CommittedOffset],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """As `commit`, for offsets that count once the producer's transaction is committed."""
        self.offsets.begin_transactional(producer.producer_id, offsets)

        def appended(error: ErrorCode, position: Offset) -> None:
            if not self.unloaded:
                if error is ErrorCode.NONE:
                    self.offsets.commit_transactional(producer.producer_id, offsets, position)
                else:
                    in_doubt = error in _IN_THE_LOG
                    self.offsets.abandon_transactional(producer.producer_id, offsets, in_doubt=in_doubt)
            done(self._told(error))

        self._around.appends.add_transactional(self.partition, self._records(offsets), producer, appended)

    def _told(self, error: ErrorCode) -> ErrorCode:
        """What a client hears of an append. Where the leadership has ended since, and begun anew in the same turn, the
        record may lie behind all that was loaded: nobody here knows of it, so it is not acknowledged.
        """
        return ErrorCode.NOT_COORDINATOR if self._around.over else commit_error(error)

    def _records(self, offsets: Mapping[Partition, CommittedOffset]) -> list[NewRecord]:
        return [records.offset_record(self.group_id, partition, value) for partition, value in offsets.items()]

    def remove_offsets(
        self, partitions: Collection[Partition], *, and_group: bool, done: Callable[[ErrorCode], None]
    ) -> None:
        """Put tombstones in the log for these offsets, and for the group itself; `done` gets NONE once they are
        committed. Nothing is appended where there is nothing to remove. Offsets whose tombstones are in the log and not
        confirmed are gone as well: they would be after the next load, when whoever had been given one relies on it.
        """
        tombstones = [records.offset_tombstone(self.group_id, partition) for partition in partitions]
        if and_group:
            tombstones.append(records.group_tombstone(self.group_id))
        if not tombstones:
            done(ErrorCode.NONE)
            return

        batches = self._around.appends.in_batches(self.partition, tombstones)
        errors: list[ErrorCode] = []

        def appended(of: Sequence[Partition], error: ErrorCode, _: Offset) -> None:
            errors.append(error)
            if error in _IN_THE_LOG:
                self.offsets.remove(of, in_doubt=error is not ErrorCode.NONE)
            if len(errors) == len(batches):
                done(self._told(next((error for error in errors if error is not ErrorCode.NONE), ErrorCode.NONE)))

        left = iter(partitions)
        for batch in batches:
            self._around.appends.add(self.partition, batch, partial(appended, list(islice(left, len(batch)))))

    # -- the end ---------------------------------------------------------------------------------------------------

    def unload(self, error: ErrorCode) -> None:
        """This broker coordinates the group no more: whoever waits gets the error."""
        self._forgotten = True
        self._arm()
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.fail(error)

    @property
    def removable(self) -> bool:
        """Without members and offsets, and no offsets on their way."""
        return self.group.is_empty and self.offsets.empty
