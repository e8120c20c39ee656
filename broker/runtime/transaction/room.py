"""The parts of the transactions' room, put together."""

from __future__ import annotations

from collections.abc import Callable

from broker.config.settings import Settings
from broker.core.coordination import TRANSACTION_TOPIC
from broker.runtime.coordinators.appends import CoordinatorAppends
from broker.runtime.ports import Loop
from broker.runtime.produce.producer_ids import ProducerIdHandler
from broker.runtime.replicas.append import Appender
from broker.runtime.replicas.ports import ProducerIdSource
from broker.runtime.replicas.replicas import Replicas
from broker.runtime.requests.request import Request
from broker.runtime.transaction.coordinator import TransactionCoordinator
from broker.runtime.transaction.handlers import TransactionHandlers
from broker.runtime.transaction.housekeeping import TransactionHousekeeping
from broker.runtime.transaction.inspection import TransactionInspection
from broker.runtime.transaction.marker_sender import MarkerSender
from broker.runtime.transaction.markers import MarkerWriter
from broker.runtime.transaction.ports import ClusterView, Peers
from broker.runtime.transaction.verifier import CoordinatorVerifier
from broker.wire.api import ApiKey


class TransactionRoom:
    """`appends.flush` comes before the end of the replicas' turn; `coordinator.partitions` hears of role changes,
    `sender.on_metadata` of updates of the metadata; `verifier` goes into the replicas' gate.
    """

    def __init__(
        self,
        settings: Settings,
        replicas: Replicas,
        appender: Appender,
        cluster: ClusterView,
        peers: Peers,
        verifying_peers: Peers,
        producer_ids: ProducerIdSource,
        fresh_ids: ProducerIdHandler,
        loop: Loop,
        wall_ms: Callable[[], int],
    ) -> None:
        """verifying_peers: connections of their own, for responses to markers wait for replication."""
        timeout_ms = settings.request_timeout_ms
        broker_id = settings.broker_id
        self.appends = CoordinatorAppends(TRANSACTION_TOPIC, appender, replicas, loop, timeout_ms)
        self.coordinator = TransactionCoordinator(
            settings.transactions, replicas, cluster, self.appends, producer_ids, loop, wall_ms
        )
        self.writer = MarkerWriter(appender, timeout_ms)
        self.sender = MarkerSender(
            broker_id, cluster, peers, self.writer, loop, self.coordinator.partitions.epoch, timeout_ms
        )
        self.coordinator.markers = self.sender
        self.verifier = CoordinatorVerifier(broker_id, cluster, verifying_peers, self.coordinator, loop, timeout_ms)
        self.housekeeping = TransactionHousekeeping(self.coordinator, self.appends, loop, lambda: replicas.stopped)
        self._handlers = TransactionHandlers(
            self.coordinator, cluster, fresh_ids, settings.offsets_topic_num_partitions
        )
        self._inspection = TransactionInspection(self.coordinator)

    def handlers(self) -> dict[ApiKey, Callable[[Request], None]]:
        """What this room serves."""
        return {
            ApiKey.INIT_PRODUCER_ID: self._handlers.handle_init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._handlers.handle_add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self._handlers.handle_add_offsets,
            ApiKey.END_TXN: self._handlers.handle_end,
            ApiKey.WRITE_TXN_MARKERS: self.writer.handle,
            ApiKey.DESCRIBE_TRANSACTIONS: self._inspection.handle_describe,
            ApiKey.LIST_TRANSACTIONS: self._inspection.handle_list,
        }
