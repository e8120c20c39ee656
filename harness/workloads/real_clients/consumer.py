"""An application that consumes: a member of the group, subscribed, with all three callbacks of its assignment.

Decides when it polls, stalls, closes and begins anew, and how callbacks and delivered records become operations. What
is done with the records is `processing`'s. Invariants: what was gathered under one assignment is not processed under
the next; a consumer's name in the history is of one assignment, and of one run of positions: after a step back that the
application asked for it has another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

from harness.clients.values import parse_value
from harness.workloads.groups.offsets import named
from harness.workloads.real_clients.record import Process
from harness.workloads.real_clients.settings import Settings

BATCH = 50
GATHER_S = 0.4
WAIT_S = 0.1


class Record(NamedTuple):
    """A delivered record. value: None where it is not one of this harness."""

    partition: int
    offset: int
    value: int | None
    intact: bool


class BeginAnew(Exception):
    """What the member knows is of no use any more: it closes its consumer, and opens another."""


class Processing(Protocol):
    """What one member does with what it is given."""

    def take(self, member: Member, records: Sequence[Record]) -> None:
        """Process, and commit: records in the order of delivery, none where none came. Raises BeginAnew."""
        ...

    def close(self) -> None:
        """Called once, after the member's last record."""
        ...


class Member:
    """One consuming thread, whose consumer is closed and opened now and then."""

    def __init__(
        self, settings: Settings, number: int, process: Process, processing: Callable[[Process], Processing]
    ) -> None:
        self.settings = settings
        self.number = number
        self.process = process
        self.consumer: Any = None
        self._processing = processing
        self._rng = Random(settings.seed * 1_000_003 + 500_000 + number)
        self._gathered: list[Record] = []
        self._assignments = 0
        self.uncommitted: dict[int, int] = {}

    @property
    def consumer_name(self) -> str:
        """As the history has it."""
        return f"{self.settings.group}/{self.number}/{self._assignments}"

    @property
    def identity(self) -> Mapping[str, object]:
        """Group and member of an operation. librdkafka's Python client does not say which generation it is in."""
        return {"group": self.settings.group, "member": self.consumer.memberid() or ""}

    def run(self, going: Callable[[], bool], loaded: Callable[[], bool]) -> None:
        """Live while `going`; leave and stall only while there is load."""
        while going():
            self._live(going, loaded)

    def _live(self, going: Callable[[], bool], loaded: Callable[[], bool]) -> None:
        from confluent_kafka import Consumer

        options = self.settings.options
        end_s = time.monotonic() + self._rng.uniform(0.5, 1.5) * options.life_s
        stall_s = end_s - options.life_s / 3 if self._rng.random() < options.stall else None
        self.consumer = Consumer(self.settings.of_consumer(self.number))
        processing = self._processing(self.process)
        try:
            self.consumer.subscribe(
                [self.settings.topic],
                on_assign=self._on_assign,
                on_revoke=lambda _consumer, given: self._on_gone("revoke", given),
                on_lost=lambda _consumer, given: self._on_gone("lost", given),
            )
            while going() and (time.monotonic() < end_s or not loaded()):
                if stall_s is not None and time.monotonic() > stall_s and loaded():
                    stall_s = None
                    _pause(options.max_poll_interval_ms / 1000 + 1, loaded)
                self._gather()
                records, self._gathered = self._gathered, []
                processing.take(self, records)
        except BeginAnew:
            pass
        finally:
            processing.close()
            self.consumer.close()
            self.begin_anew()

    def begin_anew(self) -> None:
        """Positions go on from elsewhere: by an assignment, or because the application went back."""
        self._assignments += 1

    def _on_assign(self, consumer: Any, given: Sequence[Any]) -> None:
        self._drop()
        self._note("assign", given)
        consumer.assign(given)

    def _on_gone(self, f: str, given: Sequence[Any]) -> None:
        self._drop()
        self._note(f, given)
        self.consumer.unassign()

    def _note(self, f: str, given: Sequence[Any]) -> None:
        partitions = named(self.settings.topic, sorted(one.partition for one in given))
        fields = {"consumer": self.consumer_name, "rebalance": "eager", "partitions": partitions}
        self.process.at_once(f, None, {**self.identity, **fields})

    def _drop(self) -> None:
        """What was delivered and not processed yet is another member's affair from now on."""
        self._deliver()
        self._gathered.clear()
        self.uncommitted.clear()
        self.begin_anew()

    def _gather(self) -> None:
        end_s = time.monotonic() + GATHER_S
        while len(self._gathered) < BATCH and time.monotonic() < end_s:
            message = self.consumer.poll(WAIT_S)
            if message is None:
                if self._gathered:
                    break
                continue
            # An error of a partition, or of the group, is repaired by librdkafka, or ends in a callback.
            if message.error() is None:
                partition = message.partition()
                value, intact = parse_value(message.value(), message.topic(), partition)
                self._gathered.append(Record(partition, message.offset(), value, intact and message.key() is None))
        self._deliver()

    def _deliver(self) -> None:
        """One poll for each partition that records came of."""
        by_partition: dict[int, list[Record]] = {}
        for record in self._gathered:
            by_partition.setdefault(record.partition, []).append(record)
        for partition, records in by_partition.items():
            first = records[0].offset
            fields = {
                "position": first,
                "client_position": first,
                "leader_epoch": -1,
                "isolation": self.settings.isolation,
                "consumer": self.consumer_name,
                "max_bytes": 0,
                **self.identity,
            }
            found = {
                "next_position": records[-1].offset + 1,
                "hw": -1,
                "lso": -1,
                "log_start": -1,
                "records": [
                    {"offset": one.offset, "value": one.value, "epoch": -1, "intact": one.intact} for one in records
                ],
            }
            self.process.at_once("poll", (self.settings.topic, partition), fields, found)


def _pause(seconds: float, loaded: Callable[[], bool]) -> None:
    end_s = time.monotonic() + seconds
    while loaded() and time.monotonic() < end_s:
        time.sleep(WAIT_S)
