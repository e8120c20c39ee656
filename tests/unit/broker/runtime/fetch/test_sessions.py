"""How many fetch sessions a broker keeps, and whose gives way."""

from __future__ import annotations

import pytest

from broker.runtime.fetch.sessions import EVICTION_IDLE_MS, FetchSession, FetchSessions
from broker.wire.errors import ErrorCode
from broker.wire.messages.fetch import NO_SESSION_ID, FetchRequest

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


def test_idle_session_gives_way_and_its_client_hears_of_it() -> None:
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
