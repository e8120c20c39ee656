"""A thin typed wrapper over kazoo: conditional writes whose outcome is always known, watches that fire once.

A watch is called for a change, not for a lost connection, which ends it all the same: see `session`.

Blocking calls are for worker threads, never for kazoo's own or the loop's. While disconnected they wait: kazoo
completes them when it reconnects, when the session turns out to be expired, or when the client closes. Lost connections
are retried a bounded number of times with jitter, writes only after reading back (`operations.landed`).
Source: kafka.zookeeper.ZooKeeperClient; KAFKA-2729, KAFKA-13407.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError, SessionMovedError
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat

from broker.core.controller.cluster_state import StoreUnavailable
from broker.zk.multi_read import Found, MultiRead, UnreadableResponse
from broker.zk.operations import (
    Check,
    Create,
    Delete,
    Landed,
    Node,
    Operation,
    SetData,
    landed_together,
)
from broker.zk.session import ZkSession

_LOST = (ConnectionLoss, SessionMovedError)
"""After these the same is tried again. Moved: the quorum takes the session for another server's, for a moment after the
client went from one server to the next, and has carried nothing out.
"""
_TRIES = 12
_BACKOFF_FIRST_S = 0.02
_BACKOFF_MAX_S = 1.0
_PIPELINE = 256


class WriteRefused(Exception):
    """A condition of a write failed: index of the operation in its multi, and which of the three reasons. overtaken: a
    response was lost, and somebody wrote there since; so the write may have been carried out, and overwritten.
    """

    def __init__(self, operation: Operation, index: int, reason: str, *, overtaken: bool = False) -> None:
        super().__init__(f"{type(operation).__name__} {operation.path}: {reason}")
        self.operation = operation
        self.index = index
        self.overtaken = overtaken
        self.reason = reason
        """no-node, node-exists, bad-version, not-empty"""

    def after_a_loss(self) -> WriteRefused:
        """The same of a write whose first response was lost."""
        return WriteRefused(self.operation, self.index, self.reason, overtaken=True)


class SessionExpired(StoreUnavailable):
    """The session ended before the call was carried out; a new one is being opened."""


_REASONS = {
    kazoo_errors.NoNodeError: "no-node",
    kazoo_errors.NodeExistsError: "node-exists",
    kazoo_errors.BadVersionError: "bad-version",
    kazoo_errors.NotEmptyError: "not-empty",
}
Watch = Callable[[], None]


class ZkClient(ZkSession):
    """Reads and writes of one session at a time. All methods may be called from any thread but kazoo's."""

    _reads_together = True

    def start(self) -> None:
        """Connect; make the folder that `zookeeper.connect` ends with. Raises StoreUnavailable as a session does."""
        super().start()
        self._make_chroot()

    def _make_chroot(self) -> None:
        """Make the folder that `zookeeper.connect` ends with, as Kafka does."""
        servers, slash, chroot = self.hosts.partition("/")
        if slash and not self.exists("/"):
            maker = KazooClient(servers, timeout=self._session_timeout_ms / 1000)
            try:
                maker.start(self._connection_timeout_ms / 1000)
                maker.ensure_path("/" + chroot)
            finally:
                maker.stop()
                maker.close()

    # Reads

    def get(self, path: str, watch: Watch | None = None) -> Node | None:
        """A znode, or None. The watch is left behind only where the znode exists. Use `exists` to await one."""
        return self.get_many([path], watch)[path]

    def get_many(self, paths: Sequence[str], watch: Watch | None = None) -> dict[str, Node | None]:
        """Many znodes: some hundred by one request, where the server has that and none is watched, else pipelined."""
        raw = self._read_together(paths) if watch is None and self._reads_together and len(paths) > 1 else {}
        left = [path for path in paths if path not in raw]
        raw |= self._pipelined(left, lambda path: self._client.get_async(path, watch=_once(watch)))
        return {path: None if value is None else _node(value[0], value[1]) for path, value in raw.items()}

    def _read_together(self, paths: Sequence[str]) -> dict[str, Found]:
        """As many as could be read so; what is missing is to be read one by one."""
        unique = list(dict.fromkeys(paths))
        slices = [unique[start : start + _PIPELINE] for start in range(0, len(unique), _PIPELINE)]
        sent = [(part, self._client.handler.async_result()) for part in slices]
        for part, result in sent:
            self._client._call(MultiRead([self._from_root(path) for path in part]), result)
        found: dict[str, Found] = {}
        for part, result in sent:
            try:
                found.update(zip(part, result.get(), strict=True))
            except (*_LOST, SessionExpiredError, ConnectionClosedError):
                continue
            except (kazoo_errors.UnimplementedError, UnreadableResponse):
                # Of before 3.6. The next server of the ensemble will be no newer.
                self._reads_together = False
        return found

    def get_watched(self, watches: Mapping[str, Watch]) -> dict[str, Node | None]:
        """The same, each znode with a watch of its own."""
        raw = self._pipelined(list(watches), lambda path: self._client.get_async(path, watch=_once(watches[path])))
        return {path: None if value is None else _node(value[0], value[1]) for path, value in raw.items()}

    def _from_root(self, path: str) -> str:
        """Where `zookeeper.connect` ends with a folder, all paths lie in it."""
        chroot = str(self._client.chroot)
        return (chroot or path) if path == "/" else chroot + path

    def exists(self, path: str, watch: Watch | None = None) -> bool:
        """Whether a znode is there; the watch fires on creation, change and deletion."""
        raw = self._pipelined([path], lambda p: self._client.exists_async(p, watch=_once(watch)))
        return raw[path] is not None

    def children(self, path: str, watch: Watch | None = None) -> list[str] | None:
        """Names of a znode's children; None where the znode does not exist. Raises StoreUnavailable."""
        return self.children_many([path], watch)[path]

    def children_many(self, paths: Sequence[str], watch: Watch | None = None) -> dict[str, list[str] | None]:
        """Children by path; None where the znode is missing."""
        raw = self._pipelined(paths, lambda path: self._client.get_children_async(path, watch=_once(watch)))
        return {path: None if value is None else sorted(value) for path, value in raw.items()}

    def _pipelined(self, paths: Sequence[str], send: Callable[[str], Any]) -> dict[str, Any]:
        """Request every path, some hundred at a time; lost connections are retried, a missing znode is None."""
        found: dict[str, Any] = {}
        open_paths = list(dict.fromkeys(paths))
        for attempt in range(_TRIES):
            failed: list[str] = []
            for start in range(0, len(open_paths), _PIPELINE):
                sent = [(path, send(path)) for path in open_paths[start : start + _PIPELINE]]
                for path, result in sent:
                    try:
                        found[path] = result.get()
                    except kazoo_errors.NoNodeError:
                        found[path] = None
                    except (*_LOST, SessionExpiredError, ConnectionClosedError):
                        failed.append(path)
            if not failed:
                return found
            open_paths = failed
            self._back_off(attempt, f"reading {open_paths[0]}")
        raise StoreUnavailable(f"reading {open_paths[0]}: the connection was lost {_TRIES} times")

    # Writes

    def multi(self, operations: Sequence[Operation]) -> list[int]:
        """Carry out all or none. Returns per operation the new version (0 for a create, −1 where there is none).

        Raises WriteRefused, SessionExpired, StoreUnavailable.
        """
        result = self.multi_many([operations])[0]
        if isinstance(result, WriteRefused):
            raise result
        return result

    def multi_many(self, multis: Sequence[Sequence[Operation]]) -> list[list[int] | WriteRefused]:
        """Many independent multis, pipelined and in order; each is atomic by itself."""
        results: list[list[int] | WriteRefused | None] = [None] * len(multis)
        open_indexes = list(range(len(multis)))
        for attempt in range(_TRIES):
            lost: list[int] = []
            for start in range(0, len(open_indexes), _PIPELINE):
                window = open_indexes[start : start + _PIPELINE]
                sent_ms = self._now_ms()
                sent = [(index, self._commit_async(multis[index])) for index in window]
                for index, result in sent:
                    try:
                        results[index] = outcome = _outcome(multis[index], result.get())
                        self._proven(sent_ms)
                        if attempt and isinstance(outcome, WriteRefused):
                            # Perhaps by what an earlier attempt wrote: the server that was read back from lagged
                            # behind.
                            results[index] = self._read_back(multis[index]) or outcome.after_a_loss()
                    except _LOST:
                        lost.append(index)
                    except SessionExpiredError:
                        raise SessionExpired(f"writing {multis[index][0].path}") from None
                    except ConnectionClosedError:
                        raise StoreUnavailable("the ZooKeeper client is closed") from None
            open_indexes = []
            for index in lost:
                settled = self._read_back(multis[index])
                if settled is None:
                    open_indexes.append(index)
                else:
                    results[index] = settled
            if not open_indexes:
                return [result for result in results if result is not None]
            self._back_off(attempt, f"writing {multis[open_indexes[0]][0].path}")
        raise StoreUnavailable(f"writing {multis[open_indexes[0]][0].path}: the connection was lost {_TRIES} times")

    def _read_back(self, operations: Sequence[Operation]) -> list[int] | WriteRefused | None:
        """After a lost response: the multi's result if it landed, a refusal if it was overtaken, None to try again."""
        nodes: Mapping[str, Node | None] = self.get_many([operation.path for operation in operations])
        match landed_together(operations, nodes, self._last_session_id or 0):
            case Landed.YES:
                return [_version_of(nodes[operation.path]) for operation in operations]
            case Landed.NO:
                return None
            case Landed.OVERTAKEN:
                index = next(i for i, operation in enumerate(operations) if not isinstance(operation, Check))
                return WriteRefused(operations[index], index, "bad-version", overtaken=True)

    def create(self, path: str, data: bytes, ephemeral: bool = False) -> None:
        """Raises WriteRefused (node-exists, no-node). After a lost response this session's own znode is no refusal."""
        self.multi([Create(path, data, ephemeral)])

    def create_sequence(self, prefix: str, data: bytes) -> None:
        """A persistent sequence node; after a lost response there may be two: readers must expect that."""
        for attempt in range(_TRIES):
            try:
                self._client.create_async(prefix, data, sequence=True).get()
                return
            except _LOST:
                self._back_off(attempt, f"creating {prefix}")
            except (SessionExpiredError, ConnectionClosedError):
                raise SessionExpired(f"creating {prefix}") from None
        raise StoreUnavailable(f"creating {prefix}: the connection was lost {_TRIES} times")

    def set(self, path: str, data: bytes, version: int) -> int:
        """The new version. Raises WriteRefused (bad-version, no-node)."""
        return self.multi([SetData(path, data, version)])[0]

    def overwrite(self, path: str, data: bytes) -> int:
        """Set unconditionally and learn the new version (for /brokers/seqid, whose version is the value wanted)."""
        for _ in range(_TRIES):
            node = self.get(path)
            if node is None:
                self.ensure_path(path)
                continue
            try:
                return self.set(path, data, node.version)
            except WriteRefused as refused:
                if refused.reason not in ("bad-version", "no-node"):
                    raise
        raise StoreUnavailable(f"writing {path}: overtaken {_TRIES} times")

    def delete(self, path: str, version: int = -1) -> bool:
        """False when it was not there. Raises WriteRefused (bad-version, not-empty)."""
        try:
            self.multi([Delete(path, version)])
        except WriteRefused as refused:
            if refused.reason == "no-node":
                return False
            raise
        return True

    def delete_recursive(self, path: str) -> None:
        """Delete a subtree, leaves first; what others delete meanwhile is fine."""
        for child in self.children(path) or []:
            self.delete_recursive(f"{path}/{child}")
        self.delete(path)

    def ensure_path(self, path: str) -> None:
        """Make a persistent znode and its ancestors where missing, with empty data as Kafka does."""
        parts = path.strip("/").split("/")
        for end in range(1, len(parts) + 1):
            ancestor = "/" + "/".join(parts[:end])
            if not self.exists(ancestor):
                try:
                    self.create(ancestor, b"")
                except WriteRefused as refused:
                    if refused.reason not in ("node-exists", "bad-version"):
                        raise

    def _back_off(self, attempt: int, doing: str) -> None:
        if self._closing.is_set():
            raise StoreUnavailable(f"{doing}: the ZooKeeper client is closing")
        delay_s = min(_BACKOFF_MAX_S, _BACKOFF_FIRST_S * 2**attempt) * random.uniform(0.5, 1.0)
        if self._closing.wait(delay_s):
            raise StoreUnavailable(f"{doing}: the ZooKeeper client is closing")


def _once(watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
    """Every watch leads to a new read, so the content of its event does not matter.

    When the connection drops kazoo forgets all watches and calls them with NONE. Nothing is known to have changed by
    then; what is watched is read again after the reconnect, and all of it at once.
    """
    if watch is None:
        return None

    def on_event(event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            watch()

    return on_event


def _node(data: bytes, stat: ZnodeStat) -> Node:
    return Node(bytes(data or b""), stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner or 0)


def _version_of(node: Node | None) -> int:
    return -1 if node is None else node.version


def _outcome(operations: Sequence[Operation], found: Sequence[Any]) -> list[int] | WriteRefused:
    """kazoo's list of results: versions, or the refusal at the operation whose condition failed."""
    for index, (operation, settled) in enumerate(zip(operations, found, strict=True)):
        for error, reason in _REASONS.items():
            if isinstance(settled, error):
                return WriteRefused(operation, index, reason)
    for settled in found:
        if isinstance(settled, Exception):
            raise settled
    return [
        settled.version if isinstance(settled, ZnodeStat) else 0 if isinstance(operation, Create) else -1
        for operation, settled in zip(operations, found, strict=True)
    ]
