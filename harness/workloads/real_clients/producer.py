"""An application that sends: one librdkafka producer, many records under way, the delivery callback of each.

Decides pace, values, partitions, and what a callback's error says of its record. Must not know consumers. Invariant:
every record's operation is invoked before `produce`, and completed once: by its callback, or as unknown at the end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from harness.clients.values import encode_value
from harness.operations import outcomes
from harness.operations.op import Outcome
from harness.workloads.real_clients.options import AT_MOST_ONCE
from harness.workloads.real_clients.record import Begun, Process
from harness.workloads.real_clients.settings import Settings

OPEN_MAX = 200
"""Records of one partition that are under way: a leader that hangs takes no partition's records but its own. More than
come within a fault, so that records are handed over during all of it.
"""
VALUES_EACH = 10**9
"""Values of producer n are from n times this on."""
_NAMES = {"_MSG_TIMED_OUT": outcomes.TIMEOUT, "_TIMED_OUT": outcomes.TIMEOUT, "_TRANSPORT": outcomes.RESET}
_NEVER_SENT = frozenset({"_PURGE_QUEUE", "_QUEUE_FULL"})


def delivery_outcome(name: str, *, retries: bool) -> tuple[Outcome, str]:
    """Outcome and error, as the history has it, of a record whose callback has an error of that name.

    retries: the producer sends again by itself; what the last response proves says nothing of the requests before it.
    """
    error = _NAMES.get(name, outcomes.CLIENT_ERROR if name.startswith("_") else name)
    if name in _NEVER_SENT:
        return "fail", error
    return ("info" if retries or name.startswith("_") else outcomes.send_outcome(error)), error


def offset_field(message: Any) -> dict[str, object]:
    """Of a delivered record: none where a later response implied that it is in the log."""
    offset = message.offset()
    return {} if offset is None or offset < 0 else {"base_offset": offset}


class ProducerLoop:
    """One producing thread."""

    def __init__(self, settings: Settings, number: int, process: Process, rate: float) -> None:
        """rate: records per second."""
        self._settings = settings
        self._number = number
        self._process = process
        self._gap_s = 1 / rate
        self._rng = Random(settings.seed * 1_000_003 + number)
        self._next_value = number * VALUES_EACH
        self._open: dict[int, Begun] = {}
        self._waiting: Counter[int] = Counter()
        self._producer: Any = None
        self._retries = settings.options.promise != AT_MOST_ONCE

    def run(self, going: Callable[[], bool]) -> None:
        """Send while `going`; then wait for the callbacks of what is under way, as long as librdkafka may take."""
        due_s = time.monotonic()
        while going():
            if self._producer is None:
                self._make()
            self._send_one()
            due_s = max(due_s + self._gap_s * self._rng.uniform(0.5, 1.5), time.monotonic() - 0.1)
            self._wait_until(due_s)
            if self._broken():
                self._finish()
        if self._producer is not None:
            self._finish()

    def _wait_until(self, due_s: float) -> None:
        """Serve callbacks meanwhile: a poll ends with the first one that comes."""
        while True:
            self._producer.poll(max(0.0, due_s - time.monotonic()))
            if time.monotonic() >= due_s or self._broken():
                return

    def _make(self) -> None:
        from confluent_kafka import Producer

        self._fatal = False
        properties = self._settings.of_producer(self._number)
        self._producer = Producer({**properties, "error_cb": self._on_error})

    def _on_error(self, error: Any) -> None:
        """After a fatal error the producer takes nothing any more."""
        self._fatal = self._fatal or bool(error.fatal())

    def _broken(self) -> bool:
        return self._fatal

    def _send_one(self) -> None:
        free = [one for one in range(self._settings.partitions) if self._waiting[one] < OPEN_MAX]
        if not free:
            return
        partition = self._rng.choice(free)
        value, topic = self._next_value, self._settings.topic
        self._next_value += 1
        fields = {"values": [value], "acks": self._settings.acks, "sentinel": False}
        begun = self._process.invoke("send", (topic, partition), fields)
        self._open[begun.op] = begun
        self._waiting[partition] += 1
        record = encode_value(value, topic, partition, self._settings.record_bytes)
        from confluent_kafka import KafkaException

        try:
            self._producer.produce(
                topic, value=record, partition=partition, on_delivery=partial(self._delivered, begun.op)
            )
        except BufferError:
            self._over(begun.op, "fail", outcomes.CLIENT_ERROR)
        except KafkaException as error:
            self._fatal = self._fatal or bool(error.args[0].fatal())
            self._over(begun.op, "fail", outcomes.CLIENT_ERROR)

    def _delivered(self, index: int, error: Any, message: Any) -> None:
        if error is None:
            self._over(index, "ok", None, offset_field(message))
        else:
            self._over(index, *delivery_outcome(str(error.name()), retries=self._retries))

    def _over(self, index: int, outcome: Outcome, error: str | None, fields: dict[str, object] | None = None) -> None:
        begun = self._open.pop(index)
        self._waiting[begun.invocation.home[1]] -= 1
        self._process.complete(begun, outcome, error, fields)

    def _finish(self) -> None:
        """Wait for what is under way, then drop the producer; what has no callback by then is unknown."""
        if not self._fatal:
            self._producer.flush(self._settings.options.delivery_timeout_ms / 1000 + 2)
        self._producer.purge()
        self._producer.flush(1)
        for index in list(self._open):
            self._over(index, "info", outcomes.TIMEOUT)
        self._producer = None
