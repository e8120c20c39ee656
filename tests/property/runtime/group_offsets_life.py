"""Commits, transactions, deletions and expiry of groups whose coordinator comes, goes and stalls, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from broker.core.coordination import OFFSETS_TOPIC
from broker.model.ids import TopicPartition
from broker.runtime.replicas.append import ACKS_ALL, AppendOrigin
from broker.runtime.replicas.replica import PendingAppend
from broker.runtime.replicas.transaction_gate import TransactionGate
from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from broker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from broker.wire.record_batch import read_header
from broker.wire.records import encode_batch
from tests.property.runtime.offsets_log import PlainLoad
from tests.support.group_world import (
    CHECK_MS,
    COMMIT_TIMEOUT_MS,
    PARTITIONS,
    RETENTION_MS,
    TOPIC,
    GroupWorld,
    answer,
    commit_error,
)
from tests.support.memory_node import FakeSlot
from tests.support.metadata_updates import partition, update

OK = ErrorCode.NONE
GROUPS = ("g", "h")
PRODUCERS = (7, 8)
_LATER: Final = 2**63

Key = tuple[str, int]
"""(group, partition)."""


class Questions:
    """The transactions' coordinator. Satisfies `replicas.ports.TransactionVerifier`: its answers may come late."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        on_result: Callable[[ErrorCode], None],
    ) -> None:
        life = self._life
        error = ErrorCode.CONCURRENT_TRANSACTIONS if producer_id in life.ending else OK
        if life.rng.random() < 0.5:
            on_result(error)
        else:
            life.world.loop.call_later(life.rng.choice((1, 100, 1000)), lambda: on_result(error))


