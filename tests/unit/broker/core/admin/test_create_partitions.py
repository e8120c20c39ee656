"""What CreatePartitions may ask for; errors and texts are Kafka's."""

from __future__ import annotations

import pytest

from broker.core.admin.create_partitions import plan_partitions
from broker.core.admin.create_topics import Refused
from broker.core.controller.cluster_state import Topic
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic

RACKS = {1: None, 2: None, 3: None}
TOPIC = Topic("t", "id", {0: (2, 3), 1: (3, 1)})
MOVING = Topic("t", "id", {0: (2, 3), 1: (3, 1)}, {0: (2,)}, {})
DOOMED = Topic("t", "id", {0: (2, 3), 1: (3, 1)}, {}, {0: (1,)})


def asked(count: int, *assignments: list[int]) -> CreatePartitionsTopic:
    manual = [CreatePartitionsAssignment(one) for one in assignments] if assignments else None
    return CreatePartitionsTopic("t", count, manual)


def test_new_partitions_go_round_from_the_first_replica_of_partition_0() -> None:
    planned = plan_partitions(asked(5), TOPIC, RACKS)
    assert isinstance(planned, dict)
    assert list(planned) == [2, 3, 4]
    assert [replicas[0] for replicas in planned.values()] == [1, 2, 3]
    assert {len(set(replicas)) for replicas in planned.values()} == {2}


def test_manual_assignment_is_kept_and_logs_to_delete_hinder_nothing() -> None:
    assert plan_partitions(asked(4, [1, 2], [3, 2]), TOPIC, RACKS) == {2: (1, 2), 3: (3, 2)}
    assert isinstance(plan_partitions(asked(3), DOOMED, RACKS), dict)


@pytest.mark.parametrize(
    ("wanted", "topic", "error", "text"),
    [
        (asked(3), None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 't' does not exist."),
        (asked(3), MOVING, ErrorCode.REASSIGNMENT_IN_PROGRESS, "A partition reassignment is in progress for the topic"),
        (asked(1), TOPIC, ErrorCode.INVALID_PARTITIONS, "2 partitions, which is higher than the requested 1."),
        (asked(2**31 - 1), TOPIC, ErrorCode.INVALID_PARTITIONS, "at most 10000"),
        (asked(2), TOPIC, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (asked(2**31 - 1), TOPIC, ErrorCode.INVALID_PARTITIONS, "must be at most 10000"),
        (asked(3, [9, 1]), TOPIC, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Unknown broker(s) in replica assignment: 9."),
        (asked(4, [1, 2]), TOPIC, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "by 2 but 1 assignments provided."),
        (asked(3, [1, 1]), TOPIC, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate brokers not allowed"),
        (asked(3, []), TOPIC, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Cannot have replication factor of 0"),
        (asked(3, [1]), TOPIC, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Inconsistent replication factor between"),
    ],
)
def test_what_cannot_be_is_refused(
    wanted: CreatePartitionsTopic, topic: Topic | None, error: ErrorCode, text: str
) -> None:
    refused = plan_partitions(wanted, topic, RACKS)
    assert isinstance(refused, Refused)
    assert refused.error is error
    assert refused.text is not None
    assert text in refused.text
