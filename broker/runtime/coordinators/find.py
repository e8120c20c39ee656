"""FindCoordinator: which broker coordinates a group or a transactional id. Loop thread.

The coordinator is the leader of the key's partition of an internal topic. The first request creates the topic, with the
settings that the broker has for it, whether or not topics are created automatically otherwise; upon
COORDINATOR_NOT_AVAILABLE a client asks again.
Source: KafkaApis.getCoordinator, AutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.core.coordination import OFFSETS_TOPIC, TRANSACTION_TOPIC, partition_of
from broker.model.ids import BrokerId
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.leader_doubts import LeaderDoubts
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP: Final = 0
_TRANSACTION: Final = 1
_TOPICS: Final = {_GROUP: OFFSETS_TOPIC, _TRANSACTION: TRANSACTION_TOPIC}
_MANY_KEYS_FROM: Final = 4
_NOWHERE: Final = (-1, "", -1)

CreateTopic = Callable[[str], ErrorCode]
"""Begin to create an internal topic."""


class FindCoordinatorHandler:
    """See the module."""

    def __init__(self, cache: MetadataCache, create_topic: CreateTopic, leader_doubts: LeaderDoubts) -> None:
        self._cache = cache
        self._leader_doubts = leader_doubts
        self._create_topic = create_topic

    def handle(self, request: Request) -> None:
        """Respond with a broker for each key, or why there is none now."""
        body = decode_or_refuse(request, FindCoordinatorRequest)
        if body is None:
            return
        keys = body.coordinator_keys if request.api_version >= _MANY_KEYS_FROM else [body.key]
        self._leader_doubts.after(
            lambda brokers: any(self._leader(key, body.key_type) in brokers for key in keys),
            lambda: self._respond(request, body),
        )

    def _leader(self, key: str, key_type: int) -> BrokerId:
        """−1 where nobody leads the key's partition, or it is not known."""
        topic = _TOPICS.get(key_type, "")
        known = self._cache.topics.get(topic)
        return -1 if known is None else self._cache.leader_of(topic, partition_of(key, known.count))[0]

    def _respond(self, request: Request, body: FindCoordinatorRequest) -> None:
        version = request.api_version
        if version >= _MANY_KEYS_FROM:
            found = [self._coordinator(key, body.key_type) for key in body.coordinator_keys]
            respond(request, FindCoordinatorResponse(coordinators=found).encode(version))
            return
        one = self._coordinator(body.key, body.key_type)
        response = FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
        respond(request, response.encode(version))

    def _coordinator(self, key: str, key_type: int) -> Coordinator:
        topic = _TOPICS.get(key_type)
        if topic is None:
            text = (
                f"Coordinators of type {key_type} are not served: the type must be {_GROUP} (group) or {_TRANSACTION}"
                " (transaction)"
            )
            return Coordinator(key, *_NOWHERE, ErrorCode.INVALID_REQUEST, text)
        known = self._cache.topics.get(topic)
        if known is None:
            if self._cache.live_brokers() is not None:
                self._create_topic(topic)
            return Coordinator(key, *_NOWHERE, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        leader = self._leader(key, key_type)
        address = self._cache.address(leader)
        if address is None:
            return Coordinator(key, *_NOWHERE, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        return Coordinator(key, leader, address.host, address.port, ErrorCode.NONE, None)
