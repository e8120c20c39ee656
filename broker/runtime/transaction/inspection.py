"""DescribeTransactions and ListTransactions: what operators look at to find a transaction that hangs (KIP-664).

Source: TransactionCoordinator.handleDescribeTransactions, handleListTransactions.
"""

from __future__ import annotations

from itertools import takewhile

from broker.core.transaction.listing import filter_of
from broker.core.transaction.metadata import TransactionMetadata
from broker.core.transaction.states import TransactionState
from broker.runtime.coordinators.slices import in_slices
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.runtime.transaction.coordinator import TransactionCoordinator
from broker.runtime.transaction.state import by_topic
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from broker.wire.messages.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from broker.wire.schema import Elements


class TransactionInspection:
    """Of what this broker coordinates."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    def handle_describe(self, request: Request) -> None:
        """Respond with each id's state and partitions."""
        body = decode_or_refuse(request, DescribeTransactionsRequest)
        if body is not None:
            found = [self._describe(transactional_id) for transactional_id in body.transactional_ids]
            respond(request, DescribeTransactionsResponse(0, found).encode(request.api_version))

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        home = self._coordinator.find(transactional_id)
        if isinstance(home, ErrorCode):
            return DescribedTransaction(home, transactional_id)
        transaction = home.transactions.get(transactional_id)
        if transaction is None or transaction.state is TransactionState.DEAD:
            return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        return DescribedTransaction(
            ErrorCode.NONE,
            transactional_id,
            transaction.state.kafkas_name,
            transaction.timeout_ms,
            transaction.start_ms,
            transaction.producer_id,
            transaction.epoch,
            [TopicData(*topic) for topic in by_topic(transaction.partitions).items()],
        )

    def handle_list(self, request: Request) -> None:
        """Respond with the ids that pass the request's filters; COORDINATOR_LOAD_IN_PROGRESS while some are unknown."""
        body = decode_or_refuse(request, ListTransactionsRequest)
        if body is None:
            return
        version = request.api_version
        partitions = self._coordinator.partitions
        if partitions.loading:
            response = ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            respond(request, response.encode(version))
            return
        wanted = filter_of(body.producer_id_filters, body.state_filters, body.duration_filter)
        now_ms = self._coordinator.wall_ms()
        found: Elements[ListedTransaction] = Elements(ListedTransaction, ApiKey.LIST_TRANSACTIONS, version)

        def look(transaction: TransactionMetadata) -> int:
            if wanted.takes(transaction, now_ms):
                state = transaction.state.kafkas_name
                found.add(ListedTransaction(transaction.transactional_id, transaction.producer_id, state))
            return 1

        def reply() -> None:
            response = ListTransactionsResponse(0, ErrorCode.NONE, list(wanted.unknown), found.as_list())
            respond(request, response.encode(version))

        every = (transaction for _, home in partitions.ready() for transaction in list(home.transactions.values()))
        in_slices(self._coordinator.loop, takewhile(lambda _: request.open, every), look, reply)
