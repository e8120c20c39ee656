"""Topic settings that this broker uses, and the gate that holds LeaderAndIsr until they are known. Loop thread.

A topic's settings are read when LeaderAndIsr first names the topic under an id, before any role is taken: otherwise a
leader would begin with the broker's min.insync.replicas instead of the topic's. Later changes come through
`/config/changes`; after every reconnect all known topics are read again, for a notification may have been missed.
Source: kafka.server.DynamicConfigManager, ZkConfigManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from broker.core.admin import topic_names
from broker.core.admin.alter_configs import ALL_BROKERS
from broker.core.admin.stored import CHANGES_KEPT
from broker.core.controller.cluster_state import StoreUnavailable
from broker.model.backoff import Backoff
from broker.runtime.metadata.usable_overrides import usable_overrides
from broker.runtime.ports import Loop
from broker.runtime.requests.abandonable_requests import AbandonableRequests
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request
from broker.runtime.worker import Worker
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest

_log = logging.getLogger("broker.config")

_TOPICS = "topics/"


class TopicConfigStore(Protocol):
    """Blocking reads of settings; raise StoreUnavailable."""

    def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Overrides of each of these topics; blocks. Raises StoreUnavailable."""
        ...

    def config_changes(self, watch: Callable[[], None] | None, seen: Collection[str] = ()) -> Mapping[str, str | None]:
        """Notifications by name: the entity that changed. Those that are seen are not read, and name none."""
        ...

    def configured_topics(self) -> Sequence[str]:
        """All topics that have settings."""
        ...


OnChange = Callable[[str, Mapping[str, str]], None]


