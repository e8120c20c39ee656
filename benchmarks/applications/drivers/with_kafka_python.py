"""The driver for kafka-python."""

from __future__ import annotations

import itertools
import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from benchmarks.applications.drivers.say import PACE_S, say_failure, say_success


def _produce(bootstrap: str, topic: str, _id: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    while True:
        try:
            sent = producer.send(topic, b"x" * 100)
        except KafkaError as error:
            say_failure(error)
        else:
            sent.add_callback(lambda _: say_success()).add_errback(say_failure)
        time.sleep(PACE_S)


def _commit(bootstrap: str, topic: str, group: str) -> None:
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group)
    partition = TopicPartition(topic, 0)
    for offset in itertools.count(1):
        try:
            consumer.poll(timeout_ms=PACE_S * 1000)
            if partition in consumer.assignment():
                consumer.commit({partition: OffsetAndMetadata(offset, "", -1)})
                say_success()
        except KafkaError as error:
            say_failure(error)


def _transact(bootstrap: str, topic: str, transactional_id: str) -> None:
    while True:
        try:
            _transact_until_fatal(bootstrap, topic, transactional_id)
        except KafkaError as error:
            say_failure(error)


def _transact_until_fatal(bootstrap: str, topic: str, transactional_id: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    while True:
        try:
            producer.begin_transaction()
            producer.send(topic, b"x" * 100)
            producer.commit_transaction()
        except KafkaError as error:
            say_failure(error)
            producer.abort_transaction()
        else:
            say_success()
        time.sleep(PACE_S)


if __name__ == "__main__":
    {"produce": _produce, "commit": _commit, "transact": _transact}[sys.argv[1]](*sys.argv[2:])
