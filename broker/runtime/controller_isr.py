"""AlterPartition's request and answer, between wire and rules. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core import controller_alter_partition as alter
from broker.runtime.ports import TopicPartition
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

Decision = alter.Write | alter.Unchanged | ErrorCode
_EPOCHS_FROM_VERSION = 3


class Asked(NamedTuple):
    """One partition of the request; proposal None: the topic id is unknown."""

    topic_id: str
    partition: int
    proposal: alter.Proposal | None


def epochs_required(version: int) -> bool:
    return version >= _EPOCHS_FROM_VERSION


def parse(request: AlterPartitionRequest, version: int, topic_names: Mapping[str, str]) -> list[Asked]:
    """topic_names: name by topic id."""
    asked = []
    for topic in request.topics:
        name = topic_names.get(topic.topic_id)
        for part in topic.partitions:
            if name is None:
                asked.append(Asked(topic.topic_id, part.partition_index, None))
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
            asked.append(Asked(topic.topic_id, part.partition_index, proposal))
    return asked


def answer(asked: list[Asked], decisions: Mapping[TopicPartition, Decision]) -> AlterPartitionResponse:
    """Every accepted change has become `Unchanged` with what was written, or an error."""
    topics: dict[str, ResponseTopicData] = {}
    for topic_id, partition, proposal in asked:
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