class TopicConfigCache:
    """Overrides by topic."""

    def __init__(
        self, store: TopicConfigStore, worker: Worker, loop: Loop, retries: Callable[[], Backoff] = Backoff
    ) -> None:
        """retries: a new one for each read that is repeated until ZooKeeper responds."""
        self._retries = retries
        self._changes_backoff = retries()
        self._store = store
        self._worker = worker
        self._loop = loop
        self._known: dict[str, tuple[str, Mapping[str, str]]] = {}
        """Topic → (topic id it was read for, overrides)."""
        self._listeners: list[OnChange] = []
        self._first: list[OnChange] = []
        self._notified: list[OnChange] = []
        self._entity_listeners: list[Callable[[str], None]] = []
        self._seen: set[str] = set()
        self._under_way: dict[frozenset[tuple[str, str]], list[Callable[[], None]]] = {}
        """First reads, by what they read, with the requests that wait for them."""

    def overrides(self, topic: str) -> Mapping[str, str]:
        """What was last read; empty for a topic that no LeaderAndIsr named."""
        known = self._known.get(topic)
        return known[1] if known is not None else {}

    def add_listener(self, listener: OnChange) -> None:
        """listener(topic, overrides) after a change, never for the first reading."""
        self._listeners.append(listener)

    def add_first_listener(self, listener: OnChange) -> None:
        """listener(topic, overrides) after the first reading for a topic id; what it knows may be older."""
        self._first.append(listener)

    def knows(self, topic: str) -> bool:
        """Whether its settings have been read; its overrides look empty before."""
        return topic in self._known

    def add_notification_listener(self, listener: OnChange) -> None:
        """listener(topic, overrides) on every notification of a topic, known here or not, changed or not."""
        self._notified.append(listener)

    def add_entity_listener(self, listener: Callable[[str], None]) -> None:
        """listener(entity) on a notification of anything but a topic, `brokers/1`."""
        self._entity_listeners.append(listener)

    def forget(self, topic: str) -> None:
        """The topic is deleted; one of the same name may come with other settings."""
        self._known.pop(topic, None)

    def start(self) -> None:
        """Begin to watch for changes. Also after every reconnect: watches are lost, notifications may be."""
        self._worker.submit("reading settings changes", self._read_changes)
        self.refresh()

    def refresh(self) -> None:
        """Read all known topics again."""
        topics = {topic: topic_id for topic, (topic_id, _) in self._known.items()}
        if topics:
            self.load(topics, lambda: None)

    def ensure(self, topics: Mapping[str, str], then: Callable[[], None]) -> None:
        """Call `then`, at once or in a later turn, when these topics (name → id) are known. Waits out ZooKeeper."""
        missing = {name: id_ for name, id_ in topics.items() if name not in self._known or self._known[name][0] != id_}
        if not missing:
            then()
            return
        reading = frozenset(missing.items())
        if reading in self._under_way:
            # The same request again: while ZooKeeper is away a controller repeats its requests.
            self._under_way[reading].append(then)
            return
        self._under_way[reading] = [then]

        def known() -> None:
            for waiting in self._under_way.pop(reading):
                waiting()

        self.load(missing, known)

    def load(self, topics: Mapping[str, str], then: Callable[[], None]) -> None:
        """Read these topics now, tell listeners of changes, then call `then` on the loop."""
        backoff = self._retries()

        def task() -> None:
            try:
                found = self._store.topic_configs(list(topics))
            except StoreUnavailable as unavailable:
                _log.warning("topic settings cannot be read yet: %s", unavailable)
                self._loop.call_soon_threadsafe(retry)
                return
            except Exception:
                # A LeaderAndIsr waits for it, and each repeat of that joins this read.
                _log.exception("topic settings cannot be read yet")
                self._loop.call_soon_threadsafe(retry)
                return
            self._loop.call_soon_threadsafe(lambda: self._loaded(topics, found, then))

        def retry() -> None:
            self._loop.call_later(backoff.next_ms(), lambda: self._worker.submit("reading topic settings", task))

        self._worker.submit("reading topic settings", task)

    def _loaded(
        self, topics: Mapping[str, str], found: Mapping[str, Mapping[str, str]], then: Callable[[], None]
    ) -> None:
        for topic, topic_id in topics.items():
            before = self._known.get(topic)
            now = usable_overrides(topic, found.get(topic, {}))
            self._known[topic] = (topic_id, now)
            if before is None or before[0] != topic_id:
                for listener in self._first:
                    _notify(listener, topic, now)
            if before is not None and before[1] != now:
                for listener in self._listeners:
                    _notify(listener, topic, now)
        then()

    def _read_changes(self) -> None:
        """Worker thread."""
        try:
            changes = self._store.config_changes(self._on_watch, self._seen)
        except StoreUnavailable as unavailable:
            _log.warning("settings changes cannot be read yet: %s", unavailable)
            wait_ms = self._changes_backoff.next_ms()
            self._loop.call_soon_threadsafe(lambda: self._read_changes_in(wait_ms))
            return
        self._changes_backoff.reset()
        fresh = {name: entity for name, entity in changes.items() if name not in self._seen}
        if fresh and not self._seen & changes.keys() and (self._seen or len(changes) >= CHANGES_KEPT):
            # So many notifications came at once that some between the last read and this one are removed already.
            self._loop.call_soon_threadsafe(self._all_may_have_changed)
        self._seen = set(changes)
        names = {e[len(_TOPICS) :] for e in fresh.values() if e is not None and e.startswith(_TOPICS)}
        if names:
            self._loop.call_soon_threadsafe(lambda: self._changed(names))
        entities = {e for e in fresh.values() if e is not None and not e.startswith(_TOPICS)}
        if entities:
            self._loop.call_soon_threadsafe(lambda: self._entities_changed(entities))

    def _read_changes_in(self, wait_ms: float) -> None:
        self._loop.call_later(wait_ms, self._on_watch)

    def _on_watch(self) -> None:
        self._worker.submit("reading settings changes", self._read_changes)

    def _all_may_have_changed(self) -> None:
        self.refresh()
        self._entities_changed({ALL_BROKERS})
        if self._notified:
            self._read_for_notified(None, self._retries())

    def _changed(self, names: set[str]) -> None:
        topics = {name: self._known[name][0] for name in names if name in self._known}
        if topics:
            self.load(topics, lambda: None)
        if self._notified:
            self._read_for_notified(sorted(names), self._retries())

    def _read_for_notified(self, topics: Sequence[str] | None, backoff: Backoff) -> None:
        """None: all topics."""

        def task() -> None:
            try:
                found = self._store.topic_configs(self._store.configured_topics() if topics is None else topics)
            except StoreUnavailable as unavailable:
                _log.warning("topic settings cannot be read yet: %s", unavailable)
                self._loop.call_soon_threadsafe(retry)
                return
            self._loop.call_soon_threadsafe(lambda: notify(found))

        def retry() -> None:
            self._loop.call_later(backoff.next_ms(), lambda: self._read_for_notified(topics, backoff))

        def notify(found: Mapping[str, Mapping[str, str]]) -> None:
            for topic in found if topics is None else topics:
                for listener in self._notified:
                    _notify(listener, topic, found.get(topic, {}))

        self._worker.submit("reading topic settings", task)

    def _entities_changed(self, entities: set[str]) -> None:
        for entity in sorted(entities):
            for listener in self._entity_listeners:
                listener(entity)


def _notify(listener: OnChange, topic: str, overrides: Mapping[str, str]) -> None:
    """A listener that fails must not keep the others, or LeaderAndIsr, from going on."""
    try:
        listener(topic, overrides)
    except Exception:
        _log.exception("settings of topic %s could not be taken up", topic)


def gate(cache: TopicConfigCache, handler: Callable[[Request], None]) -> Callable[[Request], None]:
    """A LeaderAndIsr handler that waits for the topics' settings before it hands the request on."""
    waiting = AbandonableRequests()

    def handle(request: Request) -> None:
        body = decode_or_refuse(request, LeaderAndIsrRequest)
        if body is None:
            return
        # The frame's bytes are the connection's again after this turn.
        kept = request.with_own_body()
        # Where a name is illegal there is nothing to read, and the roles are refused.
        topics = {
            topic.topic_name: topic.topic_id
            for topic in body.topic_states
            if topic_names.refusal(topic.topic_name) is None
        }
        # A sender that closed the connection has given this request up and sends it again, perhaps after newer ones.
        cache.ensure(topics, waiting.put(lambda: handler(kept), lambda: kept.open))

    return handle
