"""What a coordinator does unasked, a slice a turn: abort what takes too long, forget ids that nobody uses.

Source: TransactionCoordinator.abortTimedOutTransactions, TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import takewhile

from broker.core.transaction.metadata import IllegalTransition, TransactionMetadata, Transit
from broker.core.transaction.upkeep import abort_if_late, expire_if_idle
from broker.model.ids import Offset
from broker.runtime.coordinators.appends import CoordinatorAppends
from broker.runtime.coordinators.slices import in_slices
from broker.runtime.ports import Loop
from broker.runtime.transaction.coordinator import TransactionCoordinator
from broker.runtime.transaction.state import TransactionPartition, record_of
from broker.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

Duty = Callable[[TransactionPartition, TransactionMetadata], None]


class TransactionHousekeeping:
    """The periodic duties; `start` begins them."""

    def __init__(
        self, coordinator: TransactionCoordinator, appends: CoordinatorAppends, loop: Loop, stopped: Callable[[], bool]
    ) -> None:
        """stopped: whether the broker shuts down."""
        self._coordinator = coordinator
        self._appends = appends
        self._loop = loop
        self._stopped = stopped

    def start(self) -> None:
        """Each duty from now on, an interval after it was done."""
        settings = self._coordinator.settings
        self._every(settings.abort_interval_ms, self._abort)
        self._every(settings.expiry_interval_ms, self._expire)

    def _every(self, interval_ms: float, duty: Duty) -> None:
        def begin() -> None:
            in_slices(self._loop, takewhile(lambda _: not self._stopped(), self._all()), look, again)

        def look(found: tuple[TransactionPartition, TransactionMetadata]) -> int:
            home, transaction = found
            if home.live and home.transactions.get(transaction.transactional_id) is transaction:
                try:
                    duty(home, transaction)
                except IllegalTransition:
                    # The others have time-outs too.
                    logger.exception("%r has been loaded in a state that cannot be", transaction)
            return 1

        def again() -> None:
            if not self._stopped():
                self._loop.call_later(interval_ms, begin)

        again()

    def _all(self) -> Iterator[tuple[TransactionPartition, TransactionMetadata]]:
        for _, home in self._coordinator.partitions.ready():
            for transaction in list(home.transactions.values()):
                yield home, transaction

    def _abort(self, home: TransactionPartition, transaction: TransactionMetadata) -> None:
        transit = abort_if_late(transaction, self._coordinator.wall_ms())
        if transit is None:
            return

        def done(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                logger.info("%r is aborted: its time-out of %d ms is over", transaction, transaction.timeout_ms)
            else:
                logger.warning("%r took too long and cannot be aborted now: %s", transaction, error.name)

        self._coordinator.store(home, transaction, transit, done)

    def _expire(self, home: TransactionPartition, transaction: TransactionMetadata) -> None:
        coordinator = self._coordinator
        transit = expire_if_idle(transaction, coordinator.wall_ms(), coordinator.settings.id_expiration_ms)
        if transit is not None:
            self._bury(home, transaction, transit)

    def _bury(self, home: TransactionPartition, transaction: TransactionMetadata, transit: Transit) -> None:
        def stored(error: ErrorCode, _: Offset) -> None:
            if not home.live:
                return
            if error is ErrorCode.NONE:
                del home.transactions[transaction.transactional_id]
                return
            logger.warning("%r cannot be forgotten now: %s", transaction, error.name)
            transaction.failed()

        self._appends.add(home.number, [record_of(transaction.transactional_id, transit)], stored)
