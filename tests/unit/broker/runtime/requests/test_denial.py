"""Every API in every version has a response for a request that its principal may not send."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import pytest

from broker.runtime.requests.context import RequestContext
from broker.runtime.requests.denial import deny
from broker.runtime.requests.request import Request
from broker.wire.api import SUPPORTED, ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages import add_partitions_to_txn as apt
from broker.wire.messages import alter_client_quotas as acq
from broker.wire.messages import alter_configs, describe_configs, fetch, produce
from broker.wire.messages import alter_partition_reassignments as apr
from broker.wire.messages import alter_replica_log_dirs as ald
from broker.wire.messages import alter_user_scram_credentials as asc
from broker.wire.messages import create_partitions as cp
from broker.wire.messages import create_topics as ct
from broker.wire.messages import delete_groups as dg
from broker.wire.messages import delete_records as dr
from broker.wire.messages import delete_topics as dt
from broker.wire.messages import describe_groups as dsg
from broker.wire.messages import describe_producers as dp
from broker.wire.messages import describe_transactions as dst
from broker.wire.messages import elect_leaders as el
from broker.wire.messages import find_coordinator as fc
from broker.wire.messages import incremental_alter_configs as iac
from broker.wire.messages import leader_and_isr as lai
from broker.wire.messages import list_offsets as lo
from broker.wire.messages import metadata as md
from broker.wire.messages import offset_commit as oc
from broker.wire.messages import offset_fetch as of
from broker.wire.messages import offset_for_leader_epoch as ofle
from broker.wire.messages import stop_replica as sr
from broker.wire.messages import txn_offset_commit as toc
from broker.wire.messages import write_txn_markers as wtm
from broker.wire.schema import Message
from tests.support.memory_node import FakeSlot

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABQ"
EACH = [
    (api, version)
    for api, versions in SUPPORTED.items()
    if api is not ApiKey.API_VERSIONS
    for version in range(versions.first, versions.last + 1)
]
_ERRORS = ("error_code", "error", "partition_error_code")
CLUSTER, TOPIC = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP, TRANSACTIONAL_ID = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _message(api: ApiKey, suffix: str) -> type[Message]:
    module = importlib.import_module(f"broker.wire.messages.{api.name.lower()}")
    made: type[Message] = next(
        value for name, value in vars(module).items() if name.endswith(suffix) and getattr(value, "API", None) is api
    )
    return made


def _request(api: ApiKey, version: int, acks: int = -1) -> bytes:
    """One that names topic `a`, partition 3, wherever a request of this API names any."""
    if api is ApiKey.PRODUCE:
        part = produce.ProducePartition("a", 3, memoryview(b"xyz"))
        return produce.encode_request(version, produce.ProduceRequest(None, acks, 1000, [part]))
    if api is ApiKey.FETCH:
        asked = fetch.FetchPartition("a", TOPIC_ID, 3)
        return bytes(fetch.encode_request(version, fetch.FetchRequest(partitions=[asked])))
    named: dict[ApiKey, Message] = {
        ApiKey.LIST_OFFSETS: lo.ListOffsetsRequest(-1, 0, [lo.ListOffsetsTopic("a", [lo.ListOffsetsPartition(3)])]),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: ofle.OffsetForLeaderEpochRequest(
            -2, [ofle.OffsetForLeaderTopic("a", [ofle.OffsetForLeaderPartition(3)])]
        ),
        ApiKey.METADATA: md.MetadataRequest([md.MetadataRequestTopic(name="a")]),
        ApiKey.DELETE_RECORDS: dr.DeleteRecordsRequest(
            [dr.DeleteRecordsTopic("a", [dr.DeleteRecordsPartition(3, 5)])], 100
        ),
        ApiKey.CREATE_TOPICS: ct.CreateTopicsRequest([ct.CreatableTopic("a", 1, 1)]),
        ApiKey.DELETE_TOPICS: dt.DeleteTopicsRequest(
            topics=[dt.DeleteTopicState("a"), dt.DeleteTopicState(topic_id=TOPIC_ID)] if version >= 6 else [],
            topic_names=["a"],
            timeout_ms=100,
        ),
        ApiKey.CREATE_PARTITIONS: cp.CreatePartitionsRequest([cp.CreatePartitionsTopic("a", 4, None)], 100),
        ApiKey.DESCRIBE_CONFIGS: describe_configs.DescribeConfigsRequest(
            [
                describe_configs.DescribeConfigsResource(2, "a", None),
                describe_configs.DescribeConfigsResource(4, "1", None),
            ]
        ),
        ApiKey.ALTER_CONFIGS: alter_configs.AlterConfigsRequest(
            [alter_configs.AlterConfigsResource(2, "a", []), alter_configs.AlterConfigsResource(4, "1", [])]
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: iac.IncrementalAlterConfigsRequest(
            [iac.IncrementallyAlteredResource(2, "a", []), iac.IncrementallyAlteredResource(4, "1", [])]
        ),
        ApiKey.ELECT_LEADERS: el.ElectLeadersRequest(0, [el.TopicPartitions("a", [3])]),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: apr.AlterPartitionReassignmentsRequest(
            1000, [apr.ReassignableTopic("a", [apr.ReassignablePartition(3, [1])])]
        ),
        ApiKey.LEADER_AND_ISR: lai.LeaderAndIsrRequest(
            topic_states=[lai.LeaderAndIsrTopicState("a", TOPIC_ID, [lai.LeaderAndIsrPartitionState(3)])]
        ),
        ApiKey.STOP_REPLICA: sr.StopReplicaRequest(
            topic_states=[sr.StopReplicaTopicState("a", [sr.StopReplicaPartitionState(3)], TOPIC_ID)]
        ),
        ApiKey.FIND_COORDINATOR: fc.FindCoordinatorRequest(
            key="g" if version < 4 else "", coordinator_keys=[] if version < 4 else ["g"]
        ),
        **_of_coordinators(version),
        ApiKey.ALTER_REPLICA_LOG_DIRS: ald.AlterReplicaLogDirsRequest(
            [ald.AlterReplicaLogDir("/d", [ald.AlterReplicaLogDirTopic("a", [3])])]
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: acq.AlterClientQuotasRequest(
            [acq.QuotaAlteration([acq.AlteredEntity("user", "u")], [])]
        ),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: asc.AlterUserScramCredentialsRequest(
            [asc.ScramCredentialDeletion("u", 1)]
        ),
    }
    return (named[api] if api in named else _message(api, "Request")()).encode(version)


def _of_coordinators(version: int) -> dict[ApiKey, Message]:
    topics = [apt.AddPartitionsToTxnTopic("a", [3])]
    several = apt.AddPartitionsToTxnRequest([apt.AddPartitionsToTxnTransaction("t", 1, 0, False, topics)])
    one = apt.AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics)
    asked = of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("g")])
    if version < 8:
        asked = of.OffsetFetchRequest("g", [of.OffsetFetchRequestTopic("a", [3])])
    return {
        ApiKey.OFFSET_COMMIT: oc.OffsetCommitRequest(
            "g", topics=[oc.OffsetCommitRequestTopic("a", [oc.OffsetCommitRequestPartition(3)])]
        ),
        ApiKey.OFFSET_FETCH: asked,
        ApiKey.DESCRIBE_GROUPS: dsg.DescribeGroupsRequest(["g"]),
        ApiKey.DELETE_GROUPS: dg.DeleteGroupsRequest(["g"]),
        ApiKey.ADD_PARTITIONS_TO_TXN: several if version >= 4 else one,
        ApiKey.WRITE_TXN_MARKERS: wtm.WriteTxnMarkersRequest(
            [wtm.WritableTxnMarker(1, 0, True, [wtm.WritableTxnMarkerTopic("a", [3])])]
        ),
        ApiKey.TXN_OFFSET_COMMIT: toc.TxnOffsetCommitRequest(
            "t", "g", topics=[toc.TxnOffsetCommitRequestTopic("a", [toc.TxnOffsetCommitRequestPartition(3)])]
        ),
        ApiKey.DESCRIBE_PRODUCERS: dp.DescribeProducersRequest([dp.TopicRequest("a", [3])]),
        ApiKey.DESCRIBE_TRANSACTIONS: dst.DescribeTransactionsRequest(["t"]),
    }


def _denied(api: ApiKey, version: int, body: bytes) -> FakeSlot:
    slot = FakeSlot()
    context = RequestContext("PLAINTEXT", "10.0.0.1:1")
    flexible = response_header_version(api, version) == 1
    deny(Request(api, version, 7, "client", memoryview(bytearray(body)), slot, flexible, context))
    return slot


def _response(api: ApiKey, version: int) -> Any:
    slot = _denied(api, version, _request(api, version))
    assert slot.response is not None
    data = memoryview(slot.response)[4 + response_header_version(api, version) :]
    if api is ApiKey.PRODUCE:
        return produce.decode_response(version, data)
    if api is ApiKey.FETCH:
        return fetch.decode_response(version, data)
    return _message(api, "Response").decode(version, data, exact=True)


def _errors(value: Any) -> set[int]:
    """All that the response says under a field named for an error, down to its last partition."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return {code for element in value for code in _errors(element)}
    names: Iterable[str] = getattr(value, "_fields", ()) or getattr(value, "__dataclass_fields__", ())
    found = {code for name in names for code in _errors(getattr(value, name))}
    return found | {getattr(value, name) for name in names if name in _ERRORS}


