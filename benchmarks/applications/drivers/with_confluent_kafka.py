"""The driver for confluent-kafka (librdkafka)."""

from __future__ import annotations

import itertools
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from benchmarks.applications.drivers.say import PACE_S, say_failure, say_success


def _delivered(error: KafkaError | None, message: Message) -> None:
    if error is None:
        say_success()
    else:
        say_failure(error)


def _produce(bootstrap: str, topic: str, _id: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    while True:
        producer.produce(topic, b"x" * 100, on_delivery=_delivered)
        until = time.monotonic() + PACE_S
        while (left := until - time.monotonic()) > 0:
            producer.poll(left)


def _commit(bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    for offset in itertools.count(1):
        consumer.poll(PACE_S)
        if not consumer.assignment():
            continue
        try:
            done = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            say_failure(error)
        else:
            if done[0].error is None:
                say_success()
            else:
                say_failure(done[0].error)


def _transact(bootstrap: str, topic: str, transactional_id: str) -> None:
    while True:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
        try:
            producer.init_transactions()
            while True:
                producer.begin_transaction()
                producer.produce(topic, b"x" * 100)
                _end(producer)
                time.sleep(PACE_S)
        except KafkaException as error:
            say_failure(error)


def _end(producer: Producer) -> None:
    """Commit, as the library's documentation wants it: again when it may be tried again, abort when it must be."""
    while True:
        try:
            producer.commit_transaction()
        except KafkaException as error:
            say_failure(error)
            cause = error.args[0]
            if cause.txn_requires_abort():
                producer.abort_transaction()
                return
            if not cause.retriable():
                raise
        else:
            say_success()
            return


if __name__ == "__main__":
    {"produce": _produce, "commit": _commit, "transact": _transact}[sys.argv[1]](*sys.argv[2:])
