"""One round of a real client, librdkafka's, that finds leader and coordinator by itself: produce, read back, commit."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

_WITHIN_S: Final = 15.0


def whole_round(bootstrap: str, topic: str, group: str) -> None:
    """A record with acks=all into partition 0, read again, and committed by the group. Raises KafkaException with what
    the client was told, or a time-out.
    """
    offset = _produced(bootstrap, topic)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        deadline = time.monotonic() + _WITHIN_S
        while True:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None and message.offset() == offset:
                break
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{topic}-0@{offset} is not read again"))
        after = TopicPartition(topic, 0, offset + 1)
        consumer.commit(offsets=[after], asynchronous=False)
        (committed,) = consumer.committed([after], timeout=_WITHIN_S)
        if committed.offset != offset + 1:
            raise KafkaException(
                KafkaError(KafkaError._FAIL, f"{offset + 1} was committed, {committed.offset} is there")
            )
    finally:
        consumer.close()


def _produced(bootstrap: str, topic: str) -> int:
    told: list[tuple[KafkaError | None, int | None]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        told.append((error, message.offset()))

    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": int(_WITHIN_S * 1000), "log_level": 0})
    producer.produce(topic, b"again", partition=0, on_delivery=delivered)
    producer.flush(_WITHIN_S * 2)
    if not told:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"a record to {topic}-0 is not delivered"))
    error, offset = told[0]
    if error is not None or offset is None:
        raise KafkaException(error)
    return offset
