"""UpdateMetadata, Metadata and DescribeCluster, served from the metadata cache. Loop thread.

A Metadata response is encoded once per version, set of topics and flags, and kept until the cache changes, for clients
repeat their requests; of many large ones only the last are kept. Unknown topics are created where both the broker and
the client allow it; the response then says LEADER_NOT_AVAILABLE, upon which every client sends its request again.
Before the first UpdateMetadata there is nothing to respond with, and an empty list of brokers makes librdkafka look
away for many seconds, so the response waits. From v10 on a response has the topic's id. By it Java clients recognise a
topic that was deleted and created anew: its leader epochs begin again below those that they remember, and leaders of
older epochs they pass over (KAFKA-12257).
Source: KafkaApis.handleTopicMetadataRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from broker.core.admin import topic_names
from broker.model.ids import BrokerId
from broker.runtime.metadata.cache import KnownTopic, MetadataCache
from broker.runtime.metadata.former_leaders import FormerLeaders
from broker.runtime.ports import Loop
from broker.runtime.requests import authorized_operations
from broker.runtime.requests.condition_waits import Waits
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.leader_doubts import LeaderDoubts
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from broker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

_CACHED_RESPONSES_MAX = 256
_CACHED_BYTES_MAX = 16 << 20
_FIRST_UPDATE_WAIT_MS = 10_000.0
_NO_LEADER = -1
_ALL_TOPICS_IS_NULL_FROM = 1
_IDS_FROM = 10
_BY_ID_FROM = 12
_BROKERS, _CONTROLLERS = 1, 2
"""Types of endpoints in DescribeCluster."""

CreateTopic = Callable[[str], ErrorCode]
"""Begin to create a topic with the broker's defaults; the error for the client, NONE where it began."""


class _Query(NamedTuple):
    """All that a response depends on beside the cache. names: of topics, None for all; the flags: whether it names the
    operations that the client may do on cluster and topics.
    """

    version: int
    names: tuple[str, ...] | None
    cluster_operations: bool
    topic_operations: bool


