"""Before the first batch of a transaction: the transaction's coordinator has to confirm that the partition is in it.

Otherwise a batch that was late, after its transaction's end, would begin one that nobody knows of and nothing ends:
readers of committed records would stop there for ever (KAFKA-14402). What waits for the same producer in the same
partition goes on in the order in which it came, with one answer for all. An answer counts in the leadership in which
was asked: in a later one the log may be without a marker that came meanwhile.
Source: ReplicaManager.handleProduceAppend, maybeStartTransactionVerificationForPartitions; KIP-890.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from broker.core.producers.guards import Guard
from broker.core.replication.leader import Leader
from broker.model.ids import TopicPartition
from broker.runtime.ports import Loop
from broker.runtime.replicas.ports import TransactionVerifier
from broker.runtime.replicas.replica import Replica
from broker.runtime.replicas.replicas import Replicas
from broker.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

HELD_BYTES_MAX: Final = 128 << 20
"""Of batches that wait for coordinators' answers; what comes beyond that is to be sent again."""

_AS_ITS_CLIENTS_KNOW: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}
"""Errors of `admit` to clients of a coordinator."""

Then = Callable[[ErrorCode, memoryview | None], None]
"""then(error, records): the ones that came, or a copy of them, to be appended from within or in the same turn."""


class TransactionGate:
    """`verifier` is plugged in by who builds the transactions' room; without one nothing is confirmed."""

    def __init__(self, replicas: Replicas, loop: Loop, enabled: bool) -> None:
        self.verifier: TransactionVerifier | None = None
        self._replicas = replicas
        self._loop = loop
        self._enabled = enabled
        self._held: dict[tuple[Guard, int], list[tuple[memoryview | None, Then]]] = {}
        """What waits for the answer on a guard, by the guard and the epoch that is asked for."""
        self._held_bytes = 0

    def admit(
        self,
        partition: tuple[str, int],
        transactional_id: str,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        records: memoryview | None,
        then: Then,
    ) -> None:
        """Call `then` once, from within where nothing has to be asked.

        first_sequence: −1 for a coordinator's records. The error is the coordinator's, or NETWORK_EXCEPTION,
        COORDINATOR_NOT_AVAILABLE where none has answered; TRANSACTION_ABORTABLE where the partition is not in
        the transaction; NOT_LEADER_OR_FOLLOWER where this leadership is over when the answer comes.
        """
        replica = self._replicas.by_partition.get(partition)
        role = None if replica is None else replica.partition.role
        if not self._enabled or replica is None or not isinstance(role, Leader):
            then(ErrorCode.NONE, records)  # the append says why it is refused, if it is
            return
        guard = replica.log.producers.guard(producer_id, epoch, first_sequence, self._loop.now_ms())
        if guard is None:
            then(ErrorCode.NONE, records)
            return
        size = 0 if records is None else len(records)
        if self.verifier is None or self._held_bytes + size > HELD_BYTES_MAX:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE, records)
            return
        # What was received is another request's from the next turn on.
        kept = None if records is None else memoryview(bytearray(records))
        self._held_bytes += size
        asked = (guard, epoch)
        waiting = self._held.get(asked)
        if waiting is not None:
            waiting.append((kept, then))
            return
        held = self._held[asked] = [(kept, then)]

        def answered(error: ErrorCode) -> None:
            del self._held[asked]
            if error is ErrorCode.NONE:
                error = self._check(replica, role, producer_id, guard)
            if error is ErrorCode.NONE:
                guard.confirm(epoch, first_sequence)
            self._go_on(held, error)

        self.verifier.verify(transactional_id, producer_id, epoch, TopicPartition(*partition), answered)

    def _check(self, replica: Replica, role: Leader, producer_id: int, guard: Guard) -> ErrorCode:
        """Whether the coordinator's word still counts."""
        hosted = self._replicas.by_partition.get(replica.topic_partition)
        if hosted is not replica or replica.partition.role is not role:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not replica.log.producers.outlives(producer_id, guard):
            # The next transaction may have a guard that is confirmed, and what came for this one is none of it.
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def _go_on(self, held: list[tuple[memoryview | None, Then]], error: ErrorCode) -> None:
        for records, then in held:
            self._held_bytes -= 0 if records is None else len(records)
            try:
                then(error, records)
            except Exception:
                # Of this batch alone: those behind it would wait for ever, and so would what their answer came with.
                logger.exception("what waited for a transaction's coordinator failed")

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        then: Callable[[ErrorCode], None],
    ) -> None:
        """As `admit`, for records that a coordinator of this broker makes once `then` is called with NONE.

        Its clients ask again upon COORDINATOR_LOAD_IN_PROGRESS, where nobody answered, and upon NOT_COORDINATOR.
        """

        def admitted(error: ErrorCode, _: memoryview | None) -> None:
            then(_AS_ITS_CLIENTS_KNOW.get(error, error))

        self.admit(partition, transactional_id, producer_id, producer_epoch, -1, None, admitted)
