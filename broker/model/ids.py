"""The names by which everybody in the broker speaks of offsets, brokers, leader epochs and partitions. No rules."""

from __future__ import annotations

from typing import NamedTuple

Offset = int
BrokerId = int
Epoch = int


class TopicPartition(NamedTuple):
    """A partition's name; prints as Kafka's folder name does, `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
