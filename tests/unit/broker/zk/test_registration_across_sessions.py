"""A broker whose session ends while it registers tries again under the next one: it never takes that for another's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint
from broker.zk import paths
from broker.zk.client import SessionExpired
from broker.zk.operations import Create, Node, Operation
from broker.zk.registration import BrokerIdInUse, Registration
from broker.zk.session_file import RecordedSession

pytestmark = pytest.mark.guarantee("C1")

BROKER = Broker(1, -1, (BrokerEndpoint("PLAINTEXT", "10.0.0.1", 9092, "PLAINTEXT"),))
TIMEOUT_MS = 6000.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Client:
    """One of which every write is held up: `on_write` is called before each."""

    hosts = "localhost:1"
    session_timeout_ms = TIMEOUT_MS

    def __init__(self, on_write: Callable[[], None]) -> None:
        self.session: int | None = 1
        self.owner = 1
        """Under which session writes are carried out; `session` is None while it is disconnected."""
        self.nodes: dict[str, Node] = {}
        self._on_write = on_write

    @property
    def session_id(self) -> int | None:
        return self.session

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        return None if self.session is None else (self.session, b"secret")

    def get(self, path: str) -> Node | None:
        return self.nodes.get(path)

    def ensure_path(self, path: str) -> None: ...

    def multi(self, operations: Sequence[Operation]) -> None:
        self._on_write()
        for operation in operations:
            assert isinstance(operation, Create)
            self.nodes[operation.path] = Node(operation.data, 0, 7, 7, self.owner if operation.ephemeral else 0)


class Record:
    def read(self) -> list[RecordedSession]:
        return []

    def write(self, sessions: list[RecordedSession]) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    monkeypatch.setattr(time, "sleep", made.sleep)
    return made


def _registration(client: Client) -> Registration:
    return Registration(client, BROKER, Record(), lambda: 0)  # type: ignore[arg-type]


def test_registration_held_up_past_its_own_session_is_repeated_and_not_refused(clock: Clock) -> None:
    def hold_up() -> None:
        clock.now_s += 3 * TIMEOUT_MS / 1000
        client.session = client.owner = 2

    client = Client(hold_up)
    with pytest.raises(SessionExpired):
        _registration(client).register()
    assert client.nodes[paths.broker_id(1)].owner == 2


def test_registration_in_a_session_that_is_disconnected_again_is_no_other_brokers(clock: Clock) -> None:
    def hold_up() -> None:
        clock.now_s += 3 * TIMEOUT_MS / 1000
        client.session, client.owner = None, 2

    client = Client(hold_up)
    slept = clock.sleep

    def reconnect(seconds: float) -> None:
        slept(seconds)
        client.session = 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", reconnect)
        with pytest.raises(SessionExpired):
            _registration(client).register()


def test_another_brokers_registration_is_refused_after_the_wait(clock: Clock) -> None:
    client = Client(lambda: None)
    client.owner = 9
    with pytest.raises(BrokerIdInUse):
        _registration(client).register()
    assert clock.now_s >= 100.0 + 1.5 * TIMEOUT_MS / 1000
