"""The lines of `topics --describe`: from Metadata, settings and reassignments to text. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from broker.tools.client.admin import DEFAULT_SOURCE, Reassignment
from broker.tools.text import joined
from broker.wire.messages.describe_configs import DescribeConfigsResourceResult
from broker.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


class Reports(NamedTuple):
    """Which partitions are wanted, and whether topics without settings of their own are left out."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    overridden: bool = False

    @property
    def of_partitions(self) -> bool:
        """Whether only some partitions are wanted."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr


def describe(
    topic: MetadataResponseTopic,
    configs: Sequence[DescribeConfigsResourceResult],
    reassignments: Mapping[tuple[str, int], Reassignment],
    live: Collection[int],
    reports: Reports,
) -> Iterator[str]:
    """A topic's line, and one for each of its partitions. live: ids of the brokers that are there."""
    name = topic.name or ""
    own = [one for one in configs if one.config_source != DEFAULT_SOURCE]
    if not reports.of_partitions and topic.partitions and (own or not reports.overridden):
        first = topic.partitions[0]
        factor = replication_factor(first, reassignments.get((name, first.partition_index)))
        identity = f"\tTopicId: {topic.topic_id}" if topic.topic_id else ""
        shown = ",".join(f"{one.name}={one.value}" for one in own)
        yield (
            f"Topic: {name}{identity}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {factor}\tConfigs: {shown}"
        )
    if reports.overridden:
        return
    minimum = next((int(one.value or 1) for one in configs if one.name == "min.insync.replicas"), 1)
    for partition in topic.partitions:
        moving = reassignments.get((name, partition.partition_index))
        if not reports.of_partitions or _reported(partition, moving, minimum, live, reports):
            yield _partition(name, partition, moving)


def replication_factor(partition: MetadataResponsePartition, moving: Reassignment | None) -> int:
    """Replicas, without those that a reassignment only adds."""
    if moving is None or not set(partition.replica_nodes) & {*moving.adding, *moving.removing}:
        return len(partition.replica_nodes)
    return len(moving.replicas) - len(moving.adding)


def _reported(
    partition: MetadataResponsePartition,
    moving: Reassignment | None,
    minimum: int,
    live: Collection[int],
    reports: Reports,
) -> bool:
    led, in_sync = partition.leader_id >= 0, len(partition.isr_nodes)
    return (
        (reports.under_replicated and replication_factor(partition, moving) > in_sync)
        or (reports.unavailable and (not led or partition.leader_id not in live))
        or (reports.under_min_isr and (not led or in_sync < minimum))
        or (reports.at_min_isr and in_sync == minimum)
    )


def _partition(name: str, partition: MetadataResponsePartition, moving: Reassignment | None) -> str:
    leader = str(partition.leader_id) if partition.leader_id >= 0 else "none"
    line = (
        f"\tTopic: {name}\tPartition: {partition.partition_index}\tLeader: {leader}"
        f"\tReplicas: {joined(partition.replica_nodes)}\tIsr: {joined(partition.isr_nodes)}"
    )
    if moving is not None:
        line += f"\tAdding Replicas: {joined(moving.adding)}\tRemoving Replicas: {joined(moving.removing)}"
    # Eligible leader replicas are KRaft's.
    return f"{line}\tElr: N/A\tLastKnownElr: N/A"
