"""AlterPartition at the controller: its request, what is decided and written, its response.

`IsrChanges` belongs to the controller's thread; the rest is pure. Source: KafkaController.processAlterPartition.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from broker.core.controller import alter_partition as alter
from broker.core.controller.stored import StateWrite
from broker.model.ids import TopicPartition
from broker.model.repeats import Repeats
from broker.runtime.controller.state_writer import PartitionStateWriter
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

_log = logging.getLogger("broker.controller")

Decision = alter.Write | alter.Unchanged | ErrorCode
_EPOCHS_FROM_VERSION = 3


class RequestedPartition(NamedTuple):
    """One partition of the request; proposal None: the topic id is unknown."""

    topic_id: str
    partition: int
    proposal: alter.Proposal | None


def epochs_required(version: int) -> bool:
    """Whether a proposal of this AlterPartition version carries the members' broker epochs (v3+, KIP-903)."""
    return version >= _EPOCHS_FROM_VERSION


def parse(request: AlterPartitionRequest, version: int, topic_names: Mapping[str, str]) -> list[RequestedPartition]:
    """topic_names: name by topic id."""
    requested = []
    for topic in request.topics:
        name = topic_names.get(topic.topic_id)
        for part in topic.partitions:
            if name is None:
                requested.append(RequestedPartition(topic.topic_id, part.partition_index, None))
                continue
            isr = (
                {member.broker_id: member.broker_epoch for member in part.new_isr_with_epochs}
                if epochs_required(version)
                else dict.fromkeys(part.new_isr, -1)
            )
            proposal = alter.Proposal(
                TopicPartition(name, part.partition_index),
                part.leader_epoch,
                part.partition_epoch,
                isr,
                recovering=bool(part.leader_recovery_state),
            )
            requested.append(RequestedPartition(topic.topic_id, part.partition_index, proposal))
    return requested


def build_response(
    requested: list[RequestedPartition], decisions: Mapping[TopicPartition, Decision]
) -> AlterPartitionResponse:
    """Every accepted change has become `Unchanged` with what was written, or an error."""
    topics: dict[str, ResponseTopicData] = {}
    for topic_id, partition, proposal in requested:
        entry = topics.setdefault(topic_id, ResponseTopicData(topic_id, []))
        decision = ErrorCode.UNKNOWN_TOPIC_ID if proposal is None else decisions[proposal.topic_partition]
        assert not isinstance(decision, alter.Write), "an accepted change was neither written nor refused"
        if isinstance(decision, ErrorCode):
            entry.partitions.append(ResponsePartitionData(partition_index=partition, error_code=decision))
            continue
        now = decision.current
        entry.partitions.append(
            ResponsePartitionData(
                partition_index=partition,
                leader_id=now.leader,
                leader_epoch=now.leader_epoch,
                isr=list(now.isr),
                leader_recovery_state=int(now.recovering),
                partition_epoch=now.partition_epoch,
                elr_min_isr=now.elr_min_isr,
            )
        )
    return AlterPartitionResponse(topics=list(topics.values()))


class IsrChanges:
    """What leaders propose. Other brokers get ISR changes together: `ControllerTerm.flush_metadata` takes `unsent`."""

    def __init__(self, writer: PartitionStateWriter) -> None:
        self._writer = writer
        self._repeats = Repeats()
        self.unsent: set[TopicPartition] = set()

    def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Decide every partition, write the accepted changes together; the response has all of them."""
        writer = self._writer
        error = alter.check_sender(writer.state, request.broker_id, request.broker_epoch)
        if error is not ErrorCode.NONE:
            sender = (request.broker_id, request.broker_epoch)
            text = "AlterPartition of broker %d, epoch %d: %s"
            self._repeats.log(_log, logging.INFO, error.name, text, *sender, error.name)
            return AlterPartitionResponse(error_code=error)
        requested = parse(request, version, writer.topic_names)
        with_epochs = epochs_required(version)
        decisions = {
            proposal.topic_partition: alter.decide(
                writer.state, request.broker_id, proposal, with_epochs, writer.term.epoch
            )
            for _, _, proposal in requested
            if proposal is not None
        }
        self._write(decisions)
        return build_response(requested, decisions)

    def _write(self, decisions: dict[TopicPartition, Decision]) -> None:
        """Write what was accepted; an accepted change that met another's becomes INVALID_UPDATE_VERSION."""
        writer = self._writer
        state = writer.state
        writes = [
            StateWrite(
                topic_partition, decision.before, state.completed(topic_partition, decision.before, decision.after)
            )
            for topic_partition, decision in decisions.items()
            if isinstance(decision, alter.Write)
        ]
        if not writes:
            return
        written = writer.store.write_states(writer.term, writes)
        writer.reread([topic_partition for topic_partition, now in written.items() if now is None])
        for topic_partition, now in written.items():
            if now is None:
                decisions[topic_partition] = ErrorCode.INVALID_UPDATE_VERSION
            else:
                state.states[topic_partition] = now
                decisions[topic_partition] = alter.Unchanged(now)
                # Who is in sync has files again.
                state.offline.difference_update((topic_partition, member) for member in now.isr)
                self.unsent.add(topic_partition)
