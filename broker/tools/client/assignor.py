"""Kafka's range assignor: of each topic each member gets neighbouring partitions. No I/O.

Source: org.apache.kafka.clients.consumer.RangeAssignor, without racks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition

RANGE: Final = "range"


class Subscriber(NamedTuple):
    """A member, its instance id ("" for a dynamic one) and the topics that it asks for."""

    member_id: str
    instance_id: str
    topics: frozenset[str]


def assign(subscribers: list[Subscriber], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """Partitions by member id. partitions: how many each topic has; one that is absent is left out.

    Static members come first, by their instance ids, so that a restart with a new member id changes nothing.
    """
    found: dict[str, list[TopicPartition]] = {one.member_id: [] for one in subscribers}
    for topic, count in sorted(partitions.items()):
        members = sorted(
            (one for one in subscribers if topic in one.topics),
            key=lambda one: (not one.instance_id, one.instance_id, one.member_id),
        )
        if not members:
            continue
        each, more = divmod(count, len(members))
        start = 0
        for index, one in enumerate(members):
            end = start + each + (index < more)
            found[one.member_id] += [(topic, partition) for partition in range(start, end)]
            start = end
    return found
