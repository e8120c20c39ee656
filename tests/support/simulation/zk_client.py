"""A broker's ZooKeeper client without sockets: the real reads, writes and read-backs of `broker.zk.client`.

What stands in for kazoo keeps one session over a link that may be cut: calls made while it is disconnected wait, calls
under way fail with ConnectionLoss, a session that ended meanwhile is reported as lost and followed by another. As
kazoo, it forgets watches with their connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState, WatchedEvent

from broker.core.controller.cluster_state import StoreUnavailable
from broker.zk.client import ZkClient
from broker.zk.operations import CreateSequence, Operation
from broker.zk.session import SessionEvent
from tests.support.simulation.fibers import Future, Process, sleep_ms
from tests.support.simulation.network import Lane, Network
from tests.support.simulation.zookeeper import Session, Watch, ZooKeeper

HOST: Final = "zk"
_PINGS_PER_TIMEOUT: Final = 6
_RECONNECT_MS: Final = (50.0, 400.0)

Call = Callable[["Wire"], Any]
"""A request at the server; what it raises is the response."""


class Wire:
    """One connection of a session."""

    def __init__(self, kazoo: SimulatedKazoo) -> None:
        self._kazoo = kazoo
        name = kazoo.process.name
        self.to_server = Lane(kazoo.network, (name, HOST))
        self._to_client = Lane(kazoo.network, (HOST, name))
        self.session: Session | None = None
        self.in_flight: deque[tuple[Future, float]] = deque()
        self.open = True
        self._arrived: deque[Callable[[], None]] = deque()

    def give_up(self) -> None:
        self.open = False
        self.to_server.close()

    def request(self, call: Call, future: Future) -> None:
        self.in_flight.append((future, self._kazoo.now_ms))
        self.to_server.send(lambda: self._serve(call))

    def reply(self, take: Callable[[], None]) -> None:
        """take is called on the client's side, in order, while it keeps this connection."""
        self._to_client.send(lambda: self._arrive(take))

    def _arrive(self, take: Callable[[], None]) -> None:
        self._arrived.append(take)
        self._kazoo.process.call(0.0, self._take)

    def _take(self) -> None:
        take = self._arrived.popleft()
        if self.open:
            take()

    def notify(self, watch: Watch, event: WatchedEvent) -> None:
        if self.session is not None and self.session.client is self:
            self.reply(lambda: watch(event))

    def _serve(self, call: Call) -> None:
        server, session = self._kazoo.server, self.session
        assert session is not None
        value, error = None, None
        try:
            server.touch(session.id, self)
            value = call(self)
        except Exception as raised:
            error = raised
        self.reply(lambda: self._answered(value, error))

    def _answered(self, value: Any, error: Exception | None) -> None:
        future, sent_ms = self.in_flight.popleft()
        self._kazoo.heard(self, sent_ms, error)
        if error is None:
            future.set(value)
        else:
            future.fail(error)


