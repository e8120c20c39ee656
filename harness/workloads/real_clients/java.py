"""Kafka's Java client as an application's client, in a process of each application thread; implements `ports`.

Decides how lines become calls and callbacks, and when a process that is gone is replaced: with the next client that is
asked for. Must not know operations; a process that is gone is said to `on_lost` once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial as bound
from typing import Any

from harness.clients.java.lines import (
    asks_for_abort,
    delivery_outcome,
    error_name,
    failure_of,
    helps_again,
)
from harness.clients.java.process import CallRefused, ClientDied, ClientProcess, Event
from harness.clients.java.program import Program
from harness.clients.values import parse_value
from harness.operations import outcomes
from harness.workloads.real_clients import java_properties
from harness.workloads.real_clients.java_properties import CALL_S
from harness.workloads.real_clients.ports import CallFailed, ClientLost, Consumer, Listener, OnDelivery, Record
from harness.workloads.real_clients.settings import Settings

CLOSE_S = 2.0
_STILL_GOOD = frozenset({"TimeoutException", "BufferExhaustedException", "RecordTooLargeException"})
"""What `send` may throw without its producer being the worse for it."""


class JavaClients:
    """One application thread's process, with at most one producer and one consumer at a time."""

    reader = "java"

    def __init__(self, settings: Settings, number: int, program: Program, on_lost: Callable[[str], None]) -> None:
        """number: of the producer, or of the member. on_lost: is told why a process is gone."""
        self.settings = settings
        self.number = number
        self._program = program
        self._on_lost = on_lost
        self._process: ClientProcess | None = None
        self._events: dict[str, Callable[[Event], None]] = {}

    def listen(self, handlers: Mapping[str, Callable[[Event], None]]) -> None:
        """From now on these take the events of these names."""
        self._events.update(handlers)

    def _on_event(self, event: Event) -> None:
        handler = self._events.get(event["event"])
        if handler is not None:
            handler(event)

    def start(self) -> None:
        if self._process is None:
            self._process = ClientProcess(self._program, self._on_event)

    def wait_started(self) -> None:
        """A virtual machine that has made a client has loaded its classes, which takes seconds."""
        with suppress(ClientLost):
            self.opened("producer.open", properties=java_properties.of_producer(self.settings, self.number))
            self.ask("producer.close", CLOSE_S, limit_ms=0)

    def opened(self, do: str, **fields: object) -> None:
        """Ask for a new client. Raises ClientLost; RuntimeError where its properties are wrong."""
        self.start()
        try:
            self._known().ask(do, CALL_S, **fields)
        except CallRefused as refused:
            raise RuntimeError(f"{do}: {refused}") from None
        except ClientDied as died:
            raise self._lost(died) from None

    def ask(self, do: str, limit_s: float, **fields: object) -> Event:
        """The answer to a call. Raises CallFailed; `again` and `aborts` are of a transaction's calls."""
        try:
            return self._known().ask(do, limit_s, **fields)
        except CallRefused as refused:
            failure = refused.failure
            raise CallFailed(error_name(failure), again=helps_again(failure), aborts=asks_for_abort(failure)) from None
        except ClientDied as died:
            raise self._lost(died) from None

    def tell(self, do: str, **fields: object) -> None:
        """A call whose outcome is an event. Raises ClientLost."""
        try:
            self._known().tell(do, **fields)
        except ClientDied as died:
            raise self._lost(died) from None

    def serve(self, wait_s: float) -> None:
        """Events that have come, or the first that comes. Raises ClientLost."""
        try:
            self._known().serve(wait_s)
        except ClientDied as died:
            raise self._lost(died) from None

    def _known(self) -> ClientProcess:
        if self._process is None:
            raise ClientLost(outcomes.CLIENT_DIED)
        return self._process

    def _lost(self, died: ClientDied) -> ClientLost:
        self._process = None
        self._on_lost(f"the Java client {self.number}: {died}")
        return ClientLost(outcomes.CLIENT_DIED)

    def sender(self, on_delivery: OnDelivery) -> JavaSender:
        return JavaSender(self, on_delivery)

    def consumer(self, listener: Listener) -> Consumer:
        return JavaConsumer(self, listener)

    def transactional(self, on_delivery: OnDelivery) -> JavaTransactional:
        return JavaTransactional(self, on_delivery)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


class JavaSender:
    """Implements `ports.RecordSender`."""

    def __init__(self, clients: JavaClients, on_delivery: OnDelivery) -> None:
        self._clients = clients
        self._on_delivery = on_delivery
        self._topic = clients.settings.topic
        self._retries = clients.settings.idempotent
        self.broken = False
        clients.listen({"delivered": self._delivered, "failed": self._failed})
        clients.opened("producer.open", properties=java_properties.of_producer(clients.settings, clients.number))

    def _delivered(self, event: Event) -> None:
        self._on_delivery(event["number"], "ok", None, _offset(event))

    def _failed(self, event: Event) -> None:
        failure, inside = failure_of(event), bool(event["inside"])
        self.broken = self.broken or (inside and failure.kind not in _STILL_GOOD)
        self._on_delivery(event["number"], *delivery_outcome(failure, inside=inside, retries=self._retries), None)

    def send(self, number: int, partition: int, value: bytes) -> None:
        self._clients.tell("producer.send", **_record(number, self._topic, partition, value))

    def serve(self, wait_s: float) -> None:
        self._clients.serve(wait_s)

    def finish(self, limit_s: float) -> None:
        limit_s = 1.0 if self.broken else limit_s
        self._clients.ask("producer.close", limit_s, limit_ms=int(limit_s * 1000))


