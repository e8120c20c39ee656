"""The administrative half of a controller's term: added partitions, elections on request, reassignments.

Belongs to the controller's thread. The term passes on events; handlers of requests come by `Controller.request`.
Source: KafkaController.processPartitionModifications, and see the parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.reassignment import Reassignments
from broker.runtime.controller.request_batch import RequestBatch
from broker.runtime.controller.requested_elections import RequestedElections
from broker.runtime.controller.state_writer import PartitionStateWriter

_log = logging.getLogger("broker.controller")


class ControllerAdmin:
    """See the module."""

    def __init__(self, writer: PartitionStateWriter, load_term: Callable[[], None]) -> None:
        self._writer = writer
        self._load_term = load_term
        self.elections = RequestedElections(writer)
        self.reassignments = Reassignments(writer)

    # Called by the term

    def load(self) -> None:
        """The state was read anew; nothing of it has been sent to any broker yet."""
        self.reassignments.load()

    def loaded(self) -> None:
        """The brokers have been sent the state: requests made while nobody was controller are handled now."""
        self.elections.on_request()
        self.reassignments.on_request()

    def reconnected(self) -> None:
        """Watches were lost with the connection: look at everything that they watched."""
        self._take_added(sorted(self._writer.state.topics))
        self.loaded()

    def add_everything(self, broker: BrokerId, batch: RequestBatch) -> None:
        """Add to a batch that sends a broker everything."""
        self.reassignments.send_deletions(broker, batch)

    def replicas_deleted(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """A broker has deleted replicas, as StopReplica demanded."""
        self.reassignments.replicas_deleted(broker, partitions)

    def replicas_kept(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """A broker could not delete replicas, and will not try again by itself."""
        self.reassignments.replicas_kept(broker, partitions)

    def advance(self) -> None:
        """After every batch of events."""
        self.reassignments.advance()

    def topics_rewritten(self, names: Iterable[str]) -> None:
        """Known topics' znodes were written, by us or by someone who adds partitions: the new ones get leaders.

        Replicas of partitions that are known change by reassignments only, which are written here.
        """
        self._take_added(sorted(names))

    def _take_added(self, names: Sequence[str]) -> None:
        """Read these topics again, with new watches; partitions that are not known get leaders."""
        writer = self._writer
        state = writer.state
        with_state = state.states.keys() | state.unreadable
        new: list[TopicPartition] = []
        for name, found in writer.store.topics(names, writer.watches.topic).topics.items():
            known = state.topics[name]
            if not found.topic_id and known.topic_id:
                _log.warning("topic %s was written without its id %s: it is given back", name, known.topic_id)
                found = writer.with_topic_id(found, known.topic_id)
            # A reassignment may have read the topic with its new partitions since, but no leader was elected for these.
            added = sorted(
                partition
                for partition in found.partitions
                if partition not in known.partitions or TopicPartition(name, partition) not in with_state
            )
            if not added or found.topic_id != known.topic_id:
                continue
            if name in state.deleting:
                _log.warning("partitions %s of topic %s are not made: it is being deleted", added, name)
                continue
            assigned = {partition: found.partitions[partition] for partition in added}
            _log.info("topic %s has new partitions: %s", name, assigned)
            state.topics[name] = replace(known, partitions={**known.partitions, **assigned})
            new += [TopicPartition(name, partition) for partition in added]
        if new and not writer.take_up(new):
            self._load_term()
