"""Transactional producers of several libraries behind one face, for tests that show the same of each.

An answer is "committed", "aborted", or "failed: …" where the client could neither commit nor abort.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from harness.clients.late import in_time
from tests.support.line_program import Ask, line_program

WAIT_S = 60
LOST_S = 30
"""A request that kafka-python still waits for then was never sent."""
PARTITIONS = 3
COMMITTED, ABORTED = "committed", "aborted"


class TransactionalClient(Protocol):
    """One producer with its transactional id, initialised."""

    def transact(self, topic: str, commit: bool, values: Sequence[str]) -> str:
        """The values in one transaction, in turn to partitions 0 to 2."""
        ...

    def transform(self, source: str, target: str, group: str, count: int, commit: bool) -> str:
        """Records that the group has not read yet, each in <> to partition 0, with the group's offsets."""
        ...

    def close(self) -> None: ...


class Confluent:
    """librdkafka."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        from confluent_kafka import Producer

        self._bootstrap = bootstrap
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        self._producer = Producer(settings)
        self._producer.init_transactions(WAIT_S)

    def transact(self, topic: str, commit: bool, values: Sequence[str]) -> str:
        from confluent_kafka import KafkaException

        try:
            self._producer.begin_transaction()
            for place, value in enumerate(values):
                self._producer.produce(topic, value, partition=place % PARTITIONS)
            return self._end(commit)
        except KafkaException as failure:
            return self._given_up(failure)

    def _end(self, commit: bool) -> str:
        from confluent_kafka import KafkaException

        if not commit:
            self._producer.flush(WAIT_S)
            self._producer.abort_transaction(WAIT_S)
            return ABORTED
        while True:
            try:
                self._producer.commit_transaction(WAIT_S)
                return COMMITTED
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise

    def _given_up(self, failure: Any) -> str:
        from confluent_kafka import KafkaException

        if not failure.args[0].txn_requires_abort():
            return f"failed: {failure}"
        try:
            self._producer.abort_transaction(WAIT_S)
        except KafkaException as again:
            return f"failed: {again}"
        return ABORTED

    def transform(self, source: str, target: str, group: str, count: int, commit: bool) -> str:
        from confluent_kafka import Consumer, Message, TopicPartition

        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0, **settings})
        try:
            consumer.subscribe([source])
            taken: list[Message] = []
            while len(taken) < count:
                message = consumer.poll(WAIT_S)
                assert message is not None
                assert message.error() is None
                taken.append(message)
            self._producer.begin_transaction()
            places: dict[int, int] = {}
            for message in taken:
                self._producer.produce(target, f"<{(message.value() or b'').decode()}>", partition=0)
                places[message.partition() or 0] = (message.offset() or 0) + 1
            offsets = [TopicPartition(source, partition, offset) for partition, offset in places.items()]
            self._producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
            return self._end(commit)
        finally:
            consumer.close()

    def close(self) -> None:
        del self._producer


class KafkaPython:
    """kafka-python, which may lose a request to a coordinator whose connection goes away, and waits for it for ever."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        import kafka

        self._bootstrap = bootstrap.split(",")
        self._producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap, transactional_id=transactional_id)
        self._producer.init_transactions()

    def transact(self, topic: str, commit: bool, values: Sequence[str]) -> str:
        from kafka.errors import KafkaError

        try:
            self._producer.begin_transaction()
            for place, value in enumerate(values):
                self._producer.send(topic, value.encode(), partition=place % PARTITIONS)
            return self._end(commit)
        except (KafkaError, _RequestLost) as failure:
            return self._given_up(failure)

    def _end(self, commit: bool) -> str:
        if commit:
            _in_time(self._producer.commit_transaction)
            return COMMITTED
        self._producer.flush(WAIT_S)
        _in_time(self._producer.abort_transaction)
        return ABORTED

    def _given_up(self, failure: Exception) -> str:
        from kafka.errors import KafkaError

        if isinstance(failure, _RequestLost):
            return f"failed: {failure}"
        try:
            _in_time(self._producer.abort_transaction)
        except (KafkaError, _RequestLost):
            return f"failed: {failure}"
        return ABORTED

    def transform(self, source: str, target: str, group: str, count: int, commit: bool) -> str:
        import kafka
        from kafka.structs import OffsetAndMetadata

        consumer = kafka.KafkaConsumer(
            source,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        try:
            taken: list[Any] = []
            while len(taken) < count:
                for records in consumer.poll(200).values():
                    taken += records
            self._producer.begin_transaction()
            offsets = {}
            for record in taken[:count]:
                self._producer.send(target, b"<" + record.value + b">", partition=0)
                place = kafka.TopicPartition(source, record.partition)
                offsets[place] = OffsetAndMetadata(record.offset + 1, "", -1)
            self._producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            return self._end(commit)
        finally:
            consumer.close()

    def close(self) -> None:
        self._producer.close(timeout=5)


class _RequestLost(Exception):
    """The client waits for the answer to what it did not send."""


def _in_time(call: Callable[[], None]) -> None:
    """Raises _RequestLost, and what the call raises."""
    if not in_time(call, LOST_S):
        raise _RequestLost(f"no answer in {LOST_S} s")


class Aiokafka:
    """aiokafka, on an event loop of its own that runs while it is asked for something."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._producer: Any = None
        self._run(self._start(transactional_id))

    def _run(self, work: Coroutine[Any, Any, str]) -> str:
        return self._loop.run_until_complete(work)

    async def _start(self, transactional_id: str) -> str:
        import aiokafka

        self._producer = aiokafka.AIOKafkaProducer(bootstrap_servers=self._bootstrap, transactional_id=transactional_id)
        await self._producer.start()
        return "started"

    def transact(self, topic: str, commit: bool, values: Sequence[str]) -> str:
        return self._run(self._transact(topic, commit, values))

    async def _transact(self, topic: str, commit: bool, values: Sequence[str]) -> str:
        from aiokafka.errors import KafkaError

        try:
            await self._producer.begin_transaction()
            sent = [
                await self._producer.send(topic, value.encode(), partition=place % PARTITIONS)
                for place, value in enumerate(values)
            ]
            await asyncio.gather(*sent)
            return await self._end(commit)
        except KafkaError as failure:
            try:
                await self._producer.abort_transaction()
            except KafkaError:
                return f"failed: {failure!r}"
            return ABORTED

    async def _end(self, commit: bool) -> str:
        if commit:
            await self._producer.commit_transaction()
            return COMMITTED
        await self._producer.abort_transaction()
        return ABORTED

    def transform(self, source: str, target: str, group: str, count: int, commit: bool) -> str:
        return self._run(self._transform(source, target, group, count, commit))

    async def _transform(self, source: str, target: str, group: str, count: int, commit: bool) -> str:
        import aiokafka

        consumer = aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            taken = [await consumer.getone() for _ in range(count)]
            await self._producer.begin_transaction()
            offsets = {}
            for record in taken:
                await self._producer.send_and_wait(target, b"<" + record.value + b">", partition=0)
                offsets[aiokafka.TopicPartition(source, record.partition)] = record.offset + 1
            await self._producer.send_offsets_to_transaction(offsets, group)
            return await self._end(commit)
        finally:
            await consumer.stop()

    def close(self) -> None:
        self._loop.run_until_complete(self._producer.stop())
        self._loop.close()


class Program:
    """A program that takes each transaction as a line: `TransactionalClient.java` says how."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def transact(self, topic: str, commit: bool, values: Sequence[str]) -> str:
        return self._ask(f"transact {topic} {'commit' if commit else 'abort'} {' '.join(values)}")

    def transform(self, source: str, target: str, group: str, count: int, commit: bool) -> str:
        return self._ask(f"transform {source} {target} {group} {count} {'commit' if commit else 'abort'}")

    def close(self) -> None:
        """Its process is ended by whoever started it."""


LIBRARIES: dict[str, Callable[[str, str], TransactionalClient]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


@contextmanager
def library_client(library: str, bootstrap: str, transactional_id: str) -> Iterator[TransactionalClient]:
    client = LIBRARIES[library](bootstrap, transactional_id)
    try:
        yield client
    finally:
        client.close()
        del client
        # kafka-python leaves sockets of lost connections to the collector, which the test's own filters let pass.
        gc.collect()


@contextmanager
def program_client(command: Sequence[str]) -> Iterator[TransactionalClient]:
    """Of a program, once it is ready."""
    with line_program(command) as ask:
        assert ask("open") == "open", "the program did not start"
        yield Program(ask)