@pytest.mark.parametrize(("api", "version"), EACH, ids=lambda value: getattr(value, "name", str(value)))
def test_response_says_that_it_is_not_allowed_and_nothing_else(api: ApiKey, version: int) -> None:
    authorization = {CLUSTER, TOPIC, GROUP, TRANSACTIONAL_ID}
    # One of the response's two places for an error is not written: not in these versions, or not beside the other.
    one_place = api in (ApiKey.FIND_COORDINATOR, ApiKey.FETCH, ApiKey.OFFSET_FETCH, ApiKey.ADD_PARTITIONS_TO_TXN)
    unwritten = {0} if one_place or (api, version) == (ApiKey.ELECT_LEADERS, 0) else set()
    response = _response(api, version)
    said = _errors(response)
    if api is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        assert response.results == [], "clients know it by that"
        return
    assert said - unwritten
    assert said <= authorization | unwritten


def test_each_partition_named_gets_the_error() -> None:
    result = _response(ApiKey.PRODUCE, 9).results[0]
    assert (result.topic, result.partition, result.error, result.base_offset) == ("a", 3, TOPIC, -1)
    result = _response(ApiKey.FETCH, 12).results[0]
    assert (result.topic, result.partition, result.error, result.high_watermark) == ("a", 3, TOPIC, -1)
    assert _response(ApiKey.FETCH, 15).results[0].topic_id == TOPIC_ID
    topic = _response(ApiKey.LIST_OFFSETS, 7).topics[0]
    assert (topic.name, topic.partitions[0].partition_index, topic.partitions[0].offset) == ("a", 3, -1)
    topic = _response(ApiKey.LEADER_AND_ISR, 5).topics[0]
    assert (topic.topic_id, topic.partition_errors[0].partition_index) == (TOPIC_ID, 3)


