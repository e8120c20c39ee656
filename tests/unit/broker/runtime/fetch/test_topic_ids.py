"""Fetch by topic id, as Java clients do it; followers that read for the tool that verifies replicas."""

from __future__ import annotations

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from tests.support.client_fetch import answer_of, fetch_request, position_by_id
from tests.support.memory_cluster import MemoryCluster, values_of
from tests.support.memory_node import TOPIC_ID

NEWEST = 17
OTHER_ID = "C" * 21 + "A"


@pytest.mark.parametrize("version", [13, 14, 15, 16, 17])
def test_records_by_topic_id(cluster: MemoryCluster, version: int) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    slot = fetch_request(cluster, 1, version, max_wait_ms=0, partitions=[position_by_id(0)])
    (result,) = answer_of(slot, version).results
    assert (result.topic, result.topic_id, values_of(result)) == ("", TOPIC_ID, ["a"])


def test_id_that_no_topic_has(cluster: MemoryCluster) -> None:
    slot = fetch_request(cluster, 1, NEWEST, max_wait_ms=0, partitions=[position_by_id(0, OTHER_ID)])
    (result,) = answer_of(slot, NEWEST).results
    assert result.error == ErrorCode.UNKNOWN_TOPIC_ID


def test_consumer_at_a_follower_is_told_who_leads_and_where(cluster: MemoryCluster) -> None:
    for version in (15, 16):
        slot = fetch_request(cluster, 2, version, max_wait_ms=10_000, partitions=[position_by_id(0)])
        response = answer_of(slot, version)
        (result,) = response.results
        assert result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (result.current_leader_id, result.current_leader_epoch) == (1, 0)
        assert response.endpoints == ([fetch.NodeEndpoint(1, "host-1", 9092, None)] if version == 16 else ())


def test_sessions_by_id_and_by_name_are_not_mixed(cluster: MemoryCluster) -> None:
    first = answer_of(
        fetch_request(cluster, 1, NEWEST, max_wait_ms=0, session_epoch=0, partitions=[position_by_id(0)]), NEWEST
    )
    assert first.session_id
    mixed = fetch_request(cluster, 1, 12, max_wait_ms=0, session_id=first.session_id, session_epoch=1)
    assert answer_of(mixed).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    cluster.produce(1, "a")
    cluster.settle()
    again = fetch_request(cluster, 1, NEWEST, max_wait_ms=0, session_id=first.session_id, session_epoch=1)
    assert values_of(answer_of(again, NEWEST).results[0]) == ["a"]


def test_session_that_forgets_the_former_id_of_a_topic_later_is_still_woken(cluster: MemoryCluster) -> None:
    cluster.former_ids = {OTHER_ID}
    first = answer_of(
        fetch_request(cluster, 1, NEWEST, max_wait_ms=0, session_epoch=0, partitions=[position_by_id(0, OTHER_ID)]),
        NEWEST,
    )
    named = fetch_request(
        cluster, 1, NEWEST, max_wait_ms=0, session_id=first.session_id, session_epoch=1, partitions=[position_by_id(0)]
    )
    assert named.response is not None
    waiting = fetch_request(
        cluster,
        1,
        NEWEST,
        max_wait_ms=60_000,
        session_id=first.session_id,
        session_epoch=2,
        forgotten=[fetch.ForgottenPartition("", OTHER_ID, 0)],
    )
    assert waiting.response is None
    cluster.produce(1, "a")
    cluster.settle()
    assert values_of(answer_of(waiting, NEWEST).results[0]) == ["a"]


def debug(cluster: MemoryCluster, broker: int, offset: int, max_wait_ms: int = 0) -> fetch.FetchResponse | None:
    slot = fetch_request(
        cluster,
        broker,
        NEWEST,
        replica_id=fetch.DEBUGGING_CONSUMER_ID,
        max_wait_ms=max_wait_ms,
        partitions=[position_by_id(offset)],
    )
    cluster.settle()
    return None if slot.response is None else answer_of(slot, NEWEST)


def test_followers_read_for_the_verification_tool_up_to_their_own_watermark(cluster: MemoryCluster) -> None:
    cluster.produce(1, "a")
    cluster.settle()
    cluster.advance(1000)
    for broker in (1, 2, 3):
        response = debug(cluster, broker, 0)
        assert response is not None
        (result,) = response.results
        assert (result.error, result.high_watermark, values_of(result)) == (0, 1, ["a"])
    # A second record is on the followers, and none of them knows that it is committed.
    cluster.hold = lambda message: message.target != 1
    cluster.produce(1, "b")
    cluster.settle()
    response = debug(cluster, 2, 0)
    assert response is not None
    assert values_of(response.results[0]) == ["a"]


def test_fetch_that_waits_at_a_follower_is_woken_by_its_watermark(cluster: MemoryCluster) -> None:
    slot = fetch_request(
        cluster,
        2,
        NEWEST,
        replica_id=fetch.DEBUGGING_CONSUMER_ID,
        max_wait_ms=60_000,
        partitions=[position_by_id(0)],
    )
    cluster.settle()
    assert slot.response is None
    cluster.produce(1, "a")
    cluster.settle()
    cluster.advance(1000)
    assert values_of(answer_of(slot, NEWEST).results[0]) == ["a"]


def test_what_a_follower_has_not_is_left_to_the_leader(cluster: MemoryCluster) -> None:
    errors = {}
    for broker in (1, 2):
        response = debug(cluster, broker, 5)
        assert response is not None
        errors[broker] = response.results[0].error
    assert errors == {1: ErrorCode.OFFSET_OUT_OF_RANGE, 2: ErrorCode.NOT_LEADER_OR_FOLLOWER}
