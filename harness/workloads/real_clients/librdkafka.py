"""confluent-kafka (librdkafka) as an application's client; implements `ports`.

Decides what its errors mean. Must not know the history. Whatever serves callbacks raises a fatal error of the client,
once, in place of its error callback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial as bound
from typing import Any

from harness.clients.late import in_time
from harness.clients.values import parse_value
from harness.operations import outcomes
from harness.operations.op import Outcome
from harness.workloads.real_clients.ports import (
    CallFailed,
    Consumer,
    Listener,
    OnDelivery,
    Record,
    RecordSender,
    Transactional,
)
from harness.workloads.real_clients.settings import Settings

ALL = -1
"""acks, as settings have it."""
CALL_S = 5.0
HUNG_S = 15.0
"""A call with CALL_S that has not come back after this does not."""
_NAMES = {"_MSG_TIMED_OUT": outcomes.TIMEOUT, "_TIMED_OUT": outcomes.TIMEOUT, "_TRANSPORT": outcomes.RESET}
_NEVER_SENT = frozenset({"_QUEUE_FULL"})
_IN_QUEUE = frozenset({"_PURGE_QUEUE"})
"""In the queue it may wait for its first request, or, of a producer with retries, for another one."""


def delivery_outcome(name: str, *, retries: bool) -> tuple[Outcome, str]:
    """Outcome and error, as the history has it, of a record whose callback has an error of that name.

    retries: the producer may send again by itself; what the last response proves says nothing of earlier requests.
    """
    error = _NAMES.get(name, error_name(name))
    if name in _NEVER_SENT or (name in _IN_QUEUE and not retries):
        return "fail", error
    return ("info" if retries or name.startswith("_") else outcomes.send_outcome(error)), error


def error_name(name: str) -> str:
    """As the history has it: librdkafka's own names are one."""
    return outcomes.CLIENT_ERROR if name.startswith("_") else name


def offset_of(message: Any) -> int | None:
    """Of a delivered record: none where a later response implied that it is in the log."""
    offset = message.offset()
    return None if offset is None or offset < 0 else int(offset)


def _failed(error: Any) -> CallFailed:
    reason = error.args[0]
    return CallFailed(
        error_name(str(reason.name())), again=bool(reason.retriable()), aborts=bool(reason.txn_requires_abort())
    )


def _served(serve: Callable[[float], object], wait_s: float) -> bool:
    """Whether the client is still of use."""
    from confluent_kafka import KafkaException

    try:
        serve(wait_s)
    except KafkaException:
        return False
    return True


def _dropped(producer: Any) -> None:
    """What it has under way gets its callbacks."""
    producer.purge()
    if not _served(producer.flush, 1):
        _served(producer.flush, 1)


class LibrdkafkaSender:
    """Implements `ports.RecordSender`."""

    def __init__(self, settings: Settings, number: int, on_delivery: OnDelivery) -> None:
        from confluent_kafka import Producer

        self._topic = settings.topic
        self._on_delivery = on_delivery
        # It takes it that who is no leader has appended nothing, and sends to the next one without counting a try.
        # Where followers are waited for that is not so: a leader that is deposed meanwhile answers so, too.
        self._retries = settings.idempotent or settings.acks == ALL
        self.broken = False
        self._producer: Any = Producer(settings.of_producer(number))

    def send(self, number: int, partition: int, value: bytes) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.produce(
                self._topic, value=value, partition=partition, on_delivery=bound(self._delivered, number)
            )
        except BufferError:
            self._on_delivery(number, "fail", outcomes.CLIENT_ERROR, None)
        except KafkaException as error:
            self.broken = self.broken or bool(error.args[0].fatal())
            self._on_delivery(number, "fail", outcomes.CLIENT_ERROR, None)

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self._on_delivery(number, "ok", None, offset_of(message))
        else:
            self._on_delivery(number, *delivery_outcome(str(error.name()), retries=self._retries), None)

    def serve(self, wait_s: float) -> None:
        """A poll ends with the first callback that comes."""
        if not _served(self._producer.poll, max(0.0, wait_s)):
            self.broken = True

    def finish(self, limit_s: float) -> None:
        if not self.broken:
            _served(self._producer.flush, limit_s)
        _dropped(self._producer)
        self._producer = None