def test_topic_that_is_to_be_deleted_by_id_is_not_named_to_whoever_may_not() -> None:
    said = [(one.name, one.topic_id, one.error_code) for one in _response(ApiKey.DELETE_TOPICS, 6).responses]
    assert said == [("a", "", TOPIC), (None, TOPIC_ID, TOPIC)]
    assert [(one.name, one.error_code) for one in _response(ApiKey.DELETE_TOPICS, 5).responses] == [("a", TOPIC)]


def test_what_coordinators_are_asked_about_is_named_in_the_response() -> None:
    partition = _response(ApiKey.OFFSET_FETCH, 1).topics[0].partitions[0]
    assert (partition.partition_index, partition.committed_offset, partition.error_code) == (3, -1, GROUP)
    assert [(g.group_id, g.error_code) for g in _response(ApiKey.OFFSET_FETCH, 8).groups] == [("g", GROUP)]
    assert _response(ApiKey.OFFSET_COMMIT, 8).topics[0].partitions[0].partition_index == 3
    marker = _response(ApiKey.WRITE_TXN_MARKERS, 1).markers[0]
    assert (marker.producer_id, marker.topics[0].partitions[0].error_code) == (1, CLUSTER)
    topic = _response(ApiKey.ADD_PARTITIONS_TO_TXN, 3).results_by_topic_v3_and_below[0]
    assert (topic.name, topic.results_by_partition[0].partition_error_code) == ("a", TRANSACTIONAL_ID)
    assert _response(ApiKey.ADD_PARTITIONS_TO_TXN, 4).error_code == CLUSTER
    assert _response(ApiKey.DESCRIBE_TRANSACTIONS, 0).transaction_states[0].transactional_id == "t"


def test_fetch_has_one_error_for_all_only_where_it_names_no_partition() -> None:
    """A consumer raises the errors of partitions; one for all is a failed session to it, and it fetches for ever."""
    response = _response(ApiKey.FETCH, 12)
    assert (response.error, response.results[0].error) == (0, TOPIC)
    of_a_session = bytes(fetch.encode_request(12, fetch.FetchRequest(session_id=5, session_epoch=3)))
    slot = _denied(ApiKey.FETCH, 12, of_a_session)
    assert slot.response is not None
    response = fetch.decode_response(12, memoryview(slot.response)[5:])
    assert (response.error, response.results) == (TOPIC, [])


def test_resource_gets_the_error_of_its_kind() -> None:
    assert [result.error_code for result in _response(ApiKey.DESCRIBE_CONFIGS, 4).results] == [TOPIC, CLUSTER]
    assert [result.error_code for result in _response(ApiKey.ALTER_CONFIGS, 2).responses] == [TOPIC, CLUSTER]


def test_produce_without_acks_has_no_response_and_its_connection_is_closed() -> None:
    slot = _denied(ApiKey.PRODUCE, 9, _request(ApiKey.PRODUCE, 9, acks=0))
    assert slot.response is None
    assert slot.closed == "User:ANONYMOUS may not produce, and acks=0 leaves no other way to say so"
