"""What brokers' responses to the controller's requests become: events of its queue.

The channels call this on the loop's thread; the events run on the controller's thread, in the term that is in force
then.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.controller.elr import ReplicaReport
from broker.model.ids import BrokerId, Epoch, TopicPartition
from broker.runtime.controller.channel_manager import Reports
from broker.runtime.controller.event_manager import ControllerEventManager
from broker.runtime.controller.term import ControllerTerm

InTerm = Callable[[Callable[[ControllerTerm], None]], None]


class ChannelEvents(Reports):
    """Reports of the channels, as events."""

    def __init__(
        self,
        events: ControllerEventManager,
        in_term: InTerm,
        controller_changed: Callable[[], None],
        finish_deletions: Callable[[ControllerTerm], None],
    ) -> None:
        """in_term calls its argument with the term at hand, if there is one that is loaded."""
        self._events = events
        self._in_term = in_term
        self._controller_changed = controller_changed
        self._finish_deletions = finish_deletions

    def stale_controller(self) -> None:
        """A broker knows a newer controller epoch: see who is controller."""
        self._events.put_once("controller", self._controller_changed)

    def replicas_deleted(self, broker: BrokerId, deleted: list[tuple[str, int]]) -> None:
        """A broker removed these replicas' files; deleted: (topic id, partition)."""
        self._put("deleted", lambda term: self._replicas_deleted(term, broker, deleted))

    def replicas_kept(self, broker: BrokerId, kept: list[TopicPartition]) -> None:
        """A broker refused to delete these replicas."""
        self._put("kept", lambda term: term.admin.replicas_kept(broker, kept))

    def replicas_failed(self, broker: BrokerId, broker_epoch: int, failed: list[tuple[str, int]]) -> None:
        """A broker's log dir failed under these replicas; failed: (topic id, partition)."""
        self._put("failed", lambda term: term.offline_replicas.failed(broker, broker_epoch, term.named(failed)))

    def replicas_usable(self, broker: BrokerId, broker_epoch: int, usable: list[tuple[str, int]]) -> None:
        """A broker follows with replicas that counted as failed; usable: (topic id, partition)."""
        self._put("usable", lambda term: term.offline_replicas.usable(broker, broker_epoch, term.named(usable)))

    def epochs_refused(self, broker: BrokerId, broker_epoch: int, refused: list[tuple[str, int, int]]) -> None:
        """A broker knows newer leader epochs; refused: (topic id, partition, leader epoch sent)."""
        self._put("refused", lambda term: term.epochs_refused(broker, broker_epoch, refused))

    def replicas_reported(
        self,
        broker: BrokerId,
        broker_epoch: int,
        reports: dict[TopicPartition, ReplicaReport],
        request_epochs: dict[TopicPartition, Epoch],
    ) -> None:
        """Replicas of leaderless partitions reported their logs; request_epochs: leader epochs at the request."""
        self._put("reported", lambda term: term.replicas_reported(broker, broker_epoch, reports, request_epochs))

    def needs_everything(self, broker: BrokerId) -> None:
        """A broker may have missed requests: send it the whole metadata and all roles."""
        self._events.put_once(f"everything-{broker}", lambda: self._in_term(lambda term: term.send_everything(broker)))

    def _put(self, name: str, do: Callable[[ControllerTerm], None]) -> None:
        self._events.put(name, lambda: self._in_term(do))

    def _replicas_deleted(self, term: ControllerTerm, broker: BrokerId, deleted: list[tuple[str, int]]) -> None:
        term.replicas_deleted(broker, term.named(deleted))
        self._finish_deletions(term)
