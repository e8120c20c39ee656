"""What the controller needs of ZooKeeper and of the loop, as Protocols in terms of broker.core.

All methods of the store block and run on the controller's thread. They raise ControllerMoved where a condition on the
controller's epoch failed, StoreUnavailable where ZooKeeper could not be reached. A watch is called once, on a foreign
thread, after something may have changed; it must only hand over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from broker.core.controller.cluster_state import Broker, LeaderAndIsr, Topic
from broker.core.controller.stored import AssignmentWrite, StatesRead, StateWrite, Term, TopicsRead, Watch
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.request_batch import Outgoing


class AssignmentStore(Protocol):
    """What administration needs."""

    def read_topic(self, name: str, watch: Watch) -> Topic | None:
        """One topic as it is now; the watch fires when it changes."""
        ...

    def write_assignments(
        self, term: Term, writes: Sequence[AssignmentWrite]
    ) -> Sequence[Mapping[TopicPartition, LeaderAndIsr] | None]:
        """Per write the states as written; None where topic or state is not as it was last read.

        At most one write per topic, of a topic that `topics` or `read_topic` has read.
        """
        ...

    def requested_elections(self, watch: Watch | None) -> Sequence[TopicPartition] | None:
        """Partitions for which a tool wants preferred leaders; None while none does."""
        ...

    def finish_elections(self, term: Term) -> None:
        """Forget that request."""
        ...

    def requested_reassignments(self, watch: Watch | None) -> Mapping[TopicPartition, tuple[BrokerId, ...]] | None:
        """Targets that a tool wants; None while none does."""
        ...

    def keep_reassignments(self, term: Term, targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> None:
        """Reduce that request to what is not done yet; nothing left removes it."""
        ...


class ControllerStore(AssignmentStore, Protocol):
    """ZooKeeper as the controller sees it."""

    def current_controller(self, watch: Watch | None) -> BrokerId | None:
        """Who holds `/controller`; the watch fires when that changes."""
        ...

    def elect(self, broker: BrokerId) -> Term | None:
        """Try to become controller; None when another was first."""
        ...

    def controller_to_suspect(self, broker: BrokerId) -> tuple[int, int] | None:
        """(broker epoch, version of `/controller_epoch`) of this broker, if it is the controller now."""
        ...

    def take_over(self, successor: BrokerId, broker: BrokerId, broker_epoch: int, version: int) -> Term | None:
        """Become controller in the place of a broker whose process is gone, in one step; spends its suspicion.

        None where `/controller_epoch` has moved on from version, or this registration has been suspected before.
        """
        ...

    def spend_suspicion(self, term: Term, broker: BrokerId, broker_epoch: int) -> bool:
        """Note that this registration is suspected; False when it has been before."""
        ...

    def note_shutdown(self, term: Term, broker: BrokerId, broker_epoch: int) -> None:
        """Note, for later controllers, that this registration has requested its shutdown."""
        ...

    def shutting_down(self, registered: Mapping[BrokerId, Broker]) -> AbstractSet[BrokerId]:
        """Of these registrations, those of which that is noted."""
        ...

    def forget_notes(self, term: Term, registered: Mapping[BrokerId, Broker]) -> None:
        """Drop what is noted of registrations that are gone: suspicions and shutdowns."""
        ...

    def resign(self, term: Term) -> None:
        """Give up `/controller` if this term still holds it."""
        ...

    def release(self, broker: BrokerId) -> None:
        """Give up a `/controller` that this session holds without a term (an election whose response was lost)."""
        ...

    def brokers(self, watch: Watch | None) -> Mapping[BrokerId, Broker]:
        """Registrations under `/brokers/ids`, by broker id. watch fires when a broker comes or goes."""
        ...

    def topic_names(self, watch: Watch | None) -> AbstractSet[str]:
        """Names under `/brokers/topics`. watch fires when a topic is created or deleted."""
        ...

    def topics(self, names: Sequence[str], watch: Callable[[str], Watch]) -> TopicsRead:
        """Those of the named topics that exist. watch(name) fires when that topic changes."""
        ...

    def assign_topic_id(self, term: Term, name: str, topic_id: str) -> Topic | None:
        """Give a topic made by an older tool its id, unless it has one; the topic as it is then, None if overtaken."""
        ...

    def states(self, partitions: Sequence[TopicPartition]) -> StatesRead:
        """Of these, the states that exist."""
        ...

    def write_states(self, term: Term, writes: Sequence[StateWrite]) -> Mapping[TopicPartition, LeaderAndIsr | None]:
        """The states as written, with their partition epoch; None where `before` does not stand any more."""
        ...

    def take_log_dir_events(self, term: Term, watch: Watch | None) -> AbstractSet[BrokerId]:
        """Brokers that have reported failed log dirs since the last call; removes the notifications."""
        ...

    def deletions(self, watch: Watch | None) -> AbstractSet[str]:
        """Topics that someone asked to delete."""
        ...

    def asked_ids(self, names: AbstractSet[str]) -> Mapping[str, tuple[str | None, str | None]]:
        """Of these requests to delete the ones that there still are: name → (the id that is asked for, None where it is
        asked by name; the id that the topic of this name has in ZooKeeper, None where there is none).
        """
        ...

    def finish_deletion(self, term: Term, topic: str, topic_id: str) -> None:
        """Remove everything of the topic of this name and id; the request to delete it goes with the topic itself,
        last. Raises StoreUnavailable where it may still be there, or another has its name.
        """
        ...

    def drop_deletion(self, term: Term, topic: str) -> bool:
        """Forget a request to delete; False where `asked_ids` has not read it, or another has taken its place since."""
        ...


class Outbox(Protocol):
    """Hands over to the loop; what is handed over first happens first."""

    def set_brokers(self, brokers: Iterable[Broker]) -> None:
        """Open channels to these registrations, close all others."""
        ...

    def send(self, requests: list[Outgoing]) -> None:
        """Queue requests for their brokers; order is kept per broker."""
        ...

    def emit(self, event: str, **fields: object) -> None:
        """A line of the event log, in order with `send`."""
        ...


class Watches(Protocol):
    """Notifications to the term; each is called on a foreign thread and only hands over."""

    @property
    def brokers(self) -> Watch:
        """`/brokers/ids`."""
        ...

    @property
    def topics(self) -> Watch:
        """`/brokers/topics`."""
        ...

    @property
    def deletions(self) -> Watch:
        """`/admin/delete_topics`."""
        ...

    @property
    def log_dirs(self) -> Watch:
        """`/log_dir_event_notification`."""
        ...

    @property
    def elections(self) -> Watch:
        """`/admin/preferred_replica_election`."""
        ...

    @property
    def reassignments(self) -> Watch:
        """`/admin/reassign_partitions`."""
        ...

    def topic(self, name: str) -> Watch:
        """`/brokers/topics/<name>`."""
        ...
