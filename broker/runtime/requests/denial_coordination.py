"""`denial` for what coordinators of groups and transactions serve.

Source: as for `denial`; OffsetFetchRequest, AddPartitionsToTxnRequest, WriteTxnMarkersRequest (getErrorResponse).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import add_partitions_to_txn as apt
from broker.wire.messages import delete_groups as dg
from broker.wire.messages import describe_groups as dsg
from broker.wire.messages import describe_producers as dp
from broker.wire.messages import describe_transactions as dst
from broker.wire.messages import offset_commit as oc
from broker.wire.messages import offset_fetch as of
from broker.wire.messages import txn_offset_commit as toc
from broker.wire.messages import write_txn_markers as wtm
from broker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from broker.wire.messages.end_txn import EndTxnResponse
from broker.wire.messages.heartbeat import HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupResponse
from broker.wire.messages.list_groups import ListGroupsResponse
from broker.wire.messages.list_transactions import ListTransactionsResponse
from broker.wire.messages.offset_delete import OffsetDeleteResponse
from broker.wire.messages.sync_group import SyncGroupResponse
from broker.wire.schema import Message

_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_NO_OFFSET: Final = -1
_NO_EPOCH: Final = -1


def _offset_commit(version: int, body: memoryview) -> Message:
    return oc.OffsetCommitResponse(
        topics=[
            oc.OffsetCommitResponseTopic(
                t.name, [oc.OffsetCommitResponsePartition(p.partition_index, _GROUP) for p in t.partitions]
            )
            for t in oc.OffsetCommitRequest.decode(version, body).topics
        ]
    )


def _offset_fetch(version: int, body: memoryview) -> Message:
    """The error of the whole in v2-7, of each group from v8; v1 has places at partitions only."""
    request = of.OffsetFetchRequest.decode(version, body)
    if version >= 8:
        groups = [of.OffsetFetchResponseGroup(g.group_id, error_code=_GROUP) for g in request.groups]
        return of.OffsetFetchResponse(groups=groups)
    if version >= 2:
        return of.OffsetFetchResponse(error_code=_GROUP)
    return of.OffsetFetchResponse(
        topics=[
            of.OffsetFetchResponseTopic(
                t.name,
                [of.OffsetFetchResponsePartition(p, _NO_OFFSET, _NO_EPOCH, "", _GROUP) for p in t.partition_indexes],
            )
            for t in request.topics or ()
        ]
    )


def _describe_groups(version: int, body: memoryview) -> Message:
    groups = dsg.DescribeGroupsRequest.decode(version, body).groups
    return dsg.DescribeGroupsResponse(groups=[dsg.DescribedGroup(_GROUP, group) for group in groups])


def _delete_groups(version: int, body: memoryview) -> Message:
    groups = dg.DeleteGroupsRequest.decode(version, body).groups_names
    return dg.DeleteGroupsResponse(results=[dg.DeletableGroupResult(group, _GROUP) for group in groups])


def _add_partitions_to_txn(version: int, body: memoryview) -> Message:
    """Of a producer in v0-3, of another broker from v4: that one needs to be of the cluster."""
    if version >= 4:
        return apt.AddPartitionsToTxnResponse(error_code=_CLUSTER)
    return apt.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            apt.AddPartitionsToTxnTopicResult(
                t.name, [apt.AddPartitionsToTxnPartitionResult(p, _TRANSACTIONAL_ID) for p in t.partitions]
            )
            for t in apt.AddPartitionsToTxnRequest.decode(version, body).v3_and_below_topics
        ]
    )


def _write_txn_markers(version: int, body: memoryview) -> Message:
    return wtm.WriteTxnMarkersResponse(
        markers=[
            wtm.WritableTxnMarkerResult(
                marker.producer_id,
                [
                    wtm.WritableTxnMarkerTopicResult(
                        t.name, [wtm.WritableTxnMarkerPartitionResult(p, _CLUSTER) for p in t.partition_indexes]
                    )
                    for t in marker.topics
                ],
            )
            for marker in wtm.WriteTxnMarkersRequest.decode(version, body).markers
        ]
    )


def _txn_offset_commit(version: int, body: memoryview) -> Message:
    return toc.TxnOffsetCommitResponse(
        topics=[
            toc.TxnOffsetCommitResponseTopic(
                t.name,
                [toc.TxnOffsetCommitResponsePartition(p.partition_index, _TRANSACTIONAL_ID) for p in t.partitions],
            )
            for t in toc.TxnOffsetCommitRequest.decode(version, body).topics
        ]
    )


def _describe_producers(version: int, body: memoryview) -> Message:
    return dp.DescribeProducersResponse(
        topics=[
            dp.TopicResponse(t.name, [dp.PartitionResponse(p, _TOPIC) for p in t.partition_indexes])
            for t in dp.DescribeProducersRequest.decode(version, body).topics
        ]
    )


def _describe_transactions(version: int, body: memoryview) -> Message:
    asked = dst.DescribeTransactionsRequest.decode(version, body).transactional_ids
    return dst.DescribeTransactionsResponse(
        transaction_states=[dst.DescribedTransaction(_TRANSACTIONAL_ID, name) for name in asked]
    )


def _always(response: Message) -> Callable[[int, memoryview], Message]:
    """For responses with one error of the whole and nothing that the request names."""
    return lambda _version, _body: response


COORDINATION: Final[Mapping[ApiKey, Callable[[int, memoryview], Message]]] = {
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.JOIN_GROUP: _always(JoinGroupResponse(error_code=_GROUP)),
    ApiKey.HEARTBEAT: _always(HeartbeatResponse(error_code=_GROUP)),
    ApiKey.LEAVE_GROUP: _always(LeaveGroupResponse(error_code=_GROUP)),
    ApiKey.SYNC_GROUP: _always(SyncGroupResponse(error_code=_GROUP)),
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _always(ListGroupsResponse(error_code=_CLUSTER)),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _always(AddOffsetsToTxnResponse(error_code=_TRANSACTIONAL_ID)),
    ApiKey.END_TXN: _always(EndTxnResponse(error_code=_TRANSACTIONAL_ID)),
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _always(OffsetDeleteResponse(error_code=_GROUP)),
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _always(ListTransactionsResponse(error_code=_TRANSACTIONAL_ID)),
}
