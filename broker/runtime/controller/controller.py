"""The controller's thread: elections for `/controller`, and one serial queue of all that concerns the controller.

One thread takes events (a watch fired, a broker asked, a broker answered, the session changed) one after the other, so
no two decisions overlap. Foreign threads only put events. Whoever loses the epoch resigns and forgets; whoever cannot
reach ZooKeeper in the middle of an event loads everything anew, because it cannot know what was written.
A broker stands for election only while it is registered. No other thread is ever needed: what is to come later waits
in a heap of the thread's own. Should the thread break, its broker must not live on: `/controller` would stay its own.
Source: kafka.controller.KafkaController, ControllerEventManager.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from broker.core.controller.cluster_state import ControllerMoved, StoreUnavailable
from broker.core.controller.elr import ReplicaReport
from broker.core.controller.stored import Term, Watch
from broker.model.backoff import Backoff
from broker.model.ids import BrokerId, Epoch, TopicPartition
from broker.model.timers import TimerHandle, TimerHeap
from broker.runtime.controller.channel_manager import ControllerChannels, PeerFactory, Reports
from broker.runtime.controller.outbox import Emit, LoopOutbox
from broker.runtime.controller.ports import ControllerStore
from broker.runtime.controller.term import ControllerTerm
from broker.runtime.lifecycle.failure_detector import Suspect
from broker.runtime.metadata.topic_ids import new_topic_id
from broker.runtime.ports import Loop
from broker.runtime.requests.abandonable_requests import WantedRequests
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

_log = logging.getLogger("broker.controller")

_LOOK_AGAIN_S = 0.2
_FIRST_REBALANCE_S = 5.0
_FLUSH_EVENTS_MAX = 50
_WAIT_S_MAX = 3600.0  # what a queue waits for has to fit in the system's time

_Answer = TypeVar("_Answer")


def _always() -> bool:
    return True


def _now_ms() -> float:
    return time.monotonic_ns() / 1e6


@dataclass(frozen=True, slots=True)
class RebalanceSettings:
    """When leadership goes back to preferred leaders by itself; percentage: of a broker's own that others may lead."""

    interval_s: float
    percentage: int


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What the controller reads of the broker's settings."""

    broker_id: BrokerId
    unclean_leader_election: bool
    delete_topic_enable: bool
    socket_timeout_ms: float
    rebalance: RebalanceSettings | None = None
    min_insync_replicas: int = 1


@dataclass(frozen=True, slots=True)
class _Watches:
    brokers: Watch
    topics: Watch
    deletions: Watch
    log_dirs: Watch
    elections: Watch
    reassignments: Watch
    topic: Callable[[str], Watch]


