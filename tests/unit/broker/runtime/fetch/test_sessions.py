"""Fetch sessions: what they leave out, what ends them, how many a broker keeps, and whose gives way."""

from __future__ import annotations

from typing import Any

import pytest

from broker.runtime.fetch.sessions import EVICTION_IDLE_MS, FetchSession, FetchSessions
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from broker.wire.messages.fetch import NO_SESSION_ID, FetchRequest
from tests.support.client_fetch import answer_of, fetch_request, position
from tests.support.memory_cluster import MemoryCluster, values_of
from tests.support.memory_node import TOPIC, TOPIC_ID

pytestmark = pytest.mark.guarantee("bounded-queues", "long-polls")


class Cache:
    """Two slots."""

    def __init__(self) -> None:
        self.closed: list[int] = []
        self.sessions = FetchSessions(2, lambda session: self.closed.append(session.session_id))

    def ask(self, replica: int = -1, now_ms: float = 0.0) -> FetchSession:
        """A full request, which wants a session."""
        opened = self.sessions.open(FetchRequest(replica_id=replica, session_epoch=0), False, now_ms)
        assert isinstance(opened, FetchSession)
        return opened


def test_consumer_beyond_the_slots_gets_no_session_while_the_others_are_in_use() -> None:
    cache = Cache()
    first, second = cache.ask(), cache.ask()
    third = cache.ask(now_ms=EVICTION_IDLE_MS)
    assert NO_SESSION_ID not in (first.session_id, second.session_id)
    assert third.session_id == NO_SESSION_ID
    assert (len(cache.sessions), cache.closed) == (2, [])


def test_idle_session_gives_way_and_its_client_learns_of_it() -> None:
    cache = Cache()
    first = cache.ask()
    cache.ask(now_ms=10.0)
    third = cache.ask(now_ms=EVICTION_IDLE_MS + 1)
    assert third.session_id != NO_SESSION_ID
    assert cache.closed == [first.session_id]
    again = FetchRequest(session_id=first.session_id, session_epoch=1)
    assert cache.sessions.open(again, False, EVICTION_IDLE_MS + 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_follower_pushes_a_busy_consumer_out_and_is_pushed_out_by_nobody() -> None:
    cache = Cache()
    consumer = cache.ask()
    follower = cache.ask(replica=2)
    assert cache.ask(replica=3).session_id != NO_SESSION_ID
    assert cache.closed == [consumer.session_id]
    assert cache.ask(now_ms=2 * EVICTION_IDLE_MS).session_id == NO_SESSION_ID
    assert cache.ask(replica=4, now_ms=2 * EVICTION_IDLE_MS).session_id == NO_SESSION_ID
    assert follower.session_id in {session.session_id for session in cache.sessions}


def test_follower_that_starts_over_leaves_no_session_behind() -> None:
    cache = Cache()
    for _ in range(5):
        cache.ask(replica=2)
    assert len(cache.sessions) == 1


def test_session_names_only_what_changed(cluster: MemoryCluster) -> None:
    first = answer_of(fetch_request(cluster, max_wait_ms=0, session_epoch=0, partitions=[position(0)]))
    assert first.session_id > 0
    assert len(first.results) == 1
    second = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=1))
    assert (second.error, second.results) == (0, [])
    cluster.produce(1, "a")
    cluster.settle()
    third = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=2))
    assert values_of(third.results[0]) == ["a"]
    fourth = answer_of(
        fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=3, partitions=[position(1)])
    )
    assert fourth.results == []


def test_session_learns_a_topic_that_its_leader_did_not_know() -> None:
    cluster = MemoryCluster(1, start=False)
    cluster.metadata_has_ids = False
    cluster.start(1, tell=False)

    def asked(**fields: Any) -> fetch.FetchResponse:
        slot = cluster.request(
            1, ApiKey.FETCH, 13, fetch.encode_request(13, fetch.FetchRequest(max_wait_ms=0, **fields))
        )
        assert slot.response is not None
        return fetch.decode_response(13, memoryview(slot.response)[5:])

    by_id = fetch.FetchPartition(topic_id=TOPIC_ID, partition=0, fetch_offset=0)
    first = asked(session_epoch=0, partitions=[by_id])
    assert [result.error for result in first.results] == [ErrorCode.UNKNOWN_TOPIC_ID]
    cluster.tell(1)
    cluster.settle()
    # A client names a partition again only where its own position has changed.
    second = asked(session_id=first.session_id, session_epoch=1)
    assert [result.error for result in second.results] == [0]
    cluster.produce(1, "a")
    cluster.settle()
    third = asked(session_id=first.session_id, session_epoch=2)
    assert values_of(third.results[0]) == ["a"]


def test_session_out_of_step_or_unknown_is_refused(cluster: MemoryCluster) -> None:
    first = answer_of(fetch_request(cluster, max_wait_ms=0, session_epoch=0, partitions=[position(0)]))
    wrong = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=5))
    assert wrong.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    other = first.session_id % 1000 + 1
    unknown = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=other, session_epoch=1))
    assert unknown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_forgets_partitions_and_ends(cluster: MemoryCluster) -> None:
    first = answer_of(fetch_request(cluster, max_wait_ms=0, session_epoch=0, partitions=[position(0)]))
    fetch_request(
        cluster,
        max_wait_ms=0,
        session_id=first.session_id,
        session_epoch=1,
        forgotten=[fetch.ForgottenPartition(TOPIC, "", 0)],
    )
    cluster.produce(1, "a")
    cluster.settle()
    third = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=2))
    assert third.results == []
    fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=-1)
    gone = answer_of(fetch_request(cluster, max_wait_ms=0, session_id=first.session_id, session_epoch=3))
    assert gone.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
