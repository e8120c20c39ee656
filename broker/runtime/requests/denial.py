"""The response to a request that its principal may not send: the API's own response with the API's own error.

Where a response has an error for each topic, partition or resource, each one that the request names gets it.
Source: getErrorResponse of each of Kafka's requests; the error codes as KafkaApis chooses them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker.core.admin.alter_configs import TOPIC as TOPIC_RESOURCE
from broker.runtime.requests.denial_administration import ADMINISTRATION
from broker.runtime.requests.denial_coordination import COORDINATION
from broker.runtime.requests.request import Request, refuse, respond
from broker.wire.api import ApiKey
from broker.wire.chunks import Chunk
from broker.wire.errors import ErrorCode
from broker.wire.messages import alter_configs as ac
from broker.wire.messages import alter_partition_reassignments as apr
from broker.wire.messages import create_partitions as cp
from broker.wire.messages import create_topics as ct
from broker.wire.messages import delete_records as dr
from broker.wire.messages import delete_topics as dt
from broker.wire.messages import describe_configs as dc
from broker.wire.messages import elect_leaders as el
from broker.wire.messages import fetch, produce
from broker.wire.messages import find_coordinator as fc
from broker.wire.messages import incremental_alter_configs as iac
from broker.wire.messages import leader_and_isr as lai
from broker.wire.messages import list_offsets as lo
from broker.wire.messages import metadata as md
from broker.wire.messages import offset_for_leader_epoch as ofle
from broker.wire.messages import stop_replica as sr
from broker.wire.messages.alter_partition import AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownResponse
from broker.wire.messages.describe_cluster import DescribeClusterResponse
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from broker.wire.messages.peer_evidence import PeerEvidenceResponse
from broker.wire.messages.replica_report import ReplicaReportResponse
from broker.wire.messages.update_metadata import UpdateMetadataResponse
from broker.wire.primitives import MalformedFrame
from broker.wire.schema import Message

Body = memoryview
_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_COORDINATOR_OF_TRANSACTION: Final = 1
_NO_NODE: Final = -1


def deny(request: Request) -> None:
    """Respond with the API's authorization error.

    A Produce request with acks=0 has no response: its connection is closed, as for every error of one. Malformed
    bytes close the connection too.
    """
    try:
        body = _RESPONSES[ApiKey(request.api_key)](request.api_version, request.body)
    except MalformedFrame as error:
        refuse(request, str(error))
        return
    if body is None:
        refuse(request, f"{request.principal} may not produce, and acks=0 leaves no other way to say so")
    else:
        respond(request, body.encode(request.api_version) if isinstance(body, Message) else body)


def _produce(version: int, body: Body) -> bytes | Sequence[Chunk] | None:
    decoded = produce.decode_request(version, body)
    if decoded.acks == 0:
        return None
    return produce.encode_response(
        version, [produce.ProducePartitionResult(p.topic, p.partition, _TOPIC) for p in decoded.partitions]
    )


def _fetch(version: int, body: Body) -> Sequence[Chunk]:
    """The error of the whole only where no partition is named: a consumer takes it for a session that failed.

    It opens another one then, naming all partitions, and raises what stands at these.
    """
    decoded = fetch.decode_request(version, body)
    results = [fetch.FetchPartitionResult(p.topic, p.topic_id, p.partition, _TOPIC) for p in decoded.partitions]
    return fetch.encode_response(version, results, error=ErrorCode.NONE if results else _TOPIC)


def _list_offsets(version: int, body: Body) -> Message:
    return lo.ListOffsetsResponse(
        topics=[
            lo.ListOffsetsTopicResponse(
                t.name, [lo.ListOffsetsPartitionResponse(p.partition_index, _TOPIC) for p in t.partitions]
            )
            for t in lo.ListOffsetsRequest.decode(version, body).topics
        ]
    )


def _offset_for_leader_epoch(version: int, body: Body) -> Message:
    return ofle.OffsetForLeaderEpochResponse(
        topics=[
            ofle.OffsetForLeaderTopicResult(t.topic, [ofle.EpochEndOffset(_TOPIC, p.partition) for p in t.partitions])
            for t in ofle.OffsetForLeaderEpochRequest.decode(version, body).topics
        ]
    )


def _metadata(version: int, body: Body) -> Message:
    """No topics and no brokers for a request of all topics: the response has no other place for an error."""
    topics = md.MetadataRequest.decode(version, body).topics or ()
    return md.MetadataResponse(topics=[md.MetadataResponseTopic(_TOPIC, t.name, t.topic_id) for t in topics])


def _delete_records(version: int, body: Body) -> Message:
    return dr.DeleteRecordsResponse(
        topics=[
            dr.DeleteRecordsTopicResult(
                t.name, [dr.DeleteRecordsPartitionResult(p.partition_index, -1, _TOPIC) for p in t.partitions]
            )
            for t in dr.DeleteRecordsRequest.decode(version, body).topics
        ]
    )


def _create_topics(version: int, body: Body) -> Message:
    topics = ct.CreateTopicsRequest.decode(version, body).topics
    return ct.CreateTopicsResponse(topics=[ct.CreatableTopicResult(name=t.name, error_code=_TOPIC) for t in topics])


def _delete_topics(version: int, body: Body) -> Message:
    """A topic that is asked for by its id gets no name: whoever may not ask for it is not told it.

    Otherwise than in Kafka, which says UNKNOWN_TOPIC_ID of an id that nobody has, also to who may do nothing, and
    refuses the whole first where it is no controller, deletes nothing, or finds names and ids together: here all is
    refused alike, and nobody learns which ids there are.
    """
    decoded = dt.DeleteTopicsRequest.decode(version, body)
    topics = [(t.name, t.topic_id) for t in decoded.topics] or [(name, "") for name in decoded.topic_names]
    return dt.DeleteTopicsResponse(responses=[dt.DeletableTopicResult(name, id_, _TOPIC) for name, id_ in topics])


def _create_partitions(version: int, body: Body) -> Message:
    topics = cp.CreatePartitionsRequest.decode(version, body).topics
    return cp.CreatePartitionsResponse(results=[cp.CreatePartitionsTopicResult(t.name, _TOPIC, None) for t in topics])


def _of_resource(resource_type: int) -> ErrorCode:
    return _TOPIC if resource_type == TOPIC_RESOURCE else _CLUSTER


def _describe_configs(version: int, body: Body) -> Message:
    return dc.DescribeConfigsResponse(
        results=[
            dc.DescribeConfigsResult(_of_resource(r.resource_type), None, r.resource_type, r.resource_name, [])
            for r in dc.DescribeConfigsRequest.decode(version, body).resources
        ]
    )


def _alter_configs(version: int, body: Body) -> Message:
    return ac.AlterConfigsResponse(
        responses=[
            ac.AlterConfigsResourceResponse(_of_resource(r.resource_type), None, r.resource_type, r.resource_name)
            for r in ac.AlterConfigsRequest.decode(version, body).resources
        ]
    )


def _incremental_alter_configs(version: int, body: Body) -> Message:
    return iac.IncrementalAlterConfigsResponse(
        responses=[
            iac.IncrementallyAlteredResult(_of_resource(r.resource_type), None, r.resource_type, r.resource_name)
            for r in iac.IncrementalAlterConfigsRequest.decode(version, body).resources
        ]
    )


def _find_coordinator(version: int, body: Body) -> Message:
    decoded = fc.FindCoordinatorRequest.decode(version, body)
    code = _TRANSACTIONAL_ID if decoded.key_type == _COORDINATOR_OF_TRANSACTION else _GROUP
    if version < 4:
        return fc.FindCoordinatorResponse(error_code=code, node_id=_NO_NODE, port=_NO_NODE)
    return fc.FindCoordinatorResponse(
        coordinators=[fc.Coordinator(key, _NO_NODE, "", _NO_NODE, code) for key in decoded.coordinator_keys]
    )


def _init_producer_id(version: int, body: Body) -> Message:
    transactional_id = InitProducerIdRequest.decode(version, body).transactional_id
    return InitProducerIdResponse(0, _CLUSTER if transactional_id is None else _TRANSACTIONAL_ID, -1, -1)


def _elect_leaders(version: int, body: Body) -> Message:
    if version == 0:  # without an error of the whole
        topics = el.ElectLeadersRequest.decode(version, body).topic_partitions or ()
        return el.ElectLeadersResponse(
            replica_election_results=[
                el.ReplicaElectionResult(t.topic, [el.PartitionResult(p, _CLUSTER, None) for p in t.partitions])
                for t in topics
            ]
        )
    return el.ElectLeadersResponse(error_code=_CLUSTER)


def _alter_partition_reassignments(version: int, body: Body) -> Message:
    return apr.AlterPartitionReassignmentsResponse(
        error_code=_CLUSTER,
        error_message=None,
        responses=[
            apr.ReassignableTopicResponse(
                t.name, [apr.ReassignablePartitionResponse(p.partition_index, _CLUSTER, None) for p in t.partitions]
            )
            for t in apr.AlterPartitionReassignmentsRequest.decode(version, body).topics
        ],
    )


def _leader_and_isr(version: int, body: Body) -> Message:
    states = lai.LeaderAndIsrRequest.decode(version, body).topic_states
    errors = [
        (
            t.topic_id,
            [
                lai.LeaderAndIsrPartitionError(t.topic_name if version < 5 else "", p.partition_index, _CLUSTER)
                for p in t.partition_states
            ],
        )
        for t in states
    ]
    if version < 5:
        return lai.LeaderAndIsrResponse(error_code=_CLUSTER, partition_errors=[e for _, part in errors for e in part])
    return lai.LeaderAndIsrResponse(
        error_code=_CLUSTER, topics=[lai.LeaderAndIsrTopicError(topic_id, part) for topic_id, part in errors]
    )


def _stop_replica(version: int, body: Body) -> Message:
    return sr.StopReplicaResponse(
        _CLUSTER,
        [
            sr.StopReplicaPartitionError(t.topic_name, p.partition_index, _CLUSTER)
            for t in sr.StopReplicaRequest.decode(version, body).topic_states
            for p in t.partition_states
        ],
    )


def _always(response: Message) -> Callable[[int, Body], Message]:
    """For responses with one error of the whole and nothing that the request names."""
    return lambda _version, _body: response


_RESPONSES: Final[dict[ApiKey, Callable[[int, Body], bytes | Message | Sequence[Chunk] | None]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.LEADER_AND_ISR: _leader_and_isr,
    ApiKey.STOP_REPLICA: _stop_replica,
    ApiKey.UPDATE_METADATA: _always(UpdateMetadataResponse(_CLUSTER)),
    ApiKey.CONTROLLED_SHUTDOWN: _always(ControlledShutdownResponse(_CLUSTER)),
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _always(ListPartitionReassignmentsResponse(0, _CLUSTER, None)),
    ApiKey.ALTER_PARTITION: _always(AlterPartitionResponse(0, _CLUSTER)),
    ApiKey.DESCRIBE_CLUSTER: _always(DescribeClusterResponse(error_code=_CLUSTER, error_message=None)),
    ApiKey.REPLICA_REPORT: _always(ReplicaReportResponse(_CLUSTER)),
    ApiKey.PEER_EVIDENCE: _always(PeerEvidenceResponse(_CLUSTER)),
    **COORDINATION,
    **ADMINISTRATION,
}