class MetadataHandlers:
    """See the module."""

    def __init__(
        self,
        cache: MetadataCache,
        create_topic: CreateTopic | None,
        loop: Loop,
        leader_doubts: LeaderDoubts | None = None,
        gone: Callable[[], frozenset[BrokerId]] = frozenset,
    ) -> None:
        """create_topic: None where auto.create.topics.enable is false. gone: brokers whose process has ended by what
        this one sees, though they are registered yet.
        """
        self._leader_doubts = leader_doubts or LeaderDoubts(loop, None)
        self._gone = gone
        self._cache = cache
        self._waits = Waits(loop)
        cache.add_listener(self._waits.check)
        self._create_topic = create_topic
        self._former_leaders = FormerLeaders(loop)
        cache.add_leader_listener(self._former_leaders.note)
        self._cached: dict[tuple[_Query, frozenset[BrokerId]], bytes] = {}
        self._cached_of = -1
        self._cached_bytes = 0

    def handle_update_metadata(self, request: Request) -> None:
        """Apply it to the cache; STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH where it is late."""
        body = decode_or_refuse(request, UpdateMetadataRequest)
        if body is None:
            return
        respond(request, UpdateMetadataResponse(self._cache.update(body)).encode(request.api_version))

    def handle_metadata(self, request: Request) -> None:
        """Brokers, controller and the requested topics; waits for the first UpdateMetadata."""
        body = decode_or_refuse(request, MetadataRequest)
        if body is None:
            return
        self._after_first_update(
            lambda: self._leader_doubts.after(
                lambda brokers: self._leads_asked(body, brokers), lambda: self._respond_metadata(request, body)
            )
        )

    def _leads_asked(self, body: MetadataRequest, brokers: Collection[BrokerId]) -> bool:
        """Whether one of the brokers leads a partition that the request asks about."""
        cache = self._cache
        if not body.topics:
            asked: Iterable[KnownTopic | None] = cache.topics.values()
        else:
            names = (topic.name or cache.name_of(topic.topic_id) or "" for topic in body.topics)
            asked = (cache.topics.get(name) for name in names)
        return any(
            state.leader in brokers for topic in asked if topic is not None for state in topic.partitions.values()
        )

    def _after_first_update(self, then: Callable[[], None]) -> None:
        self._waits.until(lambda: self._cache.live_brokers() is not None, _FIRST_UPDATE_WAIT_MS, then, then)

    def _respond_metadata(self, request: Request, body: MetadataRequest) -> None:
        version = request.api_version
        if version >= _IDS_FROM and body.topics is not None:
            ids = list(dict.fromkeys(topic.topic_id for topic in body.topics if topic.topic_id))
            unnamed = not ids and any(topic.name is None for topic in body.topics)
            if unnamed or (ids and version < _BY_ID_FROM):
                respond(request, _refusal(body.topics).encode(version))
                return
            if ids:
                self._respond_by_ids(request, body, ids)
                return
        wanted = None if body.topics is None else tuple(dict.fromkeys(topic.name or "" for topic in body.topics))
        if version < _ALL_TOPICS_IS_NULL_FROM and not wanted:
            wanted = None
        unknown = [name for name in wanted or () if name not in self._cache.topics]
        if unknown:
            response = self._response(_query(version, wanted, body))
            errors = {name: self._unknown(name, body.allow_auto_topic_creation) for name in unknown}
            for topic in response.topics:
                topic.error_code = errors.get(topic.name or "", topic.error_code)
            respond(request, response.encode(version))
            return
        respond(request, self._encoded(_query(version, wanted, body)))

    def _respond_by_ids(self, request: Request, body: MetadataRequest, ids: list[str]) -> None:
        """Topics by id; where one is given Kafka passes over those that are named, and creates none."""
        names = {topic_id: self._cache.name_of(topic_id) for topic_id in ids}
        known = tuple(name for name in names.values() if name is not None)
        query = _query(request.api_version, known, body)
        if len(known) == len(ids):
            respond(request, self._encoded(query))
            return
        response = self._response(query)
        response.topics[:0] = [
            MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
            for topic_id, name in names.items()
            if name is None
        ]
        respond(request, response.encode(request.api_version))

    def _encoded(self, query: _Query) -> bytes:
        """The response about topics that are all known; the one encoded before, where nothing has changed since."""
        if self._cached_of != self._cache.generation:
            self._forget_encoded()
            self._cached_of = self._cache.generation
        key = (query, self._hidden(query.names))
        encoded = self._cached.get(key)
        if encoded is None:
            encoded = self._response(query).encode(query.version)
            if len(self._cached) >= _CACHED_RESPONSES_MAX or self._cached_bytes + len(encoded) > _CACHED_BYTES_MAX:
                self._forget_encoded()
            self._cached[key] = encoded
            self._cached_bytes += len(encoded)
        return encoded

    def _forget_encoded(self) -> None:
        self._cached.clear()
        self._cached_bytes = 0

    def _unknown(self, name: str, may_create: bool) -> ErrorCode:
        if topic_names.refusal(name) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if not may_create or self._create_topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = self._create_topic(name)
        return ErrorCode.LEADER_NOT_AVAILABLE if error is ErrorCode.NONE else error

    def _response(self, query: _Query) -> MetadataResponse:
        cache = self._cache
        names = cache.topics if query.names is None else query.names
        topics = [self._topic(query.version, name, cache.topics.get(name)) for name in names]
        if query.topic_operations:
            for topic in topics:
                topic.topic_authorized_operations = authorized_operations.ON_TOPIC
        hidden = self._hidden(query.names)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(broker.id, address.host, address.port, broker.rack)
                for broker, address in cache.alive()
                if broker.id not in hidden
            ],
            cluster_id=cache.cluster_id,
            controller_id=cache.controller_id,
            topics=topics,
            cluster_authorized_operations=_on_cluster(query.cluster_operations),
        )

    def _hidden(self, names: Sequence[str] | None) -> frozenset[BrokerId]:
        """Brokers that clients need not try: they are gone, and in no office that a response about these topics (None:
        all) names or named a moment ago.

        Their registration stays until their session ends. franz-go turns to its coordinator for as long as it is told
        of that broker.
        """
        gone = self._gone() - {self._cache.controller_id}
        if not gone:
            return gone
        topics = self._cache.topics
        asked = topics.keys() if names is None else topics.keys() & names
        leaders = {state.leader for name in asked for state in topics[name].partitions.values()}
        return frozenset(broker for broker in gone - leaders if not self._former_leaders.led(broker, asked))

    def _topic(self, version: int, name: str, topic: KnownTopic | None) -> MetadataResponseTopic:
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(code, name, is_internal=name in topic_names.INTERNAL)
        return MetadataResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            is_internal=name in topic_names.INTERNAL,
            partitions=[self._partition(version, state) for _, state in sorted(topic.partitions.items())],
        )

    def _partition(self, version: int, state: UpdateMetadataPartitionState) -> MetadataResponsePartition:
        """A leader that is not alive is none; v0 has an error where a replica is not alive, later versions don't."""
        cache = self._cache
        replicas, isr = state.replicas, state.isr
        error, leader = ErrorCode.NONE, state.leader
        if version == 0:
            replicas = [broker for broker in state.replicas if cache.address(broker) is not None]
            isr = [broker for broker in state.isr if cache.address(broker) is not None]
            if len(replicas) < len(state.replicas) or len(isr) < len(state.isr):
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        if cache.address(leader) is None:
            error, leader = ErrorCode.LEADER_NOT_AVAILABLE, _NO_LEADER
        return MetadataResponsePartition(
            error_code=error,
            partition_index=state.partition_index,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=state.offline_replicas,
        )

    def handle_describe_cluster(self, request: Request) -> None:
        """Brokers, controller and cluster id; waits for the first UpdateMetadata."""
        body = decode_or_refuse(request, DescribeClusterRequest)
        if body is None:
            return
        self._after_first_update(lambda: self._respond_describe_cluster(request, body))

    def _respond_describe_cluster(self, request: Request, body: DescribeClusterRequest) -> None:
        cache = self._cache
        if body.endpoint_type != _BROKERS:
            respond(request, _endpoint_refusal(body.endpoint_type).encode(request.api_version))
            return
        response = DescribeClusterResponse(
            cluster_id=cache.cluster_id,
            controller_id=cache.controller_id,
            brokers=[
                DescribeClusterBroker(broker.id, address.host, address.port, broker.rack)
                for broker, address in cache.alive()
            ],
            cluster_authorized_operations=_on_cluster(body.include_cluster_authorized_operations),
        )
        respond(request, response.encode(request.api_version))


def _query(version: int, names: tuple[str, ...] | None, body: MetadataRequest) -> _Query:
    return _Query(version, names, body.include_cluster_authorized_operations, body.include_topic_authorized_operations)


def _on_cluster(requested: bool) -> int:
    return authorized_operations.ON_CLUSTER if requested else authorized_operations.NOT_REQUESTED


def _endpoint_refusal(endpoint_type: int) -> DescribeClusterResponse:
    """To a question about controllers that are no brokers (KIP-919), of which ZooKeeper's clusters have none."""
    if endpoint_type == _CONTROLLERS:
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=text)
    text = f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=text)


def _refusal(topics: list[MetadataRequestTopic]) -> MetadataResponse:
    """To a request without a name where there has to be one, or with an id where none may be.

    Without brokers, as MetadataRequest.getErrorResponse has it.
    """
    code = ErrorCode.INVALID_REQUEST
    return MetadataResponse(topics=[MetadataResponseTopic(code, topic.name or "", topic.topic_id) for topic in topics])