class Life:
    """`may`: what each offset may be once everything is settled, None for none, and the number of the step after which
    it may be so.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = GroupWorld(verifier=self)
        verified = self.rng.random() < 0.7
        self.world.appender.verifies_transactions = verified
        self.gate = TransactionGate(self.world.replicas, self.world.loop, verified)
        self.gate.verifier = Questions(self)
        self.world.lead()
        self.leads = True
        self.next_offset = 0
        self.steps = 0
        self.may: dict[Key, dict[int | None, int]] = {
            (group, index): {None: 0} for group in GROUPS for index in range(PARTITIONS)
        }
        self.open: list[tuple[FakeSlot, Callable[[FakeSlot], None]]] = []
        """Requests that wait, and what their response means."""
        self.transactions: dict[int, dict[Key, int]] = {}
        """Offsets of open transactions, by producer id."""
        self.ending: set[int] = set()
        self.gone: list[int] = []
        """Steps at which the topic was deleted; offsets from before go with it unless the coordinator moves."""
        self.topic = 0
        self.there = True
        self.in_doubt = False
        """A commit was not replicated in time: it counts from the next load on."""
        self.log: list[str] = []

    # -- what clients do -----------------------------------------------------------------------------------------------

    def commit(self) -> None:
        key = self._key()
        offset = self._offset()
        topics = [OffsetCommitRequestTopic(TOPIC, [OffsetCommitRequestPartition(key[1], offset, -1, "")])]
        slot = self.world.send_unsettled(OffsetCommitRequest(key[0], topics=topics), 8)
        step = self._may_be(key, offset)

        def answered(slot: FakeSlot) -> None:
            error = commit_error(slot)
            self.log.append(f"commit {key} {offset}: {error.name}")
            if error is OK:
                self._counts_from(key, step)
            elif error is ErrorCode.REQUEST_TIMED_OUT:
                self.in_doubt = True
            elif error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                del self.may[key][offset]

        self._expect(slot, answered)

    def _may_be(self, key: Key, offset: int | None) -> int:
        self.steps += 1
        self.may[key][offset] = self.steps
        return self.steps

    def _counts_from(self, key: Key, step: int) -> None:
        """Nothing that came before counts any more."""
        self.may[key] = {offset: since for offset, since in self.may[key].items() if since >= step}

    def transactional_commit(self) -> None:
        key = self._key()
        producer = self.rng.choice(PRODUCERS)
        offset = self._offset()
        topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(key[1], offset, -1, "")])]
        slot = self.world.send_unsettled(TxnOffsetCommitRequest("tx", key[0], producer, 0, topics=topics), 3)
        self._may_be(key, offset)
        self.may[key][offset] = _LATER  # it is not in the log yet

        def answered(slot: FakeSlot) -> None:
            self._may_be(key, offset)
            error = ErrorCode(answer(slot, 3, TxnOffsetCommitResponse).topics[0].partitions[0].error_code)
            self.in_doubt = self.in_doubt or error is ErrorCode.REQUEST_TIMED_OUT
            self.log.append(f"txn commit {producer} {key} {offset}: {error.name}")

        self._expect(slot, answered)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        then: Callable[[ErrorCode], None],
    ) -> None:
        """Satisfies `offset_handlers.TransactionVerifier`, as the broker's gate does."""
        self.gate.verify(transactional_id, producer_id, producer_epoch, partition, then)

    def end_transaction(self) -> None:
        producer = self.rng.choice(PRODUCERS)
        committed = self.rng.random() < 0.6
        if producer in self.ending:
            return
        self.ending.add(producer)
        self._write_marker(producer, committed)

    def _write_marker(self, producer: int, committed: bool) -> None:
        world = self.world
        batch = encode_batch(
            [marker(EndOfTransaction(committed, 0))],
            timestamps=1,
            producer_id=producer,
            producer_epoch=0,
            transactional=True,
            control=True,
        )

        def done(append: PendingAppend) -> None:
            self.log.append(f"marker {producer} {committed}: {append.error.name}")
            if append.error is OK:
                world.coordinator.end_transaction(0, producer, committed)
                self.ending.discard(producer)
            else:
                world.loop.call_later(100, lambda: self._write_marker(producer, committed))

        world.appender.append_records(
            (OFFSETS_TOPIC, 0),
            memoryview(bytearray(batch)),
            ACKS_ALL,
            AppendOrigin.COORDINATOR,
            done,
            COMMIT_TIMEOUT_MS,
            internal_topics=True,
        )

    def delete_group(self) -> None:
        group = self.rng.choice(GROUPS)
        slot = self.world.send_unsettled(DeleteGroupsRequest([group]), 2)
        keys = [(group, index) for index in range(PARTITIONS)]
        steps = {key: self._may_be(key, None) for key in keys}

        def answered(slot: FakeSlot) -> None:
            error = ErrorCode(answer(slot, 2, DeleteGroupsResponse).results[0].error_code)
            self.log.append(f"delete {group}: {error.name}")
            if error is OK:
                for key in keys:
                    self._counts_from(key, steps[key])

        self._expect(slot, answered)

    def delete_offset(self) -> None:
        key = self._key()
        topics = [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(key[1])])]
        slot = self.world.send_unsettled(OffsetDeleteRequest(key[0], topics), 0)

        step = self._may_be(key, None)

        def answered(slot: FakeSlot) -> None:
            response = answer(slot, 0, OffsetDeleteResponse)
            error = ErrorCode(response.error_code or response.topics[0].partitions[0].error_code)
            self.log.append(f"delete {key}: {error.name}")
            if error is OK:
                self._counts_from(key, step)

        self._expect(slot, answered)

    def delete_topic(self) -> None:
        if self.there:
            self.there = False
            states = [partition(-2, [1], index=index, epoch=9) for index in range(PARTITIONS)]
            self.world.cache.update(update({TOPIC: states}, topic_id=self._topic_id()))
            self.log.append("topic deleted")
            if self.leads:
                self.gone.append(self.steps + 1)
            for key in self.may:
                self._may_be(key, None)

    def make_topic(self) -> None:
        if not self.there:
            self.there = True
            self.topic += 1
            states = [partition(1, [1], index=index) for index in range(PARTITIONS)]
            self.world.cache.update(update({TOPIC: states}, topic_id=self._topic_id()))
            self.log.append("topic made")

    def _topic_id(self) -> str:
        return "AAECAwQFBgcICQoLDA0ODw" if not self.topic else f"{self.topic:0>21}A"

    def _key(self) -> Key:
        return self.rng.choice(GROUPS), self.rng.randrange(PARTITIONS)

    def _offset(self) -> int:
        self.next_offset += 1
        return self.next_offset

    def _expect(self, slot: FakeSlot, answered: Callable[[FakeSlot], None]) -> None:
        self.open.append((slot, answered))

    # -- what happens to the broker ------------------------------------------------------------------------------------

    def stall(self) -> None:
        self.log.append("stalls")
        self.world.committing = False

    def go_on(self) -> None:
        self.log.append("goes on")
        self.world.committing = True

    def fence(self) -> None:
        self.log.append("fenced")
        self.world.replicas.set_session_deadline_passed(self.rng.random() < 0.5)

    def resign(self) -> None:
        if self.leads:
            self.leads = False
            self.gone.clear()
            self.log.append("resigns")
            self.world.resign_unsettled()
            self.world.end_turn()
            log, replica = self.world.log, self.world.replica
            if self.rng.random() < 0.7:
                log.truncate_to(self.rng.randint(replica.high_watermark, log.log_end_offset))

    def lead(self) -> None:
        """Or go on to, in another epoch."""
        self.leads = True
        self.log.append("leads")
        self.world.lead(load=False)

    def turn(self) -> None:
        self.world.end_turn()
        self.world.loop.run_soon()
        self.look()

    def wait(self) -> None:
        self.world.advance(self.rng.choice((1, 50, 500, COMMIT_TIMEOUT_MS / 2)))
        self.look()

    def wait_long(self) -> None:
        self.log.append("long")
        self.world.advance(self.rng.choice((COMMIT_TIMEOUT_MS + 1, CHECK_MS)))
        self.look()

    def age(self) -> None:
        """Everything expires that may."""
        self.log.append("ages")
        for key in self.may:
            self._may_be(key, None)
        self.world.advance(RETENTION_MS + CHECK_MS)
        self.look()

    def look(self) -> None:
        still = []
        for slot, answered in self.open:
            if slot.response is not None:
                answered(slot)
            else:
                still.append((slot, answered))
        self.open = still

    # -- what has to hold ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        chances: list[tuple[Callable[[], None], int]] = [
            (self.commit, 30),
            (self.transactional_commit, 15),
            (self.end_transaction, 10),
            (self.delete_group, 4),
            (self.delete_offset, 5),
            (self.delete_topic, 3),
            (self.make_topic, 6),
            (self.stall, 5),
            (self.go_on, 8),
            (self.fence, 4),
            (self.resign, 4),
            (self.lead, 12),
            (self.turn, 40),
            (self.wait, 8),
            (self.wait_long, 2),
            (self.age, 1),
        ]
        action = self.rng.choices([one for one, _ in chances], [weight for _, weight in chances])[0]
        action()

    def check(self) -> None:
        """Once everything is settled: the coordinator knows what its log says, and nothing acknowledged is lost."""
        world = self.world
        self.make_topic()
        if not self.leads:
            self.lead()
        world.committing = True
        world.replicas.set_session_deadline_passed(False)
        world.advance(2000)
        while self.ending:
            world.advance(200)
        self.look()
        assert not self.open
        if self.in_doubt:
            self.in_doubt = False
            world.resign()
            world.lead()
        self._as_the_log_says()
        for step in self.gone:
            for key in self.may:
                self._counts_from(key, step)
        self.gone.clear()
        for (group, index), may in self.may.items():
            found = world.committed(index, group=group)[0]
            assert (None if found < 0 else found) in may, (group, index, found, may, self.log)

    def _as_the_log_says(self) -> None:
        plain = PlainLoad()
        for *_, batch in self.world.log.batches:
            plain.take(read_header(memoryview(batch)), memoryview(batch))
        for group in GROUPS:
            offsets = plain.offsets.get(group)
            for index in range(PARTITIONS):
                value = None if offsets is None else offsets.get((TOPIC, index))
                unstable = offsets is not None and offsets.is_unstable((TOPIC, index))
                expected = -1 if value is None else value.offset
                said = (group, index, self.log)
                assert self.world.committed(index, group=group)[0] == expected, said
                assert (
                    self.world.committed(index, group=group, stable=True)[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT
                ) == unstable, said
