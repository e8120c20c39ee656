"""InitProducerId for producers without transactions; `runtime.transaction` takes the request, and the others itself.

Source: TransactionCoordinator.handleInitProducerId, RPCProducerIdManager; KIP-98, KIP-360.
"""

from __future__ import annotations

import logging

from broker.runtime.replicas.ports import ProducerIdSource
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.init_producer_id import InitProducerIdResponse

logger = logging.getLogger(__name__)


class ProducerIdHandler:
    """Every request gets a fresh id with epoch 0, as Kafka does without a transactional id."""

    def __init__(self, source: ProducerIdSource) -> None:
        self._source = source

    def respond_fresh(self, request: Request) -> None:
        """Respond with an id and epoch 0, perhaps after a block is claimed."""
        version = request.api_version

        def on_id(producer_id: int) -> None:
            respond(request, InitProducerIdResponse(0, 0, producer_id, 0).encode(version))

        def on_failure(reason: str) -> None:
            # ZooKeeper may be back soon, and upon this code clients send again. COORDINATOR_NOT_AVAILABLE sends a Java
            # producer to FindCoordinator, which is not served: fatal to it. REQUEST_TIMED_OUT is fatal to older ones.
            logger.warning("no producer id: %s", reason)
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            respond(request, InitProducerIdResponse(0, error, -1, -1).encode(version))

        self._source.next_producer_id(on_id, on_failure)
