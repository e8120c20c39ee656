"""Elections on request: ElectLeaders, `/admin/preferred_replica_election`, and the periodic rebalance.

Belongs to the controller's thread; who is elected is decided in `core.controller.preferred`.
Source: KafkaController.processReplicaLeaderElection, processAutoPreferredReplicaLeaderElection.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from broker.core.controller import preferred
from broker.core.controller.preferred import ElectionType
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.state_writer import PartitionStateWriter
from broker.wire.errors import ErrorCode

_log = logging.getLogger("broker.controller")

Result = BrokerId | tuple[ErrorCode, str | None]
"""The leader that was elected, or why none was."""


class RequestedElections:
    """See the module."""

    def __init__(self, writer: PartitionStateWriter) -> None:
        self._writer = writer

    def elect(self, wanted: Sequence[TopicPartition] | None, kind: ElectionType) -> Mapping[TopicPartition, Result]:
        """Elect where it is needed and possible, as one batch. wanted None: every partition."""
        writer = self._writer
        state = writer.state
        partitions = [tp for tp, _ in state.partitions()] if wanted is None else list(dict.fromkeys(wanted))
        refusals = {tp: why for tp in partitions if (why := preferred.refusal(state, tp, kind)) is not None}
        electable = [tp for tp in partitions if tp not in refusals]
        writer.settle_and_send(lambda: preferred.elect(state, electable, kind, writer.term.epoch))
        results: dict[TopicPartition, Result] = dict(refusals)
        for topic_partition in electable:
            why = preferred.refusal(state, topic_partition, kind)
            if why is None or why[0] is ErrorCode.ELECTION_NOT_NEEDED:
                results[topic_partition] = state.states[topic_partition].leader
            else:
                # It changed, or vanished, while the election was being written.
                results[topic_partition] = why
        return results

    def unheard(self, topic_partition: TopicPartition) -> bool:
        """Whether a live replica has yet to report its log, because it has just come: it may be elected soon."""
        state = self._writer.state
        reports = state.report_of(topic_partition)
        return any(
            broker in state.replicas(topic_partition) and reports(broker) is None
            for broker in state.live_for(topic_partition)
        )

    def on_request(self) -> None:
        """A tool has written down partitions that are to get their preferred leaders."""
        writer = self._writer
        wanted = writer.store.requested_elections(writer.watches.elections)
        if wanted is None:
            return
        results = self.elect(wanted, ElectionType.PREFERRED)
        for topic_partition, result in results.items():
            if isinstance(result, tuple) and result[0] is not ErrorCode.ELECTION_NOT_NEEDED:
                _log.warning("preferred election of %s: %s %s", topic_partition, result[0].name, result[1] or "")
        writer.store.finish_elections(writer.term)
        if writer.store.requested_elections(writer.watches.elections) is not None:
            # A tool has written a new request between the read and the deletion here: the watch has fired already, and
            # no other event comes.
            writer.watches.elections()

    def rebalance(self, percentage: int) -> None:
        """Give leadership back to preferred leaders, where a broker lacks more than percentage of its own.

        Also while partitions are reassigned, and of these (KAFKA-10149).
        """
        wanted = preferred.imbalanced(self._writer.state, percentage)
        if wanted:
            results = self.elect(wanted, ElectionType.PREFERRED)
            moved = sum(not isinstance(result, tuple) for result in results.values())
            if moved:
                _log.info("rebalance: %d of %d partitions led by their preferred leader again", moved, len(wanted))
