"""What a client does when its connection to ZooKeeper is lost again and again: few tries, longer pauses, jitter."""

from __future__ import annotations

import pytest
from kazoo.exceptions import BadVersionError, ConnectionLoss, SessionMovedError
from kazoo.protocol.states import ZnodeStat

from broker.core.controller.cluster_state import StoreUnavailable
from broker.zk import client as module
from broker.zk.client import WriteRefused, ZkClient
from broker.zk.operations import SetData

pytestmark = pytest.mark.guarantee("C9")


class Lost:
    """The answer of a server that is gone."""

    def get(self) -> object:
        raise ConnectionLoss

    def successful(self) -> bool:
        return False


class Closing:
    """Notes how long is waited, and does not wait."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.waited_s.append(seconds)
        return False


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> tuple[ZkClient, Closing]:
    client, closing = ZkClient("localhost:1", 10_000, 10_000), Closing()
    monkeypatch.setattr(client, "_closing", closing)
    monkeypatch.setattr(client._client, "get_async", lambda path, watch=None: Lost())
    monkeypatch.setattr(client, "_commit_async", lambda operations: Lost())
    return client, closing


@pytest.mark.parametrize("doing", ["reading", "writing"])
def test_lost_connections_are_tried_a_bounded_number_of_times_with_jitter(
    waits: tuple[ZkClient, Closing], monkeypatch: pytest.MonkeyPatch, doing: str
) -> None:
    client, closing = waits
    if doing == "writing":
        monkeypatch.setattr(client, "_read_back", lambda operations: None)
    rounds: list[list[float]] = []
    for _ in range(10):
        with pytest.raises(StoreUnavailable, match=rf"{doing} /x: the connection was lost {module._TRIES} times"):
            client.get("/x") if doing == "reading" else client.set("/x", b"", 3)
        rounds.append(list(closing.waited_s))
        closing.waited_s.clear()
    for waited in rounds:
        assert len(waited) == module._TRIES
        for attempt, seconds in enumerate(waited):
            whole = min(module._BACKOFF_MAX_S, module._BACKOFF_FIRST_S * 2**attempt)
            assert whole / 2 <= seconds <= whole
    assert len({waited[0] for waited in rounds}) > 5, "brokers that lost it together do not come back together"


class Answered(Lost):
    """A server's answer."""

    def __init__(self, results: list[object]) -> None:
        self._results = results

    def get(self) -> object:
        return self._results

    def successful(self) -> bool:
        return True


@pytest.mark.parametrize(("landed", "expected"), [(True, [4]), (False, "refused")])
def test_repeated_write_that_is_refused_may_have_met_its_own_first_attempt(
    waits: tuple[ZkClient, Closing], monkeypatch: pytest.MonkeyPatch, landed: bool, expected: object
) -> None:
    client, _ = waits
    # The server that is asked after the loss lags behind: it has neither value yet, then refuses the repeat.
    answers = iter([Lost(), Answered([BadVersionError()])])
    read_back = iter([None, [4] if landed else None])
    monkeypatch.setattr(client, "_commit_async", lambda operations: next(answers))
    monkeypatch.setattr(client, "_read_back", lambda operations: next(read_back))
    (result,) = client.multi_many([[SetData("/x", b"", 3)]])
    assert ("refused" if isinstance(result, WriteRefused) else result) == expected


def test_write_of_a_session_that_a_server_takes_for_anothers_is_repeated(
    waits: tuple[ZkClient, Closing], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, closing = waits
    answers = iter([Answered([SessionMovedError()]), Answered([ZnodeStat(1, 1, 0, 0, 4, 0, 0, 0, 0, 0, 1)])])
    monkeypatch.setattr(client, "_commit_async", lambda operations: next(answers))
    monkeypatch.setattr(client, "_read_back", lambda operations: None)
    assert client.set("/x", b"", 3) == 4
    assert len(closing.waited_s) == 1
