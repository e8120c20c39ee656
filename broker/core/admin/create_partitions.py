"""What CreatePartitions asks for, checked and turned into replicas for the new partitions. Pure.

Errors and texts are Kafka's. Source: ZkAdminManager.createPartitions, AdminZkClient.createNewPartitionsAssignment.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.admin.create_topics import Refused
from broker.core.controller.assignment import AssignmentRefused, assign, check_size
from broker.core.controller.cluster_state import Topic
from broker.core.controller.reassignment import assignment_of
from broker.model.ids import BrokerId
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_partitions import CreatePartitionsTopic

Added = dict[int, tuple[BrokerId, ...]]


def plan_partitions(
    wanted: CreatePartitionsTopic, topic: Topic | None, racks: Mapping[BrokerId, str | None]
) -> Added | Refused:
    """racks: of the live brokers."""
    if topic is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
    if any((one := assignment_of(topic, partition)) is not None and one.moving for partition in topic.partitions):
        text = f"A partition reassignment is in progress for the topic '{wanted.name}'."
        return Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
    before = len(topic.partitions)
    if wanted.count < before:
        text = f"Topic currently has {before} partitions, which is higher than the requested {wanted.count}."
        return Refused(ErrorCode.INVALID_PARTITIONS, text)
    if wanted.count == before:
        return Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {before} partitions.")
    first = topic.partitions.get(0)
    if not first:
        text = f"Unexpected existing replica assignment for topic '{wanted.name}', partition id 0 is missing."
        return Refused(ErrorCode.INVALID_REQUEST, text)
    try:
        check_size(wanted.count, len(first))
    except AssignmentRefused as refused:
        return Refused(ErrorCode.INVALID_PARTITIONS, str(refused))
    if wanted.assignments is not None:
        manual = [tuple(one.broker_ids) for one in wanted.assignments]
        return _check_manual(manual, wanted.count - before, before, len(first), racks)
    start = next((index for index, broker in enumerate(sorted(racks)) if broker >= first[0]), 0)
    try:
        return assign(racks, wanted.count - before, len(first), start, start, before)
    except AssignmentRefused as refused:
        return Refused(ErrorCode.INVALID_REPLICATION_FACTOR, str(refused))


def _check_manual(
    manual: list[tuple[BrokerId, ...]], count: int, before: int, factor: int, racks: Mapping[BrokerId, str | None]
) -> Added | Refused:
    error = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    unknown = sorted({broker for replicas in manual for broker in replicas} - racks.keys())
    if unknown:
        return Refused(error, f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(manual) != count:
        text = f"Increasing the number of partitions by {count} but {len(manual)} assignments provided."
        return Refused(error, text)
    added = dict(enumerate(manual, before))
    for partition, replicas in added.items():
        if not replicas:
            return Refused(error, f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) != len(replicas):
            listed = ", ".join(map(str, replicas))
            text = f"Duplicate brokers not allowed in replica assignment: {listed} for partition id {partition}."
            return Refused(error, text)
    odd = {partition: len(replicas) for partition, replicas in added.items() if len(replicas) != factor}
    if odd:
        return Refused(
            error,
            f"Inconsistent replication factor between partitions, partition 0 has {factor} while partitions "
            f"[{', '.join(map(str, odd))}] have replication factors [{', '.join(map(str, odd.values()))}], "
            "respectively.",
        )
    return added
