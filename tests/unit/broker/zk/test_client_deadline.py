"""The session's deadline moves by what the quorum carried out, and by nothing that one server can answer alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError, SessionExpiredError, SessionMovedError
from kazoo.protocol.states import KazooState, ZnodeStat

from broker.zk.client import ZkClient
from broker.zk.operations import Operation, SetData

pytestmark = pytest.mark.guarantee("C9")

TIMEOUT_MS = 6000
APART_MS = 1000
STAT = ZnodeStat(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)


@dataclass
class Answer:
    """What kazoo hands out for a request; None while it is under way."""

    value: object = None
    done: list[Callable[[Answer], None]] = field(default_factory=list)

    def get(self) -> object:
        assert self.value is not None, "it hangs"
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def successful(self) -> bool:
        return self.value is not None and not isinstance(self.value, Exception)

    def rawlink(self, callback: Callable[[Answer], None]) -> None:
        self.done.append(callback)
        if self.value is not None:
            callback(self)

    def come(self, value: object) -> None:
        self.value = value
        for callback in self.done:
            callback(self)


class Server:
    """A client of a ZooKeeper server whose answers the test gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 1000.0
        self.multis: list[Answer] = []
        self.answers_writes: object = None
        """None: they hang."""
        self.client = ZkClient("localhost:1", TIMEOUT_MS, 10_000)
        monkeypatch.setattr(self.client, "_now_ms", lambda: self.now_ms)
        monkeypatch.setattr(self.client, "_commit_async", self._commit)
        kazoo = self.client._client
        monkeypatch.setattr(kazoo, "get_async", lambda path, watch=None: Answer((b"", STAT)))
        monkeypatch.setattr(kazoo, "exists_async", lambda path, watch=None: Answer(NoNodeError()))
        monkeypatch.setattr(kazoo, "get_children_async", lambda path, watch=None: Answer(["a"]))
        monkeypatch.setattr(kazoo._connection, "_connect", self._joined)
        self.client._listen_to_negotiation()
        self.join(1)

    def _joined(self, session_id: int) -> tuple[float, float]:
        kazoo = self.client._client
        kazoo._session_id = session_id
        self.now_ms += 5
        kazoo._live.set()
        self.client._on_state(KazooState.CONNECTED)
        return TIMEOUT_MS * 2 / 3, TIMEOUT_MS

    def join(self, session_id: int) -> None:
        self.client._client._connection._connect(session_id)

    def _commit(self, operations: list[Operation]) -> Answer:
        self.multis.append(Answer(self.answers_writes))
        return self.multis[-1]

    @property
    def touched_ms(self) -> float:
        return self.client.session_deadline_ms - TIMEOUT_MS


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def test_deadline_counts_from_the_request_for_the_session(server: Server) -> None:
    assert server.touched_ms == 1000


def test_reads_move_nothing_while_what_needs_the_quorum_hangs(server: Server) -> None:
    for _ in range(10):
        server.now_ms += APART_MS
        server.client._prove()
        assert server.client.get("/x") is not None
        assert not server.client.exists("/x")
        assert server.client.children("/x") == ["a"]
        assert server.touched_ms == 1000
    # And once it is carried out after all, it counts from when it was sent.
    for multi in server.multis:
        multi.come([True])
    assert server.touched_ms == 1000 + 5 + 9 * APART_MS


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ([True], True),
        ([NoNodeError()], True),
        ([NoAuthError()], True),
        ([SessionExpiredError()], False),
        ([SessionMovedError()], False),
        (SessionExpiredError(), False),
    ],
)
def test_only_a_request_of_a_session_that_lives_counts(server: Server, answer: object, counts: bool) -> None:
    server.answers_writes = answer
    for _ in range(3):
        server.now_ms += APART_MS
        server.client._prove()
    assert (server.touched_ms > 1000) is counts


@pytest.mark.parametrize("answer", [[STAT], [BadVersionError()]])
def test_writes_count_also_when_they_are_refused(server: Server, answer: object) -> None:
    server.answers_writes = answer
    for _ in range(3):
        server.now_ms += APART_MS
        server.client.multi_many([[SetData("/x", b"", 3)]])
    assert server.touched_ms == 1005 + 2 * APART_MS


def test_response_of_the_session_before_says_nothing_of_the_new_one(server: Server) -> None:
    server.now_ms += 100
    for _ in range(2):
        server.client._prove()
        server.now_ms += APART_MS
    server.join(2)
    opened_ms = server.touched_ms
    assert opened_ms == 1105 + 2 * APART_MS
    for multi in server.multis:
        multi.come([True])
    assert server.touched_ms == opened_ms


def test_new_sessions_deadline_is_not_seen_before_the_listeners_were_notified(server: Server) -> None:
    seen: list[float] = []
    server.client.add_session_listener(lambda event: seen.append(server.touched_ms))
    server.now_ms += 500
    server.join(2)
    assert seen == [1000]
    assert server.touched_ms == 1505


@pytest.mark.parametrize(
    ("waits_ms", "rejoined_ms_ago", "silent"),
    [
        (2999, None, False),
        (3000, None, True),
        (3000, 2990, False),
        (9000, 3005, True),
    ],
)
def test_server_is_silent_when_it_lets_requests_wait(
    server: Server, waits_ms: float, rejoined_ms_ago: float | None, silent: bool
) -> None:
    server.client._prove()
    if rejoined_ms_ago is not None:
        server.now_ms += waits_ms - rejoined_ms_ago - 5
        server.join(1)
        server.now_ms += rejoined_ms_ago
    else:
        server.now_ms += waits_ms
    assert server.client._server_is_silent() is silent
    server.multis[0].come([True])
    assert not server.client._server_is_silent()
