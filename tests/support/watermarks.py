"""Where a partition begins and ends, asked through librdkafka as often as Kafka's own clients would ask."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

# "Ask again" to Kafka's own clients: leadership moves (as it does 5 s after a controller's election, too), or the new
# leader's followers do not have the start of its epoch yet. librdkafka's call hands these on.
_ASK_AGAIN = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
# librdkafka (2.16) says so, without asking, of a partition that had no leader when a consumer that was not assigned it
# heard of it, for as long as it keeps what it heard (`metadata.max.age.ms`). Brokers hear of a leader one after the
# other, so the first one asked may not know of it yet.
_HEARD_TOO_EARLY = KafkaError._UNKNOWN_PARTITION


def watermarks(consumer: Consumer, topic: str, partition: int = 0, limit_s: float = 20) -> tuple[int, int]:
    """Log start and end (high watermark, or last stable offset for read_committed), in records."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=limit_s)
            return int(low), int(high)
        except KafkaException as error:
            code = error.args[0].code()
            if code not in {*_ASK_AGAIN, _HEARD_TOO_EARLY} or time.monotonic() > deadline:
                raise
            if code == _HEARD_TOO_EARLY:
                consumer.list_topics(topic, timeout=limit_s)
