"""The transactions that this broker coordinates: requests become changes, changes become records, decisions markers.

A change counts once its record is committed in `__transaction_state`; then the request is answered. A decision's
markers are sent after that, and once all are written the completion is stored. Loop thread.
Source: kafka.coordinator.transaction.TransactionCoordinator, TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from broker.config.transactions import TransactionSettings
from broker.core.coordination import TRANSACTION_TOPIC, partition_of
from broker.core.transaction import requests
from broker.core.transaction.metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    IllegalTransition,
    TransactionMetadata,
    Transit,
)
from broker.core.transaction.producer_ids import Claimed, Needs, init_producer, valid_timeout
from broker.core.transaction.states import PREPARED
from broker.core.transaction.upkeep import finish_if_decided
from broker.model.ids import Offset, TopicPartition
from broker.runtime.coordinators.appends import CoordinatorAppends
from broker.runtime.coordinators.partitions import CoordinatorPartitions
from broker.runtime.coordinators.slices import in_slices
from broker.runtime.ports import Loop
from broker.runtime.replicas.ports import ProducerIdSource
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.transaction.following import FollowingTransactions
from broker.runtime.transaction.marker_sender import MarkerSender
from broker.runtime.transaction.ports import ClusterView
from broker.runtime.transaction.state import TransactionPartition, record_of
from broker.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

ID_BYTES_MAX: Final = 2**15 - 1
"""Of a transactional id: records have no room for a longer one."""
_RETRY_MS: Final = 100.0

Done = Callable[[ErrorCode], None]
InitDone = Callable[[ErrorCode, int, int], None]
"""done(error, producer id, epoch), −1 and −1 with an error."""

_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a failed append means to who asked for a change."""


