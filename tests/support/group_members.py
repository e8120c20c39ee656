"""Members of consumer groups, each a real client on a thread of its own that reads and commits what it has read.

One face for three libraries: confluent-kafka, kafka-python, aiokafka. A commit is sent after every batch and awaited,
so that `committed` is what the client was told is committed.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from tests.support.brokers import wait_until

Record = tuple[int, int, bytes]
"""(partition, offset, value)"""
POLL_S = 0.1
SESSION_MS = 6_000
LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")


class Client(Protocol):
    """One consumer, used by one thread."""

    def poll(self) -> list[Record]: ...
    def commit(self, positions: dict[int, int]) -> bool: ...
    def owned(self) -> set[int]: ...
    def close(self) -> None: ...


class ConfluentClient:
    """librdkafka. changes: each ("assign" | "revoke" | "lost", partitions), in order."""

    def __init__(self, bootstrap: str, group: str, topic: str, instance: str | None, **extra: Any) -> None:
        from confluent_kafka import Consumer

        self.topic = topic
        self.changes: list[tuple[str, set[int]]] = []
        self.fatal: str | None = None
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 1_000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "error_cb": self._failed,
            **({"group.instance.id": instance} if instance else {}),
            **extra,
        }
        self.consumer = Consumer(settings)
        self.consumer.subscribe(
            [topic], on_assign=self._noted("assign"), on_revoke=self._noted("revoke"), on_lost=self._noted("lost")
        )

    def _noted(self, what: str) -> Callable[[Any, list[Any]], None]:
        def note(_: Any, partitions: list[Any]) -> None:
            self.changes.append((what, {partition.partition for partition in partitions}))

        return note

    def _failed(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.fatal() or error.code() == KafkaError._FATAL:
            self.fatal = error.str()

    def poll(self) -> list[Record]:
        records: list[Record] = []
        # Errors of the whole client, a fencing above all, come from poll alone.
        first = self.consumer.poll(POLL_S)
        rest = self.consumer.consume(200, timeout=0) if first is not None else []
        for message in [first, *rest] if first is not None else []:
            error = message.error()
            if error is not None:
                self._failed(error)
            else:
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                records.append((partition, offset, value or b""))
        return records

    def commit(self, positions: dict[int, int]) -> bool:
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in positions.items()]
        try:
            done = self.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return False
        return all(each.error is None for each in done or ())

    def owned(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonClient:
    """kafka-python."""

    def __init__(self, bootstrap: str, group: str, topic: str, instance: str | None, **extra: Any) -> None:
        import kafka

        self.topic = topic
        self.consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            group_instance_id=instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **extra,
        )

    def poll(self) -> list[Record]:
        batch = self.consumer.poll(timeout_ms=int(POLL_S * 1000))
        return [(record.partition, record.offset, record.value) for records in batch.values() for record in records]

    def commit(self, positions: dict[int, int]) -> bool:
        import kafka
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata

        try:
            self.consumer.commit(
                {
                    kafka.TopicPartition(self.topic, p): OffsetAndMetadata(offset, "", -1)
                    for p, offset in positions.items()
                }
            )
        except KafkaError:
            return False
        return True

    def owned(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


class AiokafkaClient:
    """aiokafka, on an event loop of its own that runs while it is asked for something."""

    def __init__(self, bootstrap: str, group: str, topic: str, instance: str | None, **extra: Any) -> None:
        self.topic = topic
        self.loop = asyncio.new_event_loop()
        self.consumer: Any = None
        self.loop.run_until_complete(self._start(bootstrap, group, instance, extra))

    async def _start(self, bootstrap: str, group: str, instance: str | None, extra: dict[str, Any]) -> None:
        import aiokafka

        self.consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **extra,
        )
        await self.consumer.start()

    def poll(self) -> list[Record]:
        batch = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        return [(record.partition, record.offset, record.value) for records in batch.values() for record in records]

    def commit(self, positions: dict[int, int]) -> bool:
        from aiokafka import TopicPartition
        from aiokafka.errors import KafkaError

        offsets = {TopicPartition(self.topic, partition): offset for partition, offset in positions.items()}
        try:
            self.loop.run_until_complete(self.consumer.commit(offsets))
        except KafkaError:
            return False
        return True

    def owned(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def close(self) -> None:
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


CLIENTS: dict[str, Callable[..., Client]] = {
    "confluent-kafka": ConfluentClient,
    "kafka-python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
}


class Member:
    """A client that polls on a thread until it is left. read: in order. committed: by partition, acknowledged."""

    def __init__(
        self, library: str, bootstrap: str, group: str, topic: str, instance: str | None = None, **extra: Any
    ) -> None:
        self.read: list[Record] = []
        self.committed: dict[int, int] = {}
        self.owned: set[int] = set()
        self.failure: BaseException | None = None
        self.client: Client | None = None
        self._make: Callable[[], Client] = partial(CLIENTS[library], bootstrap, group, topic, instance, **extra)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"member-{library}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            client = self.client = self._make()
            try:
                while not self._ended.is_set():
                    self._take(client, client.poll())
                    self.owned = client.owned()
            finally:
                client.close()
        except BaseException as error:
            self.failure = error

    def _take(self, client: Client, records: list[Record]) -> None:
        self.read += records
        positions = {partition: offset + 1 for partition, offset, _ in records}
        if positions and client.commit(positions):
            self.committed.update(positions)

    @property
    def values(self) -> set[bytes]:
        return {value for _, _, value in self.read}

    def leave(self) -> None:
        """Close the client and wait for its end."""
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a client does not end"
        if self.failure is not None:
            raise self.failure


@contextmanager
def members() -> Iterator[Callable[..., Member]]:
    """Makes members, and ends those that still run."""
    made: list[Member] = []

    def make(*args: Any, **extra: Any) -> Member:
        made.append(Member(*args, **extra))
        return made[-1]

    try:
        yield make
    finally:
        for member in made:
            member._ended.set()
        for member in made:
            member._thread.join(60)


def await_members(condition: Callable[[], bool], what: str, among: list[Member], timeout_s: float = 60.0) -> None:
    """Until it holds; the failure of a member ends the wait."""

    def reached() -> bool:
        for member in among:
            if member.failure is not None:
                raise member.failure
        return condition()

    wait_until(
        reached,
        lambda: f"{what}; owned {[member.owned for member in among]}, read {[len(member.read) for member in among]}",
        timeout_s,
    )


def fresh(prefix: str) -> str:
    """A name that nothing has yet."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


class Sender:
    """Sends numbered records to all partitions of a topic, on a thread, until `stop`. sent: what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        from confluent_kafka import Producer

        self.sent: set[bytes] = set()
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
        self._topic, self._partitions = topic, partitions
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            value = b"%d" % number
            self._producer.produce(
                self._topic, value, partition=number % self._partitions, on_delivery=self._delivered(value)
            )
            self._producer.poll(0)
            number += 1
            time.sleep(0.005)
        self._producer.flush(60)

    def _delivered(self, value: bytes) -> Callable[[Any, Any], None]:
        def note(error: Any, _: Any) -> None:
            if error is None:
                self.sent.add(value)

        return note

    def stop(self) -> set[bytes]:
        """What was acknowledged, all of it."""
        self._ended.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
        return self.sent
