"""A broker's registration over its life: registered at the start, fenced when the session is lost, registered anew.

Fenced means: brokers and controller count this broker as dead, so it gives up all its roles and waits until the
controller has seen its new registration. Session events come on kazoo's thread and are handed over at once; registering
blocks and runs on the worker. No rule rests on the LOST event: a broker cut off from ZooKeeper learns of it only when
it is back; what protects the log meanwhile are epochs. `session_deadline_ms` and `suspect` show, by the monotonic clock
alone, that the session under which the roles were granted may be over: a new session keeps no role valid, so from the
event of a session's end until the loop has taken up the next registration that deadline has passed. A registration that
succeeds while the broker shuts down is withdrawn by ending the session, which owns nothing else: this broker would not
serve under it.
Source: kafka.server.KafkaServer, KafkaZkClient.registerBroker; C1 and C9 of docs/guarantees.md.
"""

from __future__ import annotations

import enum
import logging
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.core.controller.cluster_state import StoreUnavailable
from broker.model.backoff import Backoff
from broker.runtime.ports import Loop
from broker.runtime.worker import Worker

_log = logging.getLogger("broker.registration")


class SessionChange(enum.Enum):
    """What happened to the session."""

    RECONNECTED = enum.auto()
    RENEWED = enum.auto()
    DISCONNECTED = enum.auto()
    LOST = enum.auto()
    """The session is over, and there is no other yet; RENEWED follows."""


class Registrar(Protocol):
    """Registers this broker; blocks. Raises StoreUnavailable where a later attempt may succeed; any other error is
    final.
    """

    def register(self) -> int:
        """Register; returns the broker epoch (the czxid of `/brokers/ids/N`)."""
        ...

    def withdraw(self) -> None:
        """End the session, and with it the registration; blocks."""
        ...


class Candidate(Protocol):
    """The controller's side of a registration."""

    def registered(self) -> None:
        """This broker is registered: it may stand for controller."""
        ...

    def session_lost(self) -> None:
        """The session is over, and a controllership with it."""
        ...

    def reconnected(self) -> None:
        """The same session is connected again; its watches may be lost."""
        ...