class Controller(Reports):
    """A broker's candidate for controller, and the controller when it is elected. Public methods: any thread."""

    def __init__(
        self,
        settings: ControllerSettings,
        store: ControllerStore,
        loop: Loop,
        connect: PeerFactory,
        emit: Emit | None,
        on_controller: Callable[[BrokerId | None], None],
        on_topic_deleted: Callable[[str], None] = lambda topic: None,
        retries: Callable[[], Backoff] = Backoff,
        on_broken: Callable[[Exception], None] = lambda error: None,
        known_topic_id: Callable[[str], str] = lambda topic: "",
    ) -> None:
        """on_controller: who is controller now, as `/controller` says. on_topic_deleted: wholly, by this controller.

        on_broken: the thread has ended by an error; the broker has to end as well, so that others are elected. All
        three are called on the loop's thread. retries: how long to wait before everything is loaded anew.
        known_topic_id: what this broker was last told that a topic's id is, "" for nothing; called on this thread.
        """
        self._settings = settings
        self._store = store
        self._loop = loop
        self._on_controller = on_controller
        self._on_topic_deleted = on_topic_deleted
        self._on_broken = on_broken
        self._known_topic_id = known_topic_id
        self._channels = ControllerChannels(loop, connect, settings.socket_timeout_ms, self)
        self._outbox = LoopOutbox(loop, self._channels, emit)
        self._events: queue.SimpleQueue[tuple[str, Callable[[], None]]] = queue.SimpleQueue()
        self._delayed = TimerHeap()
        """Controller's thread only, by the monotonic clock."""
        self._asked = WantedRequests()
        self._queued: set[str] = set()
        self._rewritten: set[str] = set()
        """Topics whose watches have fired and that have not been read again."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._term: ControllerTerm | None = None
        self._registered = False
        self._stopping = False
        self._reload_backoff = retries()
        self._reload_due = False
        self._rebalance_timer: TimerHandle | None = None
        self._unclean_default = settings.unclean_leader_election
        self._min_isr_default = settings.min_insync_replicas
        self._watches = _Watches(
            brokers=lambda: self._put_once("brokers", self._brokers_changed),
            topics=lambda: self._put_once("topics", self._topics_changed),
            deletions=lambda: self._put_once("deletions", self._deletions_changed),
            log_dirs=lambda: self._put_once("log-dirs", self._log_dirs_changed),
            elections=lambda: self._put_once("elections", self._elections_asked),
            reassignments=lambda: self._put_once("reassignments", self._reassignments_asked),
            topic=lambda name: lambda: self._on_topic_watch(name),
        )

    # Any thread

    @property
    def active(self) -> bool:
        """Whether this broker is controller, as far as it knows."""
        return self._term is not None

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait_s: float) -> None:
        """Resign, so that another is elected at once, and end the thread; wait no longer than wait_s for that.

        Before the ZooKeeper client is closed; `join` after it, for only then a blocked call ends.
        """
        self._put("stop", self._stop)
        if self._thread.ident is not None:
            self._thread.join(wait_s)

    def join(self, wait_s: float) -> None:
        """Wait for the thread's end; one that hangs in a call that ZooKeeper does not answer is left behind."""
        if self._thread.ident is not None:
            self._thread.join(wait_s)

    def registered(self) -> None:
        """The broker is registered (anew): it may be elected."""
        self._put("registered", self._on_registered)

    def session_lost(self) -> None:
        """The session is over, and with it the controllership; until `registered` the broker is no candidate."""
        self._put("session-lost", self._on_session_lost)

    def reconnected(self) -> None:
        """The same session is back: watches may have been lost."""
        self._put_once("reconnected", self._on_reconnected)

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        self._put("config", lambda: self._in_term(lambda term: term.topic_config_changed(topic, overrides)))

    def defaults_changed(self, unclean: bool, min_isr: int) -> None:
        """What topics without a setting of their own have."""

        def event() -> None:
            self._unclean_default, self._min_isr_default = unclean, min_isr
            self._when_loaded(
                "defaults", lambda term: term.defaults_changed(self._unclean_default, self._min_isr_default)
            )

        self._put("defaults", event)

    def prepare_suspicion(self, broker: BrokerId, then: Callable[[Suspect | None], None]) -> None:
        """then is called on the loop's thread, exactly once."""

        def event() -> None:
            suspect = None
            try:
                suspect = self._suspect(broker)
            finally:
                self._loop.call_soon_threadsafe(lambda: then(suspect))

        self._put("suspicion", event)

    def act_on_suspicion(self, suspect: Suspect) -> None:
        """Elect away from a broker whose process is gone, or take its controllership over."""
        name = f"suspicion-{suspect.broker}"
        self._put(name, lambda: self._act_on_suspicion(name, suspect))

    def reachable(self, broker: BrokerId) -> None:
        """A broker that may be suspected answers."""
        name = f"reachable-{broker}"
        self._put(name, lambda: self._when_loaded(name, lambda term: term.suspicions.reachable(broker)))

    def alter_partition(
        self,
        request: AlterPartitionRequest,
        version: int,
        answer: Callable[[AlterPartitionResponse], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """answer is called as `ask` says."""
        self.ask(
            lambda term: term.isr_changes.alter_partition(request, version),
            lambda error: AlterPartitionResponse(error_code=error),
            answer,
            wanted,
        )

    def controlled_shutdown(
        self,
        request: ControlledShutdownRequest,
        answer: Callable[[ControlledShutdownResponse], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """answer is called as `ask` says."""
        self.ask(
            lambda term: term.leavers.controlled_shutdown(request.broker_id, request.broker_epoch),
            lambda error: ControlledShutdownResponse(error_code=error),
            answer,
            wanted,
        )

    # Reports of the channels

    def stale_controller(self) -> None:
        self._put_once("controller", self._controller_changed)

    def replicas_deleted(self, broker: BrokerId, deleted: list[tuple[str, int]]) -> None:
        self._put("deleted", lambda: self._in_term(lambda term: self._on_replicas_deleted(term, broker, deleted)))

    def replicas_kept(self, broker: BrokerId, kept: list[TopicPartition]) -> None:
        self._put("kept", lambda: self._in_term(lambda term: term.admin.replicas_kept(broker, kept)))

    def replicas_failed(self, broker: BrokerId, broker_epoch: int, failed: list[tuple[str, int]]) -> None:
        self._put("failed", lambda: self._in_term(lambda term: term.replicas_failed(broker, broker_epoch, failed)))

    def epochs_refused(self, broker: BrokerId, broker_epoch: int, refused: list[tuple[str, int, int]]) -> None:
        self._put("refused", lambda: self._in_term(lambda term: term.epochs_refused(broker, broker_epoch, refused)))

    def replicas_reported(
        self,
        broker: BrokerId,
        broker_epoch: int,
        reports: dict[TopicPartition, ReplicaReport],
        asked_under: dict[TopicPartition, Epoch],
    ) -> None:
        def event() -> None:
            self._in_term(lambda term: term.replicas_reported(broker, broker_epoch, reports, asked_under))

        self._put("reported", event)

    def needs_everything(self, broker: BrokerId) -> None:
        self._put_once(f"everything-{broker}", lambda: self._in_term(lambda term: term.send_everything(broker)))

    # The queue

    def _put(self, name: str, event: Callable[[], None]) -> None:
        self._events.put((name, event))

    def _put_once(self, name: str, event: Callable[[], None]) -> None:
        """For events that only say "look again": one in the queue is enough."""
        with self._lock:
            if name in self._queued:
                return
            self._queued.add(name)
        self._put(name, event)

    def _put_later(self, name: str, event: Callable[[], None], delay_s: float = _LOOK_AGAIN_S) -> TimerHandle:
        """As _put_once, in delay_s. Controller's thread."""
        return self._delayed.add(_now_ms() + delay_s * 1000, partial(self._put_once, name, event))

    def _next(self) -> tuple[str, Callable[[], None]]:
        """Wait for the next event. Controller's thread."""
        while True:
            now_ms = _now_ms()
            while (due := self._delayed.pop_due(now_ms)) is not None:
                due()
            next_ms = self._delayed.next_ms()
            try:
                wait_s = None if next_ms is None else min((next_ms - now_ms) / 1000, _WAIT_S_MAX)
                return self._events.get(timeout=wait_s)
            except queue.Empty:
                continue

    def _reload_later(self) -> None:
        """Once for all events that failed until then; later each time that a load failed too. Controller's thread."""
        if not self._reload_due:
            self._reload_due = True
            self._put_later("reload", self._reload, self._reload_backoff.next_ms() / 1000)

    def ask(
        self,
        do: Callable[[ControllerTerm], _Answer],
        refuse: Callable[[ErrorCode], _Answer],
        answer: Callable[[_Answer], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """Queue a request; answer is called on the loop's thread, exactly once, unless it is not wanted any more.

        What failed in the middle is answered as unknown, never as done. wanted: whether the sender waits still; any
        thread. What nobody waits for is not done: its sender has sent it again.
        """

        def event() -> None:
            result = refuse(ErrorCode.NOT_CONTROLLER)
            try:
                if self._term is not None and self._term.loaded:
                    result = do(self._term)
            except StoreUnavailable:
                result = refuse(ErrorCode.REQUEST_TIMED_OUT)
                raise
            finally:
                self._loop.call_soon_threadsafe(lambda: answer(result))

        self._put("request", self._asked.put(event, wanted))

    def _run(self) -> None:
        try:
            self._carry_out()
        except BaseException as error:
            _log.critical("the controller's thread ends by an error", exc_info=True)
            if not self._stopping:
                broken = RuntimeError(f"the controller's thread ended by an error: {error!r}")
                self._loop.call_soon_threadsafe(lambda: self._on_broken(broken))

    def _carry_out(self) -> None:
        handled = 0
        while not self._stopping:
            name, event = self._next()
            with self._lock:
                self._queued.discard(name)
            self._handle(name, event)
            handled += 1
            if self._events.empty() or handled >= _FLUSH_EVENTS_MAX:
                handled = 0
                self._handle("metadata", lambda: self._in_term(lambda term: term.flush_metadata()))

    def _handle(self, name: str, event: Callable[[], None]) -> None:
        try:
            event()
        except ControllerMoved as moved:
            _log.info("%s", moved)
            self._give_up()
            self._put_once("controller", self._controller_changed)
        except StoreUnavailable as unavailable:
            if not self._stopping:
                _log.warning("event %s: %s", name, unavailable)
                self._reload_later()
        except Exception:
            _log.exception("event %s failed: the controller loads its state anew", name)
            self._reload_later()

    # Events; controller's thread

    def _in_term(self, do: Callable[[ControllerTerm], None]) -> None:
        """Not where a load broke off: the next one, which is due, finds what this event is about."""
        if self._term is not None and self._term.loaded:
            do(self._term)

    def _when_loaded(self, name: str, do: Callable[[ControllerTerm], None]) -> None:
        """For what no load finds out: where one broke off it waits for the next."""
        if self._term is not None and not self._term.loaded:
            self._put_later(name, lambda: self._when_loaded(name, do))
        else:
            self._in_term(do)

    def _brokers_changed(self) -> None:
        self._in_term(lambda term: term.brokers_changed())

    def _topics_changed(self) -> None:
        self._in_term(lambda term: term.topics_changed())

    def _deletions_changed(self) -> None:
        self._in_term(lambda term: term.deletions_changed())
        self._in_term(self._finish_deletions)

    def _log_dirs_changed(self) -> None:
        self._in_term(lambda term: term.log_dirs_changed())

    def _topics_rewritten(self) -> None:
        with self._lock:
            names, self._rewritten = self._rewritten, set()
        self._in_term(lambda term: term.topics_rewritten(names))

    def _elections_asked(self) -> None:
        self._in_term(lambda term: term.admin.elections.on_request())

    def _reassignments_asked(self) -> None:
        self._in_term(lambda term: term.admin.reassignments.on_request())

    def _on_replicas_deleted(self, term: ControllerTerm, broker: BrokerId, deleted: list[tuple[str, int]]) -> None:
        term.replicas_deleted(broker, term.named(deleted))
        self._finish_deletions(term)

    def _finish_deletions(self, term: ControllerTerm) -> None:
        for topic in term.finish_deletions():
            self._loop.call_soon_threadsafe(partial(self._on_topic_deleted, topic))

    def _on_registered(self) -> None:
        self._registered = True
        self._controller_changed()

    def _on_session_lost(self) -> None:
        self._registered = False
        self._give_up()
        # Watches went with the connection, and a registration may take its time.
        self._controller_changed()

    def _on_reconnected(self) -> None:
        self._controller_changed()
        self._brokers_changed()
        self._topics_changed()
        self._deletions_changed()
        self._log_dirs_changed()
        self._in_term(lambda term: term.admin.reconnected())

    def _reload(self) -> None:
        self._reload_due = False
        self._controller_changed()
        if self._term is not None:
            self._term.load()
        self._reload_backoff.reset()

    def _controller_changed(self) -> None:
        """Look who is controller; stand for election while nobody is."""
        current = self._store.current_controller(self._on_controller_watch)
        if self._term is not None and current != self._settings.broker_id:
            self._give_up()
        if current is None and self._registered:
            self._elect()
            return
        if current == self._settings.broker_id and self._term is None:
            self._store.release(self._settings.broker_id)
        self._loop.call_soon_threadsafe(lambda: self._on_controller(current))

    def _on_controller_watch(self) -> None:
        self._put_once("controller", self._controller_changed)

    def _on_topic_watch(self, name: str) -> None:
        """One event for all topics that change until it is handled: reading them together costs as much as one."""
        with self._lock:
            self._rewritten.add(name)
        self._put_once("rewritten", self._topics_rewritten)

    def _suspect(self, broker: BrokerId) -> Suspect | None:
        if self._term is not None:
            known = self._term.state.brokers.get(broker)
            return None if known is None else Suspect(broker, known.epoch)
        if not self._registered:
            return None
        found = self._store.controller_to_suspect(broker)
        return None if found is None else Suspect(broker, *found)

    def _act_on_suspicion(self, name: str, suspect: Suspect) -> None:
        if suspect.controller_version is None:
            self._when_loaded(name, lambda term: term.suspicions.suspect(suspect.broker, suspect.broker_epoch))
        elif self._term is None and self._registered:
            term = self._store.take_over(
                self._settings.broker_id, suspect.broker, suspect.broker_epoch, suspect.controller_version
            )
            if term is None:
                self._put_once("controller", self._controller_changed)
            else:
                self._begin(term, suspect)

    def _elect(self) -> None:
        term = self._store.elect(self._settings.broker_id)
        if term is None:
            self._put_once("controller", self._controller_changed)
            return
        self._begin(term)

    def _begin(self, term: Term, suspect: Suspect | None = None) -> None:
        """suspect: whose place was taken; its partitions are moved as well."""
        _log.info("this broker is controller, epoch %d", term.epoch)
        self._term = ControllerTerm(
            term,
            self._settings.broker_id,
            self._store,
            self._outbox,
            self._watches,
            self._unclean_default,
            self._settings.delete_topic_enable,
            new_topic_id,
            self._min_isr_default,
            self._known_topic_id,
        )
        self._outbox.emit("controller", ce=term.epoch, what="elected")
        self._loop.call_soon_threadsafe(lambda: self._on_controller(self._settings.broker_id))
        if suspect is not None:
            self._term.suspicions.carry(suspect.broker, suspect.broker_epoch)
        if self._settings.rebalance is not None:
            self._rebalance_in(min(_FIRST_REBALANCE_S, self._settings.rebalance.interval_s))
        self._term.load()

    def _rebalance_in(self, delay_s: float) -> None:
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
        self._rebalance_timer = self._put_later("rebalance", self._rebalance, delay_s)

    def _rebalance(self) -> None:
        settings = self._settings.rebalance
        if self._term is not None and settings is not None:
            self._rebalance_in(settings.interval_s)
            self._in_term(lambda term: term.admin.elections.rebalance(settings.percentage))

    def _give_up(self) -> None:
        if self._term is None:
            return
        epoch = self._term.term.epoch
        _log.info("this broker is not controller any more, epoch %d", epoch)
        self._term = None
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
        self._outbox.emit("controller", ce=epoch, what="resigned")
        self._outbox.set_brokers(())

    def _stop(self) -> None:
        self._stopping = True
        if self._term is not None:
            term = self._term.term
            self._give_up()
            self._store.resign(term)
