"""A broker's candidate for controller: elections for `/controller`, and the events that an elected controller handles.

Watches, requests of brokers, their responses and changes of the session become events of `ControllerEventManager`,
whose thread handles them one after the other. A controller that finds a newer controller epoch resigns and forgets its
term. A broker stands for election only while it is registered.
Should the thread break, its broker has to end too: `/controller` would stay this broker's.
Source: kafka.controller.KafkaController.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from broker.core.controller.cluster_state import StoreUnavailable
from broker.core.controller.stored import Term
from broker.model.backoff import Backoff
from broker.model.ids import BrokerId
from broker.model.timers import TimerHandle
from broker.runtime.controller.channel_events import ChannelEvents
from broker.runtime.controller.channel_manager import ControllerChannels, PeerFactory
from broker.runtime.controller.event_manager import ControllerEventManager
from broker.runtime.controller.outbox import Emit, LoopOutbox
from broker.runtime.controller.ports import ControllerStore
from broker.runtime.controller.settings import ControllerSettings
from broker.runtime.controller.term import ControllerTerm
from broker.runtime.controller.watch_events import WatchEvents
from broker.runtime.lifecycle.failure_detector import Suspect
from broker.runtime.metadata.topic_ids import new_topic_id
from broker.runtime.ports import Loop
from broker.runtime.requests.abandonable_requests import AbandonableRequests
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

_log = logging.getLogger("broker.controller")

_FIRST_REBALANCE_S = 5.0

_Response = TypeVar("_Response")


def _always() -> bool:
    return True


class Controller:
    """Stands for controller, and is the controller once elected. Public methods: any thread."""

    def __init__(
        self,
        settings: ControllerSettings,
        store: ControllerStore,
        loop: Loop,
        connect: PeerFactory,
        emit: Emit | None,
        on_controller: Callable[[BrokerId | None], None],
        on_topic_deleted: Callable[[str, str], None] = lambda topic, topic_id: None,
        retries: Callable[[], Backoff] = Backoff,
        on_broken: Callable[[Exception], None] = lambda error: None,
        known_topic_id: Callable[[str], str] = lambda topic: "",
    ) -> None:
        """on_controller: who is controller now, as `/controller` says. on_topic_deleted: name and id of one that was
        deleted wholly, by this controller.

        on_broken: the thread has ended by an error; the broker has to end as well, so that others are elected. All
        three are called on the loop's thread. retries: how long to wait before everything is loaded anew.
        known_topic_id: a topic's id in this broker's metadata cache, "" where it has none; called on this thread.
        """
        self._settings = settings
        self._store = store
        self._loop = loop
        self._on_controller = on_controller
        self._on_topic_deleted = on_topic_deleted
        self._on_broken = on_broken
        self._known_topic_id = known_topic_id
        self._events = ControllerEventManager(
            self._on_moved,
            self._reload_later,
            lambda: self._in_term(lambda term: term.flush_metadata()),
            self._on_thread_broken,
        )
        reports = ChannelEvents(self._events, self._in_term, self._controller_changed, self._finish_deletions)
        self._outbox = LoopOutbox(loop, ControllerChannels(loop, connect, settings.socket_timeout_ms, reports), emit)
        self._requests = AbandonableRequests()
        self._term: ControllerTerm | None = None
        self._registered = False
        self._reload_backoff = retries()
        self._reload_due = False
        self._for_load: deque[Callable[[ControllerTerm], None]] = deque()
        """What waits for the load that is due."""
        self._rebalance_timer: TimerHandle | None = None
        self._unclean_default = settings.unclean_leader_election
        self._min_isr_default = settings.min_insync_replicas
        self._watches = WatchEvents(self._events, self._in_term, self._finish_deletions)

    # Any thread

    @property
    def active(self) -> bool:
        """Whether this broker is controller, as far as it knows."""
        return self._term is not None

    def start(self) -> None:
        """Start the controller's thread; the broker stands for election once it is `registered`."""
        self._events.start()

    def shutdown(self, wait_s: float) -> None:
        """Resign, so that another is elected at once, and end the thread; wait no longer than wait_s for that.

        Before the ZooKeeper client is closed; `join` after it, for only then a blocked call ends.
        """
        self._events.put("shutdown", self._shutdown)
        self._events.join(wait_s)

    def join(self, wait_s: float) -> None:
        """Wait for the thread's end; a thread that hangs in a call to ZooKeeper without a response is left behind."""
        self._events.join(wait_s)

    def registered(self) -> None:
        """The broker is registered (anew): it may be elected."""
        self._events.put("registered", self._on_registered)

    def session_lost(self) -> None:
        """The session is over, and with it the controllership; until `registered` the broker is no candidate."""
        self._events.put("session-lost", self._on_session_lost)

    def reconnected(self) -> None:
        """The same session is back: watches may have been lost."""
        self._events.put_once("reconnected", self._on_reconnected)

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """A topic's settings changed; overrides: all of its own, by Kafka's names."""
        self._events.put("config", lambda: self._in_term(lambda term: term.topic_config_changed(topic, overrides)))

    def defaults_changed(self, unclean: bool, min_isr: int) -> None:
        """What topics without a setting of their own have."""

        def event() -> None:
            self._unclean_default, self._min_isr_default = unclean, min_isr
            self._when_loaded(lambda term: term.defaults_changed(self._unclean_default, self._min_isr_default))

        self._events.put("defaults", event)

    def prepare_suspicion(self, broker: BrokerId, then: Callable[[Suspect | None], None]) -> None:
        """then is called on the loop's thread, exactly once."""

        def event() -> None:
            suspect = None
            try:
                suspect = self._suspect(broker)
            finally:
                self._loop.call_soon_threadsafe(lambda: then(suspect))

        self._events.put("suspicion", event)

    def act_on_suspicion(self, suspect: Suspect) -> None:
        """Elect away from a broker whose process is gone, or take its controllership over."""
        self._events.put(f"suspicion-{suspect.broker}", lambda: self._act_on_suspicion(suspect))

    def reachable(self, broker: BrokerId) -> None:
        """A broker that may be suspected answers."""
        self._events.put(
            f"reachable-{broker}", lambda: self._when_loaded(lambda term: term.suspicions.reachable(broker))
        )

    def alter_partition(
        self,
        request: AlterPartitionRequest,
        version: int,
        respond: Callable[[AlterPartitionResponse], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """A leader proposes an ISR; respond and wanted as in `request`."""
        self.request(
            lambda term: term.isr_changes.alter_partition(request, version),
            lambda error: AlterPartitionResponse(error_code=error),
            respond,
            wanted,
        )

    def controlled_shutdown(
        self,
        request: ControlledShutdownRequest,
        respond: Callable[[ControlledShutdownResponse], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """A broker requests that its leaderships are moved away; respond and wanted as in `request`."""
        self.request(
            lambda term: term.shutting_down_brokers.controlled_shutdown(request.broker_id, request.broker_epoch),
            lambda error: ControlledShutdownResponse(error_code=error),
            respond,
            wanted,
        )

    def names_of(
        self,
        topic_ids: Collection[str],
        respond: Callable[[Mapping[str, str] | None], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """The names of these topics by id, without those that the controller does not know; None where this broker is
        not the controller. respond and wanted as in `request`.
        """
        self.request(lambda term: term.names_of(topic_ids), lambda error: None, respond, wanted)

    def request(
        self,
        do: Callable[[ControllerTerm], _Response],
        refuse: Callable[[ErrorCode], _Response],
        respond: Callable[[_Response], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """Queue a request; `respond` is called on the loop's thread, exactly once, unless nobody wants it any more.

        refuse makes the response for an error: NOT_CONTROLLER, or REQUEST_TIMED_OUT where ZooKeeper was lost in the
        middle, so that nobody knows what was done. wanted: whether the sender still waits; called on any thread. A
        request that nobody waits for is dropped: its sender has sent another.
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
                self._loop.call_soon_threadsafe(lambda: respond(result))

        self._events.put("request", self._requests.put(event, wanted))

    # What the thread calls

    def _on_moved(self) -> None:
        self._give_up()
        self._events.put_once("controller", self._controller_changed)

    def _reload_later(self) -> None:
        """Once for all events that failed until then; later each time that a load failed too.

        Until then nothing is decided: what the event has written may not be in the term's state, nor may what it has
        noted there be written.
        """
        if self._term is not None:
            self._term.loaded = False
        if not self._reload_due:
            self._reload_due = True
            self._events.put_later("reload", self._reload, self._reload_backoff.next_ms() / 1000)

    def _on_thread_broken(self, error: BaseException) -> None:
        broken = RuntimeError(f"the controller's thread ended by an error: {error!r}")
        self._loop.call_soon_threadsafe(lambda: self._on_broken(broken))

    # Events; controller's thread

    def _in_term(self, do: Callable[[ControllerTerm], None]) -> None:
        """Not where an event failed: the next load, which is due, finds what this event is about."""
        if self._term is not None and self._term.loaded:
            do(self._term)

    def _when_loaded(self, do: Callable[[ControllerTerm], None]) -> None:
        """For what no load finds out: where an event failed it waits for the load that is due, and what comes behind it
        too: the withdrawal of a suspicion must not overtake the suspicion.
        """
        if self._term is not None and (self._for_load or not self._term.loaded):
            self._for_load.append(do)
        else:
            self._in_term(do)

    def _do_what_waited(self) -> None:
        """The load is done. What fails is dropped as any event; what is behind it waits for the next load."""
        while self._for_load:
            self._in_term(self._for_load.popleft())

    def _finish_deletions(self, term: ControllerTerm) -> None:
        for topic, topic_id in term.finish_deletions().items():
            self._loop.call_soon_threadsafe(partial(self._on_topic_deleted, topic, topic_id))

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
        self._watches.reconnected()

    def _reload(self) -> None:
        self._reload_due = False
        self._controller_changed()
        if self._term is not None:
            self._term.load()
        self._reload_backoff.reset()
        self._do_what_waited()

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
        self._events.put_once("controller", self._controller_changed)

    def _suspect(self, broker: BrokerId) -> Suspect | None:
        if self._term is not None:
            known = self._term.state.brokers.get(broker)
            return None if known is None else Suspect(broker, known.epoch)
        if not self._registered:
            return None
        found = self._store.controller_to_suspect(broker)
        return None if found is None else Suspect(broker, *found)

    def _act_on_suspicion(self, suspect: Suspect) -> None:
        if suspect.controller_version is None:
            self._when_loaded(lambda term: term.suspicions.suspect(suspect.broker, suspect.broker_epoch))
        elif self._term is None and self._registered:
            term = self._store.take_over(
                self._settings.broker_id, suspect.broker, suspect.broker_epoch, suspect.controller_version
            )
            if term is None:
                self._events.put_once("controller", self._controller_changed)
            else:
                self._begin(term, suspect)

    def _elect(self) -> None:
        term = self._store.elect(self._settings.broker_id)
        if term is None:
            self._events.put_once("controller", self._controller_changed)
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
        self._rebalance_timer = self._events.put_later("rebalance", self._rebalance, delay_s)

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
        self._for_load.clear()
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
        self._outbox.emit("controller", ce=epoch, what="resigned")
        self._outbox.set_brokers(())

    def _shutdown(self) -> None:
        self._events.end()
        if self._term is not None:
            term = self._term.term
            self._give_up()
            self._store.resign(term)
