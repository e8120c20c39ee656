"""A ZooKeeper session that is renewed when it expires, and the time until which it surely lives.

No rule may rest on a LOST event: a client cut off from ZooKeeper sees SUSPENDED only. `session_deadline_ms` is a local,
monotonic lower bound of the time at which ZooKeeper may have expired the session; only what the quorum carried out
moves it (`session_contact`, docs/adr/0009). Watches are forgotten by kazoo when the connection drops: whoever sets one
re-reads on every `SessionEvent.CONNECTED`.
Source: kafka.zookeeper.ZooKeeperClient; KAFKA-2729, KAFKA-13407.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from broker.core.controller.cluster_state import StoreUnavailable
from broker.zk.operations import Check, Create, CreateSequence, Delete, Operation, SetData
from broker.zk.session_contact import SessionContact

_log = logging.getLogger("broker.zk")

_CLOSE_S = 3.0
_PROOFS_PER_TIMEOUT = 6
_PROOF = [Check("/", -1)]
"""Changes nothing and fires no watch. A multi goes through the quorum even so."""
_NOT_OURS = (kazoo_errors.SessionExpiredError, kazoo_errors.SessionMovedError)


class SessionEvent(Enum):
    """CONNECTED: usable, watches are gone. NEW_SESSION: the same, and our ephemerals are gone too."""

    CONNECTED = "connected"
    NEW_SESSION = "new-session"
    SUSPENDED = "suspended"
    LOST = "lost"


class ZkSession:
    """Opened, kept alive, renewed and closed. All methods may be called from any thread but kazoo's."""

    def __init__(self, hosts: str, session_timeout_ms: int, connection_timeout_ms: int) -> None:
        self.hosts = hosts
        self._connection_timeout_ms = connection_timeout_ms
        self._session_timeout_ms = float(session_timeout_ms)
        self._client = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.5, "max_delay": 0.5},
        )
        self._listeners: list[Callable[[SessionEvent], None]] = []
        self._last_session_id: int | None = None
        self._contact = SessionContact()
        self._joined_ms = -float("inf")
        self._prove_soon = threading.Event()
        self._unanswered: deque[float] = deque()
        """When the proofs that are under way were sent, oldest first."""
        self._closing = threading.Event()
        self._close_lock = threading.Lock()
        self._ended = False
        # It ends the session, too: at a stop there may be no other thread to be had.
        self._contact_thread = threading.Thread(target=self._run, name="zk-contact", daemon=True)
        self._client.add_listener(self._on_state)
        self._listen_to_negotiation()

    def _listen_to_negotiation(self) -> None:
        """kazoo keeps to itself what session time-out the server granted; two thirds of it are its read time-out.

        The listeners were called for the connection before this: they know of a new session before its deadline can
        be read.
        """
        connection = self._client._connection
        connect = connection._connect

        def connected(*where: Any) -> Any:
            sent_ms = self._now_ms()
            read_timeout_ms, connect_timeout_ms = connect(*where)
            self._session_timeout_ms = read_timeout_ms * 3 / 2
            self._joined_ms = sent_ms
            self._contact.joined(int(self._client._session_id), sent_ms)
            self._prove_soon.set()
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connected

    def start(self) -> None:
        """Connect. Raises StoreUnavailable naming the hosts when no server answers in the connection time-out."""
        self._contact_thread.start()
        connected = self._client.start_async()
        connected.wait(self._connection_timeout_ms / 1000)
        if not self._client.connected:
            self.close()
            raise StoreUnavailable(
                f"no ZooKeeper responded at zookeeper.connect={self.hosts} within {self._connection_timeout_ms} ms "
                "(zookeeper.connection.timeout.ms): is it running, and is the address right?"
            )

    def close(self) -> None:
        """End the session: its ephemeral znodes go at once. Calls in flight fail. Idempotent; any thread but kazoo's.

        A server that does not respond is not waited for beyond some seconds: the session is left to expire, and calls
        in flight stay where they are.
        """
        self._closing.set()
        self._prove_soon.set()
        if self._contact_thread.is_alive():
            self._contact_thread.join(_CLOSE_S)
        if self._contact_thread.is_alive():
            _log.warning("ZooKeeper does not respond: the session is left to expire")
        else:
            self._end()

    def _end(self) -> None:
        with self._close_lock:
            if self._ended:
                return
            self._ended = True
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            _log.warning("closing the ZooKeeper session failed", exc_info=True)

    @property
    def session_id(self) -> int | None:
        """None while disconnected."""
        identity = self._client.client_id
        return None if identity is None else int(identity[0])

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """Session id and password, with which another client may end this session."""
        identity = self._client.client_id
        return None if identity is None else (int(identity[0]), bytes(identity[1]))

    @property
    def session_timeout_ms(self) -> float:
        """As the server granted it: the requested time-out, clipped to the server's bounds. Before that, the requested
        one.
        """
        return self._session_timeout_ms

    @property
    def session_deadline_ms(self) -> float:
        """Monotonic ms from which on ZooKeeper may have expired our session, whatever the client has reported.

        Of the session at hand: when it is renewed this rises, once the listeners were called.
        """
        return self._contact.touched_ms + self.session_timeout_ms

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> None:
        """Called on kazoo's thread: it may only hand the event over to another thread."""
        self._listeners.append(listener)

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            identity = self._client.client_id
            session_id = None if identity is None else int(identity[0])
            known = self._last_session_id
            self._last_session_id = session_id
            event = SessionEvent.CONNECTED if known in (None, session_id) else SessionEvent.NEW_SESSION
        else:
            event = SessionEvent.SUSPENDED if state == KazooState.SUSPENDED else SessionEvent.LOST
        for listener in self._listeners:
            listener(event)

    def _run(self) -> None:
        self._keep_contact()
        self._end()

    def _keep_contact(self) -> None:
        """Have a proof carried out six times per session time-out, and one as soon as a server has let us in."""
        while True:
            self._prove_soon.wait(self.session_timeout_ms / 1000 / _PROOFS_PER_TIMEOUT)
            self._prove_soon.clear()
            if self._closing.is_set():
                return
            if not self._client.connected:
                continue
            if self._server_is_silent():
                self._hang_up()
            else:
                self._prove()

    def _server_is_silent(self) -> bool:
        """Whether it has let proofs wait for half a session time-out: another server may have the quorum."""
        try:
            oldest_ms = self._unanswered[0]
        except IndexError:
            return False
        return self._now_ms() - max(oldest_ms, self._joined_ms) >= self.session_timeout_ms / 2

    def _hang_up(self) -> None:
        """Have kazoo try the next server, before the session is over.

        By itself it would stay for as long as we go on sending: it looks for silence only when it has nothing to send.
        """
        connection = self._client._connection._socket
        if connection is not None:
            _log.warning("the ZooKeeper server has carried nothing out for half a session time-out: hanging up")
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _prove(self) -> None:
        sent_ms = self._now_ms()
        self._unanswered.append(sent_ms)
        self._commit_async(_PROOF).rawlink(lambda result: self._on_proof(result, sent_ms))

    def _on_proof(self, result: Any, sent_ms: float) -> None:
        self._unanswered.popleft()
        # A multi is carried out also for a session that is over, or that another server holds; its results say that.
        if result.successful() and not any(isinstance(each, _NOT_OURS) for each in result.value):
            self._proven(sent_ms)

    def _proven(self, sent_ms: float) -> None:
        self._contact.proven(sent_ms, self.session_timeout_ms / _PROOFS_PER_TIMEOUT)

    @staticmethod
    def _now_ms() -> float:
        return time.monotonic() * 1000

    def _commit_async(self, operations: Sequence[Operation]) -> Any:
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create():
                    transaction.create(operation.path, operation.data, ephemeral=operation.ephemeral)
                case CreateSequence():
                    transaction.create(operation.path, operation.data, sequence=True)
                case SetData():
                    transaction.set_data(operation.path, operation.data, version=operation.version)
                case Delete():
                    transaction.delete(operation.path, version=operation.version)
                case Check():
                    transaction.check(operation.path, operation.version)
        return transaction.commit_async()