def _record(number: int, topic: str, partition: int, value: bytes) -> Mapping[str, Any]:
    return {"number": number, "topic": topic, "partition": partition, "value": value.decode("latin-1")}


def _offset(event: Event) -> int | None:
    offset = event["offset"]
    return int(offset) if offset >= 0 else None


class JavaConsumer:
    """Implements `ports.Consumer`."""

    def __init__(self, clients: JavaClients, listener: Listener) -> None:
        self._clients = clients
        self._listener = listener
        self._topic = clients.settings.topic
        self._positions: dict[int, int] = {}
        self.member = ""
        self.generation = -1
        clients.listen(
            {
                "assigned": self._assigned,
                "revoked": bound(self._gone, "revoke"),
                "lost": bound(self._gone, "lost"),
            }
        )
        properties = java_properties.of_consumer(clients.settings, clients.number)
        clients.opened("consumer.open", properties=properties, topic=self._topic)

    def _who(self, said: Event) -> None:
        self.member, self.generation = said["member"], said["generation"]

    def _assigned(self, event: Event) -> None:
        self._who(event)
        self._listener.on_assigned(event["partitions"])

    def _gone(self, f: str, event: Event) -> None:
        self._who(event)
        self._listener.on_gone(f, event["partitions"])

    def _ask(self, do: str, limit_s: float, **fields: object) -> Event:
        answer = self._clients.ask(do, limit_s, **fields)
        self._who(answer)
        return answer

    def poll(self, wait_s: float) -> Sequence[Record]:
        """An error that is thrown is repaired by the client, or comes again; it handed nothing out."""
        try:
            answer = self._ask("consumer.poll", wait_s, wait_ms=int(wait_s * 1000))
        except ClientLost:
            raise
        except CallFailed:
            return ()
        self._positions.update({int(partition): at for partition, at in answer["positions"].items()})
        return [self._record_of(*fields) for fields in answer["records"]]

    def _record_of(self, partition: int, offset: int, keyed: bool, value: str | None) -> Record:
        raw = None if value is None else value.encode("latin-1")
        parsed = parse_value(raw, self._topic, partition)
        return Record(partition, offset, parsed.value, parsed.intact and not keyed)

    def position(self, partition: int) -> int | None:
        return self._positions.get(partition)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """It may send several requests, of which the last alone says what became of it."""
        self._ask("consumer.commit", CALL_S, offsets=_places(self._topic, offsets))

    def commit_later(self, offsets: Mapping[int, int], done: Callable[[str | None], None]) -> None:
        def committed(event: Event) -> None:
            done(error_name(failure_of(event)) if "class" in event else None)

        self._clients.listen({"committed": committed})
        self._ask("consumer.commit_async", CALL_S, offsets=_places(self._topic, offsets))

    def whose(self) -> object:
        """As of the last answer, since which the application has known of no other."""
        settings, number = self._clients.settings, self._clients.number
        return {
            "group": settings.group,
            "member": self.member,
            "generation": self.generation,
            "instance": settings.instance(number),
        }

    def seek(self, partition: int, offset: int) -> None:
        try:
            self._ask("consumer.seek", CALL_S, topic=self._topic, partition=partition, offset=offset)
        except ClientLost:
            raise
        except CallFailed:
            # Taken away meanwhile: whoever has it begins at what is committed.
            return

    def close(self) -> None:
        try:
            self._clients.ask("consumer.close", CLOSE_S, limit_ms=int(CLOSE_S * 1000))
        except ClientLost:
            raise
        except CallFailed:
            # Its session ends by itself.
            return


def _places(topic: str, offsets: Mapping[int, int]) -> Sequence[Any]:
    return [[topic, partition, offset] for partition, offset in offsets.items()]


class JavaTransactional:
    """Implements `ports.Transactional`."""

    def __init__(self, clients: JavaClients, on_delivery: OnDelivery) -> None:
        self._clients = clients
        self._on_delivery = on_delivery
        clients.listen({"delivered": self._delivered, "failed": self._failed})
        clients.opened("producer.open", properties=java_properties.of_transactional(clients.settings, clients.number))

    def _delivered(self, event: Event) -> None:
        self._on_delivery(event["number"], "ok", None, _offset(event))

    def _failed(self, event: Event) -> None:
        # One whose partition could not be added may be in the accumulator all the same.
        self._on_delivery(event["number"], "info", error_name(failure_of(event)), None)

    def init(self) -> None:
        self._clients.ask("producer.init", CALL_S)

    def begin(self) -> None:
        self._clients.ask("producer.begin", CALL_S)

    def send(self, number: int, partition: int, value: bytes) -> None:
        """What fails shows in the commit."""
        self._clients.tell("producer.send", **_record(number, self._clients.settings.out, partition, value))

    def send_offsets(self, offsets: Mapping[int, int], whose: object) -> None:
        assert isinstance(whose, dict)
        places = _places(self._clients.settings.topic, offsets)
        self._clients.ask("producer.offsets", CALL_S, offsets=places, **whose)

    def commit(self) -> None:
        """It commits nothing of which a part failed."""
        self._clients.ask("producer.commit", CALL_S)

    def abort(self) -> None:
        self._clients.ask("producer.abort", CALL_S)

    def serve(self) -> None:
        self._clients.serve(0)

    def give_up(self) -> None:
        try:
            self._clients.ask("producer.close", CLOSE_S, limit_ms=int(CLOSE_S * 1000))
        except CallFailed:
            # Gone with its process, or as good as gone.
            return
