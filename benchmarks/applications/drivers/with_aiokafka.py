"""The driver for aiokafka."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from benchmarks.applications.drivers.say import PACE_S, say_failure, say_success


def _done(sent: asyncio.Future[Any]) -> None:
    error = sent.exception()
    if error is None:
        say_success()
    else:
        say_failure(error)


async def _produce(bootstrap: str, topic: str, _id: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    while True:
        try:
            (await producer.send(topic, b"x" * 100)).add_done_callback(_done)
        except KafkaError as error:
            say_failure(error)
        await asyncio.sleep(PACE_S)


async def _commit(bootstrap: str, topic: str, group: str) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group)
    await consumer.start()
    partition = TopicPartition(topic, 0)
    for offset in itertools.count(1):
        try:
            await consumer.getmany(timeout_ms=int(PACE_S * 1000))
            if partition in consumer.assignment():
                await consumer.commit({partition: offset})
                say_success()
        except KafkaError as error:
            say_failure(error)


async def _transact(bootstrap: str, topic: str, transactional_id: str) -> None:
    while True:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        try:
            await producer.start()
            while True:
                try:
                    await producer.begin_transaction()
                    await producer.send(topic, b"x" * 100)
                    await producer.commit_transaction()
                except KafkaError as error:
                    say_failure(error)
                    await producer.abort_transaction()
                else:
                    say_success()
                await asyncio.sleep(PACE_S)
        except KafkaError as error:
            say_failure(error)
            await producer.stop()


if __name__ == "__main__":
    work = {"produce": _produce, "commit": _commit, "transact": _transact}[sys.argv[1]]
    asyncio.run(work(*sys.argv[2:]))
