"""Brokers that leave by a controlled shutdown, at the controller.

The shutdown is noted in ZooKeeper before the broker gets the response that no leadership remains: the next controller
(this very broker may be the one that resigns) must not count it as live while it closes its logs. Belongs to the
controller's thread.
Source: KafkaController.doControlledShutdown; ADR 7.
"""

from __future__ import annotations

from broker.core.controller import alter_partition as alter
from broker.core.controller import decisions as rules
from broker.core.controller.cluster_state import ClusterState
from broker.model.ids import BrokerId
from broker.runtime.controller.state_writer import PartitionStateWriter
from broker.wire.errors import ErrorCode
from broker.wire.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition


class ShuttingDownBrokers:
    """Broker epochs of brokers that requested their shutdown; outlives the term's reloads."""

    def __init__(self, writer: PartitionStateWriter) -> None:
        self._writer = writer
        self._epochs: dict[BrokerId, int] = {}
        self._noted: dict[BrokerId, int] = {}
        """Of these, those whose note is known to be in ZooKeeper."""

    def load(self, state: ClusterState) -> None:
        """Mark the brokers that shut down in a state that was read anew."""
        noted = {broker: state.brokers[broker].epoch for broker in self._writer.store.shutting_down(state.brokers)}
        self._noted.update(noted)
        self._epochs.update(noted)
        state.shutting_down = state.still_registered(self._epochs)

    def controlled_shutdown(self, broker: BrokerId, broker_epoch: int) -> ControlledShutdownResponse:
        """Move leaderships and ISR places away, then stop the broker's replicas; the response names the leaderships
        that remain.
        """
        writer = self._writer
        state = writer.state
        error = alter.check_sender(state, broker, broker_epoch)
        if error is not ErrorCode.NONE:
            return ControlledShutdownResponse(error_code=error)
        state.shutting_down.add(broker)
        self._epochs[broker] = broker_epoch
        # The broker stops following before a leader learns that it has left the ISR, and follows nobody new. If it went
        # on fetching, leaders would propose it for the ISR again, and a proposal holds the watermark until a controller
        # responds, which may be the broker that shuts down.
        self._stop_following(broker)
        writer.settle_and_send(lambda: rules.broker_shutdown(state, broker, writer.term.epoch))
        if self._noted.get(broker) != broker_epoch:
            # After what ends outages; a broker that got no response sends to the next controller.
            writer.store.note_shutdown(writer.term, broker, broker_epoch)
            self._noted[broker] = broker_epoch
        return ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(*tp) for tp in rules.remaining_leaderships(state, broker)]
        )

    def _stop_following(self, broker: BrokerId) -> None:
        """StopReplica, which keeps the files, for all that this broker does not lead."""
        state = self._writer.state
        batch = self._writer.new_batch()
        for topic_partition in state.partitions_of((broker,)):
            current = state.states.get(topic_partition)
            if current is not None and current.leader != broker and topic_partition.topic not in state.deleting:
                batch.stop_replica(broker, topic_partition, delete=False)
        self._writer.send(batch)