class BrokerRegistration:
    """See the module. `register_first` before the loop runs; then `on_session` from any thread."""

    def __init__(
        self,
        registrar: Registrar,
        worker: Worker,
        candidate: Candidate,
        loop: Loop,
        session_deadline_ms: Callable[[], float],
        on_registered: Callable[[int], None],
        on_fenced: Callable[[], None],
        on_refused: Callable[[Exception], None],
        retries: Callable[[], Backoff] = Backoff,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """on_registered(broker epoch), on_fenced and on_refused run on the loop's thread.

        on_refused: another broker has taken the id; this one must end. session_deadline_ms: monotonic, of the session
        at hand; it may rise for a new one once `on_session` was called with its event. See ZkClient.
        retries: new for each session. pause(seconds) between two attempts; None: waits, but not beyond `shutdown`.
        """
        self._registrar = registrar
        self._worker = worker
        self._candidate = candidate
        self._loop = loop
        self._newest_deadline_ms = session_deadline_ms
        self._on_registered = on_registered
        self._on_fenced = on_fenced
        self._on_refused = on_refused
        self._lock = threading.Lock()
        self._retries = retries
        self._shutting_down = threading.Event()
        self._pause = pause if pause is not None else self._shutting_down.wait
        self._sessions_over = 0
        """How many sessions have ended; counted on the thread that reports the end, before anything else is done."""
        self._sessions_survived = 0
        """`_sessions_over` at the time of the registration under which this broker serves."""
        self._untaken: int | None = None
        """Broker epoch of a registration that the loop's thread has not taken up yet."""
        self.broker_epoch = -1
        """−1 while fenced. Written on the loop's thread, and before it runs."""

    def register_first(self, limit_ms: float) -> int:
        """Register before the loop runs; returns the broker epoch. Raises what the registrar raises: StoreUnavailable
        once it was tried again for limit_ms, because a session that a slow ZooKeeper ended is followed by another.
        """
        backoff, until_ms = self._retries(), math.inf
        while True:
            try:
                self.broker_epoch = self._registrar.register()
            except StoreUnavailable as unavailable:
                # From the first failure on: it may have taken as long as a session takes to end.
                until_ms = min(until_ms, self._loop.now_ms() + limit_ms)
                if self._loop.now_ms() >= until_ms:
                    raise
                _log.warning("not registered yet: %s", unavailable)
                self._pause(backoff.next_ms() / 1000)
            else:
                self._candidate.registered()
                return self.broker_epoch

    def session_deadline_ms(self) -> float:
        """When the session under which this broker's roles were granted may be over: ms of the loop's clock.

        −inf from the event of its end until the loop's thread has been fenced and has taken up another registration.
        Any thread.
        """
        # In this order: a new session's deadline can be seen only by one who also sees that the old one is over.
        deadline_ms = self._newest_deadline_ms()
        return deadline_ms if self._sessions_survived == self._sessions_over else -math.inf

    def suspect(self) -> bool:
        """Whether the session may have expired, whether or not ZooKeeper has reported it."""
        return self._loop.now_ms() >= self.session_deadline_ms()

    def shutdown(self) -> None:
        """Register no more; the session's end removes the registration. Idempotent; the loop may run or not.

        A registration that the loop's thread has not taken up is reported by on_registered here, because it is this
        broker's last.
        """
        with self._lock:
            self._shutting_down.set()
            untaken, self._untaken = self._untaken, None
        if untaken is not None:
            self._on_registered(untaken)
            self._worker.submit("withdrawing", self._registrar.withdraw)

    def on_session(self, change: SessionChange) -> None:
        """Any thread, one after the other."""
        if change in (SessionChange.LOST, SessionChange.RENEWED):
            self._sessions_over += 1
        if self._shutting_down.is_set():
            return
        match change:
            case SessionChange.RECONNECTED:
                self._candidate.reconnected()
            case SessionChange.RENEWED:
                _log.warning("the ZooKeeper session expired: fenced until registered anew")
                self._candidate.session_lost()
                self._loop.call_soon_threadsafe(self._fence)
                self._worker.submit("registering", self._register_again)
            case SessionChange.DISCONNECTED:
                _log.info("the connection to ZooKeeper is lost")
            case SessionChange.LOST:
                _log.info("the ZooKeeper session is over")

    def _fence(self) -> None:
        self.broker_epoch = -1
        self._on_fenced()

    def _register_again(self) -> None:
        backoff = self._retries()
        while not self._shutting_down.is_set():
            sessions_over = self._sessions_over
            try:
                epoch = self._registrar.register()
            except StoreUnavailable as unavailable:
                _log.warning("not registered yet: %s", unavailable)
                self._pause(backoff.next_ms() / 1000)
            except Exception as refused:
                self._loop.call_soon_threadsafe(partial(self._on_refused, refused))
                return
            else:
                self._landed(epoch, sessions_over)
                return

    def _landed(self, epoch: int, sessions_over: int) -> None:
        """Hand a registration over to the loop; where the broker shuts down, withdraw it. The worker's thread."""
        with self._lock:
            late = self._shutting_down.is_set()
            if not late:
                self._untaken = epoch
        if late:
            _log.info("registered anew, broker epoch %d, but shutting down: withdrawn", epoch)
            self._registrar.withdraw()
        else:
            self._loop.call_soon_threadsafe(partial(self._registered, epoch, sessions_over))

    def _registered(self, epoch: int, sessions_over: int) -> None:
        with self._lock:
            if self._shutting_down.is_set():
                return
            if self._untaken == epoch:
                self._untaken = None
        _log.info("registered anew, broker epoch %d", epoch)
        self.broker_epoch = epoch
        self._sessions_survived = sessions_over
        self._on_registered(epoch)
        self._candidate.registered()
