"""Reads a partition by confluent-kafka, so that an error which broker and harness share does not hide a loss.

Decides how librdkafka is set up and how its messages become records. Must not know drains or the history. The consumer
assigns, never subscribes, commits nothing, and does not skip what it cannot read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.clients.connection import Address
from harness.clients.values import parse_record

BATCH = 2000


class ConfluentError(Exception):
    """librdkafka reported an error for the partition; the text is its own."""


class Batch(NamedTuple):
    """records: (offset, value, epoch −1, intact) by offset; hw: as librdkafka last cached it, −1 unknown."""

    next_position: int
    hw: int
    records: list[tuple[int, int | None, int, bool]]
    at_ns: int


class ConfluentReader:
    """One consumer for one partition, from a position on."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        partition: int,
        position: int,
        name: str,
        *,
        read_committed: bool = False,
    ) -> None:
        # Part of the lab's extra; a broker-only install does without.
        from confluent_kafka import Consumer, TopicPartition

        self.topic = topic
        self.partition = partition
        self.position = position
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in bootstrap),
                "client.id": name,
                # Required, though nothing is committed and no group is joined.
                "group.id": name,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
                "check.crcs": True,
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
                # An error shows as a drain that does not reach its end.
                "error_cb": lambda _error: None,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, position)])

    def own_position(self) -> int | None:
        """Where librdkafka says that it stands; None before it has handed out a record."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            (stands,) = self._consumer.position([TopicPartition(self.topic, self.partition)])
        except KafkaException as error:
            raise ConfluentError(str(error)) from None
        return int(stands.offset) if stands.offset >= 0 else None

    def poll(self, wait_s: float, most: int = BATCH) -> Batch:
        """Messages that came within wait_s, at most `most`; an empty batch is no error. Raises ConfluentError."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            messages = self._consumer.consume(min(most, BATCH), wait_s)
            at_ns = time.monotonic_ns()
            records: list[tuple[int, int | None, int, bool]] = []
            for message in messages:
                if message.error() is not None:
                    raise ConfluentError(str(message.error()))
                value, intact = parse_record(
                    message.key(), message.value(), message.headers(), self.topic, self.partition
                )
                records.append((message.offset(), value, -1, intact))
            if records:
                self.position = records[-1][0] + 1
            _, hw = self._consumer.get_watermark_offsets(TopicPartition(self.topic, self.partition), cached=True)
        except KafkaException as error:
            raise ConfluentError(str(error)) from None
        return Batch(self.position, hw if hw is not None and hw >= 0 else -1, records, at_ns)

    def close(self) -> None:
        """Close the consumer; blocks until librdkafka's threads have ended."""
        self._consumer.close()
