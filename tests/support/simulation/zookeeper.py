"""ZooKeeper in memory: znodes with versions, ephemerals, watches that fire once, multis, sessions that expire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kazoo import exceptions as errors
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent, ZnodeStat

from broker.zk.operations import Check, Create, CreateSequence, Delete, Operation, SetData
from tests.support.simulation.scheduler import Scheduler

_EXPIRY_LATE_MS: Final = 400.0
Watch = Callable[[WatchedEvent], None]


class Client(Protocol):
    """A connection of a session, as the server sees it."""

    def notify(self, watch: Watch, event: WatchedEvent) -> None:
        """Send a notification, in order with the responses."""
        ...


@dataclass
class Znode:
    data: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    children: set[str] = field(default_factory=set)
    made: int = 0
    """Children so far: numbers of sequence nodes."""

    def stat(self) -> ZnodeStat:
        return ZnodeStat(
            self.czxid, self.mzxid, 0, 0, self.version, 0, 0, self.owner, len(self.data), len(self.children), self.mzxid
        )


@dataclass
class Session:
    id: int
    timeout_ms: float
    heard_ms: float
    client: Client | None = None


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class ZooKeeper:
    """One server. `written` is called after each change with the path and the data, None for a deletion."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0)}
        self.sessions: dict[int, Session] = {}
        self.zxid = 0
        self.written: Callable[[str, bytes | None], None] = lambda path, data: None
        self._data_watches: dict[str, list[tuple[Client, Watch]]] = {}
        self._child_watches: dict[str, list[tuple[Client, Watch]]] = {}
        self._next_session = 1

    # Sessions

    def open_session(self, client: Client, timeout_ms: float) -> Session:
        self._next_session += 1
        session = Session(self._next_session, timeout_ms, self._scheduler.now_ms, client)
        self.sessions[session.id] = session
        self._watch_over(session)
        return session

    def attach(self, session_id: int, client: Client) -> Session | None:
        """A client comes back to its session; None where that is over."""
        session = self.sessions.get(session_id)
        if session is not None:
            session.client, session.heard_ms = client, self._scheduler.now_ms
        return session

    def touch(self, session_id: int, client: Client) -> None:
        """A request came. Raises kazoo's error where the session is over, or at another connection."""
        session = self.sessions.get(session_id)
        if session is None:
            raise errors.SessionExpiredError
        if session.client is not client:
            raise errors.SessionMovedError
        session.heard_ms = self._scheduler.now_ms

    def end_session(self, session_id: int) -> None:
        """Close or expire it: its ephemerals go."""
        session = self.sessions.pop(session_id, None)
        if session is None:
            return
        self._scheduler.note(f"zk: session {session_id} is over")
        self.zxid += 1
        for path in [path for path, node in self.nodes.items() if node.owner == session_id]:
            self._remove(path)

    def _watch_over(self, session: Session) -> None:
        late_ms = self._scheduler.rng.uniform(0.0, _EXPIRY_LATE_MS)

        def look() -> None:
            if self.sessions.get(session.id) is not session:
                return
            left_ms = session.heard_ms + session.timeout_ms + late_ms - self._scheduler.now_ms
            if left_ms <= 0:
                self.end_session(session.id)
            else:
                self._scheduler.at(left_ms, look)

        self._scheduler.at(session.timeout_ms + late_ms, look)

    # Reads; they raise kazoo's errors

    def get(self, client: Client, path: str, watch: Watch | None) -> tuple[bytes, ZnodeStat]:
        node = self.nodes.get(path)
        if node is None:
            raise errors.NoNodeError
        self._leave(self._data_watches, client, path, watch)
        return node.data, node.stat()

    def exists(self, client: Client, path: str, watch: Watch | None) -> ZnodeStat | None:
        self._leave(self._data_watches, client, path, watch)
        node = self.nodes.get(path)
        return None if node is None else node.stat()

    def children(self, client: Client, path: str, watch: Watch | None) -> list[str]:
        node = self.nodes.get(path)
        if node is None:
            raise errors.NoNodeError
        self._leave(self._child_watches, client, path, watch)
        return sorted(node.children)

    def read_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        found = [self.nodes.get(path) for path in paths]
        return [None if node is None else (node.data, node.stat()) for node in found]

    def _leave(
        self, watches: dict[str, list[tuple[Client, Watch]]], client: Client, path: str, watch: Watch | None
    ) -> None:
        if watch is not None:
            watches.setdefault(path, []).append((client, watch))

    # Writes

    def multi(self, session_id: int, operations: Sequence[Operation]) -> list[Any]:
        """All or none: kazoo's results, the errors in the places of those that failed."""
        copies: dict[str, Znode | None] = {}
        for index, operation in enumerate(operations):
            error = self._refusal(operation, copies)
            if error is not None:
                return (
                    [errors.RolledBackError()] * index
                    + [error]
                    + [errors.RuntimeInconsistency()] * (len(operations) - index - 1)
                )
            self._imagine(operation, copies)
        self.zxid += 1
        return [self._carry_out(session_id, operation) for operation in operations]

    def _refusal(self, operation: Operation, copies: dict[str, Znode | None]) -> Exception | None:
        """Why it cannot be done after those before it, whose outcome is in copies."""
        refused: type[Exception] | None = self._reason(operation, copies)
        return refused() if refused is not None else None

    def _reason(self, operation: Operation, copies: dict[str, Znode | None]) -> Any:
        path, node = operation.path, self._seen(operation.path, copies)
        match operation:
            case Create() | CreateSequence():
                if self._seen(parent_of(path), copies) is None:
                    return errors.NoNodeError
                return errors.NodeExistsError if node is not None and isinstance(operation, Create) else None
            case SetData() | Check():
                if node is None:
                    return errors.NoNodeError
                return errors.BadVersionError if operation.version not in (-1, node.version) else None
            case Delete():
                if node is None:
                    return errors.NoNodeError
                if operation.version not in (-1, node.version):
                    return errors.BadVersionError
                below = {f"{path.rstrip('/')}/{name}" for name in node.children} | copies.keys()
                there = [one for one in below if parent_of(one) == path and self._seen(one, copies) is not None]
                return errors.NotEmptyError if there else None

    def _seen(self, path: str, copies: dict[str, Znode | None]) -> Znode | None:
        return copies[path] if path in copies else self.nodes.get(path)

    def _imagine(self, operation: Operation, copies: dict[str, Znode | None]) -> None:
        match operation:
            case Create():
                copies[operation.path] = Znode(operation.data, 0, 0)
            case SetData():
                node = self._seen(operation.path, copies)
                assert node is not None
                copies[operation.path] = Znode(operation.data, 0, 0, 0, node.version + 1, set(node.children))
            case Delete():
                copies[operation.path] = None
            case Check() | CreateSequence():
                pass

    def _carry_out(self, session_id: int, operation: Operation) -> Any:
        path = operation.path
        match operation:
            case Create():
                return self._make(path, operation.data, session_id if operation.ephemeral else 0)
            case CreateSequence():
                return self._make(f"{path}{self.nodes[parent_of(path)].made:010d}", operation.data, 0)
            case SetData():
                node = self.nodes[path]
                node.data, node.mzxid, node.version = operation.data, self.zxid, node.version + 1
                self.written(path, node.data)
                self._fire(self._data_watches, path, EventType.CHANGED)
                return node.stat()
            case Delete():
                self._remove(path)
                return True
            case Check():
                return True

    def _make(self, path: str, data: bytes, owner: int) -> str:
        self.nodes[path] = Znode(data, self.zxid, self.zxid, owner)
        parent = self.nodes[parent_of(path)]
        parent.children.add(path.rpartition("/")[2])
        parent.made += 1
        self.written(path, data)
        self._fire(self._data_watches, path, EventType.CREATED)
        self._fire(self._child_watches, parent_of(path), EventType.CHILD)
        return path

    def _remove(self, path: str) -> None:
        del self.nodes[path]
        self.nodes[parent_of(path)].children.discard(path.rpartition("/")[2])
        self.written(path, None)
        self._fire(self._data_watches, path, EventType.DELETED)
        self._fire(self._child_watches, path, EventType.DELETED)
        self._fire(self._child_watches, parent_of(path), EventType.CHILD)

    def _fire(self, watches: dict[str, list[tuple[Client, Watch]]], path: str, type_: str) -> None:
        for client, watch in watches.pop(path, ()):
            client.notify(watch, WatchedEvent(type_, KeeperState.CONNECTED, path))
