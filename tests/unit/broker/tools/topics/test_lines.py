from __future__ import annotations

from broker.tools.client.admin import Reassignment
from broker.tools.topics.lines import Reports, describe, replication_factor
from broker.wire.messages.describe_configs import DescribeConfigsResourceResult
from broker.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

ID = "e9ASV9C_T_GmmrL6QKWWuw"
CONFIGS = [
    DescribeConfigsResourceResult("retention.ms", "1000", config_source=1),
    DescribeConfigsResourceResult("segment.bytes", "99", config_source=5),
    DescribeConfigsResourceResult("min.insync.replicas", "2", config_source=4),
]


def partition(index: int, leader: int, replicas: list[int], isr: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(0, index, leader, 0, replicas, isr)


def topic(*partitions: MetadataResponsePartition, topic_id: str = ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(name="t", topic_id=topic_id, partitions=list(partitions))


WHOLE = partition(0, 1, [1, 2, 3], [1, 2, 3])
AT_MIN = partition(1, 2, [2, 3, 1], [2, 3])
BELOW_MIN = partition(2, 3, [3, 1, 2], [3])
WITHOUT_LEADER = partition(3, -1, [1, 2, 3], [1, 2, 3])
LED_BY_NOBODY_ALIVE = partition(4, 9, [9, 1, 2], [9, 1, 2])
ALL = topic(WHOLE, AT_MIN, BELOW_MIN, WITHOUT_LEADER, LED_BY_NOBODY_ALIVE)


def numbers(reports: Reports) -> list[int]:
    lines = list(describe(ALL, CONFIGS, {}, {1, 2, 3}, reports))
    assert all(line.startswith("\tTopic: t\tPartition: ") for line in lines)
    return [int(line.split("\t")[2].removeprefix("Partition: ")) for line in lines]


def test_topic_and_partitions_are_described_as_kafkas_tool_does() -> None:
    assert list(describe(topic(WHOLE, WITHOUT_LEADER), CONFIGS, {}, {1, 2, 3}, Reports())) == [
        f"Topic: t\tTopicId: {ID}\tPartitionCount: 2\tReplicationFactor: 3"
        "\tConfigs: retention.ms=1000,min.insync.replicas=2",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: N/A\tLastKnownElr: N/A",
        "\tTopic: t\tPartition: 3\tLeader: none\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: N/A\tLastKnownElr: N/A",
    ]


def test_topic_without_an_id_has_no_column_for_it() -> None:
    line = next(describe(topic(WHOLE, topic_id=""), [], {}, {1}, Reports()))
    assert line == "Topic: t\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: "


def test_reports_pick_partitions_and_leave_the_topics_line_out() -> None:
    assert numbers(Reports(under_replicated=True)) == [1, 2]
    assert numbers(Reports(unavailable=True)) == [3, 4]
    assert numbers(Reports(under_min_isr=True)) == [2, 3]
    assert numbers(Reports(at_min_isr=True)) == [1]
    assert numbers(Reports(under_replicated=True, at_min_isr=True, unavailable=True)) == [1, 2, 3, 4]


def test_topics_with_overrides_are_one_line_each_and_others_none() -> None:
    reports = Reports(overridden=True)
    assert len(list(describe(ALL, CONFIGS, {}, {1}, reports))) == 1
    assert list(describe(ALL, CONFIGS[1:2], {}, {1}, reports)) == []


def test_reassignment_is_shown_and_does_not_count_as_replication() -> None:
    moving = partition(0, 1, [1, 2, 3, 4], [1, 2, 3])
    reassignment = Reassignment((1, 2, 3, 4), adding=(4,), removing=(3,))
    lines = list(describe(topic(moving), [], {("t", 0): reassignment}, {1}, Reports()))
    assert "\tReplicationFactor: 3\t" in lines[0]
    assert "\tIsr: 1,2,3\tAdding Replicas: 4\tRemoving Replicas: 3\tElr: N/A" in lines[1]
    assert list(describe(topic(moving), [], {("t", 0): reassignment}, {1}, Reports(under_replicated=True))) == []


def test_reassignment_that_is_over_meanwhile_does_not_count() -> None:
    assert replication_factor(partition(0, 1, [1, 2], [1, 2]), Reassignment((1, 2, 3, 4), (3,), (4,))) == 2