class TransactionCoordinator:
    """`partitions` has to hear of role changes. `markers` is plugged in before the first of them."""

    markers: MarkerSender

    def __init__(
        self,
        settings: TransactionSettings,
        replicas: Replicas,
        cluster: ClusterView,
        appends: CoordinatorAppends,
        producer_ids: ProducerIdSource,
        loop: Loop,
        wall_ms: Callable[[], int],
    ) -> None:
        """wall_ms: ms since 1970. Time-outs are counted by it, as those of another coordinator may have to go on."""
        self.settings = settings
        self.partitions: CoordinatorPartitions[TransactionPartition] = CoordinatorPartitions(
            TRANSACTION_TOPIC, replicas, loop, lambda number, _: TransactionPartition(number, self._on_loaded)
        )
        self.wall_ms = wall_ms
        self._cluster = cluster
        self._appends = appends
        self._producer_ids = producer_ids
        self.loop = loop
        self._following = FollowingTransactions(loop)

    # -- who coordinates what --------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        """Of `__transaction_state`; −1 while that is not known here: it may have been made with other settings."""
        count = self._cluster.partition_count(TRANSACTION_TOPIC)
        return partition_of(transactional_id, count) if count else -1

    def find(self, transactional_id: str) -> TransactionPartition | ErrorCode:
        """Where the id is coordinated, or why not here."""
        if not transactional_id or len(transactional_id.encode("utf-8", "surrogatepass")) > ID_BYTES_MAX:
            return ErrorCode.INVALID_REQUEST
        return self.partitions.find(self.partition_of(transactional_id))

    def _on_loaded(self, home: TransactionPartition) -> None:
        decided = [transaction for transaction in home.transactions.values() if transaction.state in PREPARED]

        def finish(transaction: TransactionMetadata) -> int:
            if home.live and transaction.state in PREPARED:
                logger.info("%r: its markers are sent after loading", transaction)
                try:
                    self._finish(home, transaction)
                except IllegalTransition:
                    # The others are decided, too, and the partition has to count as loaded.
                    logger.exception("%r has been loaded in a state that cannot be", transaction)
            return 1 + len(transaction.partitions)

        in_slices(self.loop, iter(decided), finish, lambda: None)

    # -- requests --------------------------------------------------------------------------------------------------

    def init_producer(self, transactional_id: str, timeout_ms: int, claim: Claimed | None, done: InitDone) -> None:
        """A producer id and epoch; who had the transactional id before is fenced."""

        def fail(error: ErrorCode) -> None:
            done(error, NO_PRODUCER_ID, NO_EPOCH)

        home = self.find(transactional_id)
        if isinstance(home, ErrorCode) and home is ErrorCode.INVALID_REQUEST:
            fail(home)
        elif not valid_timeout(timeout_ms, self.settings.max_timeout_ms):
            fail(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        elif isinstance(home, ErrorCode):
            fail(home)
        elif transactional_id in home.transactions:
            self._init(home, home.transactions[transactional_id], timeout_ms, claim, None, done)
        else:
            self._with_fresh_id(home, transactional_id, timeout_ms, claim, done)

    def _with_fresh_id(
        self, home: TransactionPartition, transactional_id: str, timeout_ms: int, claim: Claimed | None, done: InitDone
    ) -> None:
        def on_id(producer_id: int) -> None:
            if not home.live:
                done(ErrorCode.NOT_COORDINATOR, NO_PRODUCER_ID, NO_EPOCH)
                return
            transaction = home.transactions.get(transactional_id)
            if transaction is None:
                transaction = TransactionMetadata(transactional_id, producer_id, NO_EPOCH, timeout_ms, self.wall_ms())
                home.transactions[transactional_id] = transaction
            self._init(home, transaction, timeout_ms, claim, producer_id, done)

        def on_failure(reason: str) -> None:
            logger.warning("no producer id: %s", reason)
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_PRODUCER_ID, NO_EPOCH)

        self._producer_ids.next_producer_id(on_id, on_failure)

    def _init(
        self,
        home: TransactionPartition,
        transaction: TransactionMetadata,
        timeout_ms: int,
        claim: Claimed | None,
        fresh_id: int | None,
        done: InitDone,
    ) -> None:
        found = init_producer(transaction, timeout_ms, claim, fresh_id, self.wall_ms())
        if isinstance(found, Needs):
            self._with_fresh_id(home, transaction.transactional_id, timeout_ms, claim, done)
            return
        if isinstance(found, ErrorCode):
            done(found, NO_PRODUCER_ID, NO_EPOCH)
            return
        transit = found

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE and transit.state in PREPARED:
                error = ErrorCode.CONCURRENT_TRANSACTIONS  # until the transaction that it fenced is aborted
            if error is ErrorCode.NONE:
                done(error, transit.producer_id, transit.epoch)
            else:
                done(error, NO_PRODUCER_ID, NO_EPOCH)

        self.store(home, transaction, transit, stored)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        done: Done,
    ) -> None:
        """The transaction writes to these, too. What begins the next one waits for the end of the last."""
        home = self.find(transactional_id)
        if isinstance(home, ErrorCode):
            done(home)
            return
        transaction = home.transactions.get(transactional_id)
        change = requests.add_partitions(transaction, producer_id, epoch, partitions, self.wall_ms())
        if transaction is not None and not isinstance(change, ErrorCode):
            self._note_seen(transaction, partitions)
        elif transaction is not None and change is ErrorCode.CONCURRENT_TRANSACTIONS and transaction.state in PREPARED:
            self._following.hold(home, transaction, partitions, done)
            return
        self._answer(home, transaction, change, done)

    def _note_seen(self, transaction: TransactionMetadata, partitions: Collection[TopicPartition]) -> None:
        transaction.seen.update(each for each in partitions if self._cluster.has_partition(*each))

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Of each, whether it is in the open transaction."""
        home = self.find(transactional_id)
        if isinstance(home, ErrorCode):
            return dict.fromkeys(partitions, home)
        return requests.verify_partitions(home.transactions.get(transactional_id), producer_id, epoch, partitions)

    def end(self, transactional_id: str, producer_id: int, epoch: int, commit: bool, done: Done) -> None:
        """Commit or abort: answered once the decision is stored; markers follow."""
        home = self.find(transactional_id)
        if isinstance(home, ErrorCode):
            done(home)
            return
        transaction = home.transactions.get(transactional_id)
        change = requests.end(transaction, producer_id, epoch, commit, self.wall_ms())
        if transaction is not None and change is ErrorCode.NONE:
            self._store_again(home, transaction, done)
        else:
            self._answer(home, transaction, change, done)

    def _store_again(self, home: TransactionPartition, transaction: TransactionMetadata, done: Done) -> None:
        """Confirm what the last record says, by another one: only a coordinator that nobody has deposed can store it.

        One that was deposed, and does not know it, takes the end of a transaction that its successor coordinates for a
        repeat of the end before.
        """

        def stored(error: ErrorCode, _: Offset) -> None:
            if not home.live:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            done(_ERRORS.get(error, error))

        self._appends.add(home.number, [record_of(transaction.transactional_id, transaction.as_stored())], stored)

    def _answer(
        self,
        home: TransactionPartition,
        transaction: TransactionMetadata | None,
        change: Transit | ErrorCode,
        done: Done,
    ) -> None:
        if isinstance(change, ErrorCode):
            done(change)
        else:
            assert transaction is not None
            self.store(home, transaction, change, done)

    # -- changes ---------------------------------------------------------------------------------------------------

    def store(self, home: TransactionPartition, transaction: TransactionMetadata, transit: Transit, done: Done) -> None:
        """Store a prepared change, and apply it then. A decision is carried out after `done`, even if that fails."""

        def stored(error: ErrorCode, _: Offset) -> None:
            if not home.live:
                done(ErrorCode.NOT_COORDINATOR)
                return
            if error is not ErrorCode.NONE:
                logger.info("%r cannot be stored: %s", transaction, error.name)
                transaction.failed()
                done(_ERRORS.get(error, error))
                return
            transaction.completed(transit)
            try:
                done(ErrorCode.NONE)
            finally:
                if transit.state in PREPARED:
                    self._finish(home, transaction)

        self._appends.add(home.number, [record_of(transaction.transactional_id, transit)], stored)

    def _finish(self, home: TransactionPartition, transaction: TransactionMetadata) -> None:
        """Carry out a decision that is stored."""
        transit = finish_if_decided(transaction, self.wall_ms())
        if transit is not None:
            self.markers.send(home, transaction, partial(self._complete, home, transaction, transit))

    def _complete(self, home: TransactionPartition, transaction: TransactionMetadata, completion: Transit) -> None:
        """Every partition has its marker: store that, again until it is stored.

        The next transaction, where it was asked for meanwhile, is stored in the same batch behind it: all or none.
        """
        if not home.live:
            return
        id_ = transaction.transactional_id
        records = [record_of(id_, completion)]
        following, beginning = self._following.take(transaction), None
        if following is not None:
            beginning = transaction.after_completion(completion, following.partitions, self.wall_ms())
            records.append(record_of(id_, beginning))

        def stored(error: ErrorCode, _: Offset) -> None:
            if not home.live:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif error is not ErrorCode.NONE:
                logger.info("the end of %r is stored again: %s", transaction, error.name)
                self.loop.call_later(_RETRY_MS, partial(self._complete, home, transaction, completion))
            elif following is None or beginning is None:
                transaction.completed(completion)
            else:
                transaction.completed_and_begun(completion, beginning)
                self._note_seen(transaction, following.partitions)
            if following is not None:
                following.done(_ERRORS.get(error, error))
            if error is ErrorCode.NONE:
                self._go_on(transaction)

        self._appends.add(home.number, records, stored)

    def _go_on(self, transaction: TransactionMetadata) -> None:
        """With what came while the completion was being stored."""
        late = self._following.take(transaction)
        if late is not None:
            producer = transaction.producer_id, transaction.epoch
            self.add_partitions(transaction.transactional_id, *producer, late.partitions, late.done)