class SimulatedKazoo:
    """Satisfies what ZkClient uses of KazooClient."""

    chroot = ""

    def __init__(
        self,
        process: Process,
        network: Network,
        server: ZooKeeper,
        timeout_ms: float,
        on_state: Callable[[str], None],
    ) -> None:
        self.process = process
        self.network = network
        self.server = server
        self.timeout_ms = timeout_ms
        self.touched_ms = -float("inf")
        """The server has heard of the session since."""
        self.first = Future()
        self._on_state = on_state
        self._session_id = 0
        self._wire: Wire | None = None
        self._connected = False
        self._closed = False
        self._heard_ms = 0.0
        self._waiting: deque[tuple[Call, Future]] = deque()

    @property
    def now_ms(self) -> float:
        return self.process.scheduler.now_ms

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        return (self._session_id, b"secret") if self._connected else None

    @property
    def connected(self) -> bool:
        return self._connected

    # Sessions

    def connect(self) -> None:
        if self._closed:
            return
        wire = self._wire = Wire(self)
        asked_ms, session_id = self.now_ms, self._session_id

        def join() -> None:
            session = self.server.attach(session_id, wire) if session_id else None
            if session is None and not session_id:
                session = self.server.open_session(wire, self.timeout_ms)
            wire.session = session
            wire.reply(lambda: self._joined(session, asked_ms))

        wire.to_server.send(join)
        self.process.call(self.timeout_ms / 3, lambda: self._drop(wire) if not self._connected else None)

    def _joined(self, session: Session | None, asked_ms: float) -> None:
        if session is None:
            self._session_id = 0
            self._fail_waiting(SessionExpiredError())
            self._on_state(KazooState.LOST)
            assert self._wire is not None
            self._wire.give_up()
            self.connect()
            return
        if session.id != self._session_id:
            self.touched_ms = asked_ms
        self._session_id = session.id
        self._connected, self._heard_ms = True, self.now_ms
        self._on_state(KazooState.CONNECTED)
        self.first.set(None)
        while self._waiting:
            self.call(*self._waiting.popleft())
        wire = self._wire
        assert wire is not None
        self._ping(wire)

    def _ping(self, wire: Wire) -> None:
        if wire is not self._wire or self._closed:
            return
        if self.now_ms - self._heard_ms > self.timeout_ms * 2 / 3:
            self._drop(wire)
            return
        wire.request(lambda wire: None, Future())
        self.process.call(self.timeout_ms / _PINGS_PER_TIMEOUT, lambda: self._ping(wire))

    def heard(self, wire: Wire, sent_ms: float, error: Exception | None) -> None:
        """A response came."""
        self._heard_ms = self.now_ms
        if error is None or not isinstance(error, SessionExpiredError):
            self.touched_ms = max(self.touched_ms, sent_ms)
        elif wire is self._wire:
            self._drop(wire)

    def hang_up(self) -> None:
        """The connection breaks now."""
        if self._wire is not None:
            self._drop(self._wire)

    def _drop(self, wire: Wire) -> None:
        if wire is not self._wire or self._closed:
            return
        self._wire = None
        wire.give_up()
        if self._connected:
            self._connected = False
            self._on_state(KazooState.SUSPENDED)
        for future, _ in wire.in_flight:
            future.fail(ConnectionLoss())
        self.process.call(self.process.scheduler.rng.uniform(*_RECONNECT_MS), self.connect)

    def close(self) -> None:
        """End the session, and fail what waits."""
        if self._closed:
            return
        self._closed = True
        session_id, wire = self._session_id, self._wire
        if wire is not None:
            wire.to_server.send(lambda: self.server.end_session(session_id))
            for future, _ in wire.in_flight:
                future.fail(ConnectionClosedError())
            wire.give_up()
        self._connected = False
        self._fail_waiting(ConnectionClosedError())

    def abandon(self) -> None:
        """The process is dead: its kernel closes the connection, the session stays."""
        self._closed = True
        if self._wire is not None:
            self._wire.give_up()

    def _fail_waiting(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            future.fail(error)

    # Calls

    def call(self, call: Call, future: Future | None = None) -> Future:
        future = Future() if future is None else future
        if self._closed:
            future.fail(ConnectionClosedError())
        elif self._connected and self._wire is not None:
            self._wire.request(call, future)
        else:
            self._waiting.append((call, future))
        return future

    def get_async(self, path: str, watch: Watch | None = None) -> Future:
        return self.call(lambda wire: self.server.get(wire, path, watch))

    def exists_async(self, path: str, watch: Watch | None = None) -> Future:
        return self.call(lambda wire: self.server.exists(wire, path, watch))

    def get_children_async(self, path: str, watch: Watch | None = None) -> Future:
        return self.call(lambda wire: self.server.children(wire, path, watch))

    def create_async(self, path: str, data: bytes, sequence: bool) -> Future:
        assert sequence
        return self.call(lambda wire: self.server.multi(self._session_id, [CreateSequence(path, data)])[0])

    def read_many_async(self, paths: Sequence[str]) -> Future:
        return self.call(lambda wire: self.server.read_many(paths))

    def multi_async(self, operations: Sequence[Operation]) -> Future:
        def write(wire: Wire) -> list[Any]:
            assert wire.session is not None
            return self.server.multi(wire.session.id, operations)

        return self.call(write)


class _Closing:
    """In place of an event of threads."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, seconds: float) -> bool:
        sleep_ms(seconds * 1000)
        return self._set


class SimulatedZkClient(ZkClient):
    """The real client, on `SimulatedKazoo`."""

    def __init__(
        self,
        process: Process,
        network: Network,
        server: ZooKeeper,
        hosts: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
    ) -> None:
        self.hosts = hosts
        self._connection_timeout_ms = connection_timeout_ms
        self._session_timeout_ms = float(session_timeout_ms)
        self.kazoo = SimulatedKazoo(process, network, server, float(session_timeout_ms), self._on_state)
        self._client = self.kazoo
        self._listeners: list[Callable[[SessionEvent], None]] = []
        self._last_session_id: int | None = None
        self._closing = _Closing()  # type: ignore[assignment]

    def start(self) -> None:
        self.kazoo.process.call(self._connection_timeout_ms, lambda: self.kazoo.first.fail(TimeoutError()))
        self.kazoo.connect()
        try:
            self.kazoo.first.get()
        except TimeoutError:
            self.kazoo.close()
            raise StoreUnavailable("no ZooKeeper responded") from None

    def close(self) -> None:
        self._closing.set()
        self.kazoo.close()

    @property
    def session_deadline_ms(self) -> float:
        return self.kazoo.touched_ms + self._session_timeout_ms

    def _read_together(self, paths: Sequence[str]) -> dict[str, Any]:
        unique = list(dict.fromkeys(paths))
        try:
            return dict(zip(unique, self.kazoo.read_many_async(unique).get(), strict=True))
        except (ConnectionLoss, SessionExpiredError, ConnectionClosedError):
            return {}

    def _commit_async(self, operations: Sequence[Operation]) -> Any:
        return self.kazoo.multi_async(list(operations))

    def _proven(self, sent_ms: float) -> None: ...