class LibrdkafkaConsumer:
    """Implements `ports.Consumer`. Its Python client does not say which generation it is in."""

    generation = -1

    def __init__(self, settings: Settings, consumer: Any, listener: Listener) -> None:
        """consumer: not subscribed yet."""
        self._settings = settings
        self._consumer = consumer
        self._listener = listener
        self._done: Callable[[str | None], None] | None = None
        self._closing_as: str | None = None
        consumer.subscribe(
            [settings.topic],
            on_assign=self._on_assign,
            on_revoke=lambda _consumer, given: self._on_gone("revoke", given),
            on_lost=lambda _consumer, given: self._on_gone("lost", given),
        )

    @classmethod
    def open(cls, settings: Settings, number: int, listener: Listener) -> LibrdkafkaConsumer:
        """Of the member of that number."""
        from confluent_kafka import Consumer as Librdkafkas

        made: list[LibrdkafkaConsumer] = []

        def on_commit(error: Any, places: Sequence[Any]) -> None:
            made[0].on_commit(error, places)

        made.append(cls(settings, Librdkafkas({**settings.of_consumer(number), "on_commit": on_commit}), listener))
        return made[0]

    def on_commit(self, error: Any, places: Sequence[Any]) -> None:
        """The callback of every commit, those that were waited for too."""
        done, self._done = self._done, None
        errors = [found for found in (error, *(one.error for one in places)) if found is not None]
        if done is not None:
            done(error_name(str(errors[0].name())) if errors else None)

    @property
    def member(self) -> str:
        """While it closes, who it was then: the question goes to librdkafka's group thread, which may be done already
        and never answers then. Python's other threads would stand still with this one.
        """
        return (self._consumer.memberid() or "") if self._closing_as is None else self._closing_as

    def _on_assign(self, consumer: Any, given: Sequence[Any]) -> None:
        self._listener.on_assigned([one.partition for one in given])
        if self._settings.options.cooperative:
            consumer.incremental_assign(given)
        else:
            consumer.assign(given)

    def _on_gone(self, f: str, given: Sequence[Any]) -> None:
        self._listener.on_gone(f, [one.partition for one in given])
        if self._settings.options.cooperative:
            self._consumer.incremental_unassign(given)
        else:
            self._consumer.unassign()

    def poll(self, wait_s: float) -> Sequence[Record]:
        """One record."""
        message = self._consumer.poll(wait_s)
        # An error of a partition, or of the group, is repaired by librdkafka, or ends in a callback.
        if message is None or message.error() is not None:
            return ()
        partition = message.partition()
        value, intact = parse_value(message.value(), message.topic(), partition)
        return (Record(partition, message.offset(), value, intact and message.key() is None),)

    def position(self, partition: int) -> int | None:
        """Its own is by definition that after the last record, which says nothing."""
        return None

    def commit(self, offsets: Mapping[int, int]) -> None:
        """It may send several requests, of which the last alone says what became of it."""
        from confluent_kafka import KafkaException

        try:
            done = self._consumer.commit(offsets=self._places(offsets), asynchronous=False)
        except KafkaException as error:
            raise _failed(error) from None
        refused = [one.error for one in done or () if one.error is not None]
        if refused:
            raise CallFailed(error_name(str(refused[0].name())))

    def commit_later(self, offsets: Mapping[int, int], done: Callable[[str | None], None]) -> None:
        from confluent_kafka import KafkaException

        self._done = done
        try:
            self._consumer.commit(offsets=self._places(offsets), asynchronous=True)
        except KafkaException as error:
            self._done = None
            raise _failed(error) from None

    def _places(self, offsets: Mapping[int, int]) -> Sequence[Any]:
        return _places(self._settings.topic, offsets)

    def whose(self) -> object:
        whose: object = self._consumer.consumer_group_metadata()
        return whose

    def seek(self, partition: int, offset: int) -> None:
        from confluent_kafka import KafkaException

        try:
            self._consumer.seek(*self._places({partition: offset}))
        except KafkaException:
            # Taken away meanwhile: whoever has it begins at what is committed.
            return

    def close(self) -> None:
        self._closing_as = self.member
        self._consumer.close()


