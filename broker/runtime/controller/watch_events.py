"""What the controller's watches become: events of its queue.

ZooKeeper's thread fires a watch; the event runs on the controller's thread, in the term of that moment. A watch only
says that something changed, so one event in the queue stands for all that fire until it is handled.
Source: KafkaController's ZNode change handlers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from broker.core.controller.stored import Watch
from broker.runtime.controller.event_manager import ControllerEventManager
from broker.runtime.controller.term import ControllerTerm

InTerm = Callable[[Callable[[ControllerTerm], None]], None]


class WatchEvents:
    """Satisfies `controller.ports.Watches`. Watches are called on any thread, `reconnected` on the controller's."""

    def __init__(
        self,
        events: ControllerEventManager,
        in_term: InTerm,
        finish_deletions: Callable[[ControllerTerm], None],
    ) -> None:
        """in_term calls its argument with the term at hand, if there is one that is loaded."""
        self._events = events
        self._in_term = in_term
        self._finish_deletions = finish_deletions
        self._lock = threading.Lock()
        self._rewritten: set[str] = set()
        """Topics whose watches have fired and that have not been read again."""

    def brokers(self) -> None:
        """`/brokers/ids` changed."""
        self._events.put_once("brokers", self._brokers_changed)

    def topics(self) -> None:
        """`/brokers/topics` changed."""
        self._events.put_once("topics", self._topics_changed)

    def deletions(self) -> None:
        """`/admin/delete_topics` changed."""
        self._events.put_once("deletions", self._deletions_changed)

    def log_dirs(self) -> None:
        """`/log_dir_event_notification` changed."""
        self._events.put_once("log-dirs", self._log_dirs_changed)

    def elections(self) -> None:
        """`/admin/preferred_replica_election` was made."""
        self._events.put_once("elections", self._elections_requested)

    def reassignments(self) -> None:
        """`/admin/reassign_partitions` was made or changed."""
        self._events.put_once("reassignments", self._reassignments_requested)

    def topic(self, name: str) -> Watch:
        """The watch of `/brokers/topics/<name>`."""
        return partial(self._topic_changed, name)

    def reconnected(self) -> None:
        """Watches may have been lost with the connection: look at all that they watched."""
        self._brokers_changed()
        self._topics_changed()
        self._deletions_changed()
        self._log_dirs_changed()
        self._in_term(lambda term: term.admin.reconnected())

    def _topic_changed(self, name: str) -> None:
        """One event for all topics that change until it is handled: reading them together costs as much as one."""
        with self._lock:
            self._rewritten.add(name)
        self._events.put_once("rewritten", self._topics_rewritten)

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

    def _elections_requested(self) -> None:
        self._in_term(lambda term: term.admin.elections.on_request())

    def _reassignments_requested(self) -> None:
        self._in_term(lambda term: term.admin.reassignments.on_request())