def _places(topic: str, offsets: Mapping[int, int]) -> Sequence[Any]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]


def _given_up_late(call: Callable[[], None]) -> None:
    """Raises CallFailed, of the call or because it has not come back after HUNG_S."""
    if not in_time(call, HUNG_S):
        raise CallFailed(outcomes.TIMEOUT)


class LibrdkafkaTransactional:
    """Implements `ports.Transactional`."""

    def __init__(self, settings: Settings, producer: Any, on_delivery: OnDelivery) -> None:
        self._settings = settings
        self._producer = producer
        self._on_delivery = on_delivery
        self._undelivered = False

    @classmethod
    def open(cls, settings: Settings, number: int, on_delivery: OnDelivery) -> LibrdkafkaTransactional:
        """With the transactional id of that number."""
        from confluent_kafka import Producer

        return cls(settings, Producer(settings.of_transactional(number)), on_delivery)

    def _call(self, name: str, *words: object) -> None:
        from confluent_kafka import KafkaException

        try:
            getattr(self._producer, name)(*words)
        except KafkaException as error:
            raise _failed(error) from None

    def init(self) -> None:
        self._call("init_transactions", CALL_S)

    def begin(self) -> None:
        self._undelivered = False
        self._call("begin_transaction")

    def send(self, number: int, partition: int, value: bytes) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.produce(
                self._settings.out, value=value, partition=partition, on_delivery=bound(self._delivered, number)
            )
        except (BufferError, KafkaException) as error:
            self._on_delivery(number, "fail", outcomes.CLIENT_ERROR, None)
            raise CallFailed(outcomes.CLIENT_ERROR, aborts=isinstance(error, BufferError)) from None

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self._on_delivery(number, "ok", None, offset_of(message))
        else:
            self._undelivered = True
            self._on_delivery(number, "info", error_name(str(error.name())), None)

    def send_offsets(self, offsets: Mapping[int, int], whose: object) -> None:
        """Left to a thread of its own where it does not come back: it waits beyond its limit for a coordinator that
        Metadata left out meanwhile, until the connection to another broker changes (librdkafka's issues 5456 and 5511,
        as of 2.16).
        """
        places = _places(self._settings.topic, offsets)
        _given_up_late(lambda: self._call("send_offsets_to_transaction", places, whose, CALL_S))

    def commit(self) -> None:
        """It asks for the commit once all records are delivered, for none where one was not.

        After that it wants an abort also where it does not know the answer, or got none before something else went
        wrong, though the transaction may have been committed (rd_kafka_txn_handle_EndTxn, as of 2.16).
        """
        try:
            self._call("commit_transaction", CALL_S)
        except CallFailed as failed:
            raise CallFailed(failed.error, again=failed.again, aborts=failed.aborts and self._undelivered) from None

    def abort(self) -> None:
        self._call("abort_transaction", CALL_S)

    def serve(self) -> None:
        # After a fatal error its next call fails.
        _served(self._producer.poll, 0)

    def give_up(self) -> None:
        _dropped(self._producer)


class LibrdkafkaClients:
    """Implements `ports.Clients`."""

    reader = "confluent"

    def __init__(self, settings: Settings, number: int) -> None:
        """number: of the producer, or of the member."""
        self._settings = settings
        self._number = number

    def start(self) -> None:
        """Nothing takes long."""

    def wait_started(self) -> None:
        """Nothing takes long."""

    def sender(self, on_delivery: OnDelivery) -> RecordSender:
        return LibrdkafkaSender(self._settings, self._number, on_delivery)

    def consumer(self, listener: Listener) -> Consumer:
        return LibrdkafkaConsumer.open(self._settings, self._number, listener)

    def transactional(self, on_delivery: OnDelivery) -> Transactional:
        return LibrdkafkaTransactional.open(self._settings, self._number, on_delivery)

    def close(self) -> None:
        """Nothing is left to end."""
