"""An application that consumes: a member of the group, subscribed, with all three callbacks of its assignment.

Decides when it polls, stalls, closes and begins anew, and how callbacks and delivered records become operations. What
is done with the records is `processing`'s. Must not know client libraries. Invariants: what was gathered under one
assignment of a partition is not processed under the next; a consumer's name in the history is, of each partition, of
one assignment, and of one run of positions: after a step back that the application asked for it has another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

from harness.workloads.groups.offsets import named
from harness.workloads.real_clients.ports import BATCH, ClientLost, Clients, Consumer, Record
from harness.workloads.real_clients.record import Process
from harness.workloads.real_clients.settings import Settings

GATHER_S = 0.4
WAIT_S = 0.1
OPEN_AGAIN_S = 0.5


class BeginAnew(Exception):
    """What the member knows is of no use any more: it closes its consumer, and opens another."""


class Processing(Protocol):
    """What one member does with what it is given."""

    def take(self, member: Member, records: Sequence[Record]) -> None:
        """Process, and commit: records in the order of delivery, none where none came. Raises BeginAnew."""
        ...

    def close(self) -> None:
        """Called once, after the member's last record, before its consumer is closed."""
        ...


class Member:
    """One consuming thread, whose consumer is closed and opened now and then; implements `ports.Listener`.

    given: how many records it was.
    """

    consumer: Consumer

    def __init__(
        self,
        settings: Settings,
        number: int,
        process: Process,
        processing: Callable[[Process], Processing],
        clients: Clients,
    ) -> None:
        self.settings = settings
        self.number = number
        self.process = process
        self._processing = processing
        self._clients = clients
        self._rng = Random(settings.seed * 1_000_003 + 500_000 + number)
        self._gathered: list[Record] = []
        self._unsaid: list[Record] = []
        self._assignments = 0
        self._anew = 0
        self._since: dict[int, int] = {}
        self._stood: dict[int, int] = {}
        self.uncommitted: dict[int, int] = {}
        self.given = 0

    def consumer_name(self, partition: int | None = None) -> str:
        """As the history has it. partition: under whose present assignment; None for that of the latest callback."""
        since = self._assignments if partition is None else self._since.get(partition, self._anew)
        return f"{self.settings.group}/{self.number}/{since}"

    @property
    def identity(self) -> Mapping[str, object]:
        """Group, member and generation of an operation."""
        return {
            "group": self.settings.group,
            "member": self.consumer.member,
            "generation": self.consumer.generation,
        }

    def run(self, going: Callable[[], bool], loaded: Callable[[], bool]) -> None:
        """Live while `going`; leave and stall only while there is load."""
        try:
            while going():
                try:
                    self.consumer = self._clients.consumer(self)
                except ClientLost:
                    time.sleep(OPEN_AGAIN_S)
                    continue
                self._live(going, loaded)
        finally:
            self._clients.close()

    def _live(self, going: Callable[[], bool], loaded: Callable[[], bool]) -> None:
        options = self.settings.options
        end_s = time.monotonic() + self._rng.uniform(0.5, 1.5) * options.life_s
        stall_s = end_s - options.life_s / 3 if self._rng.random() < options.stall else None
        processing = self._processing(self.process)
        try:
            while going() and (time.monotonic() < end_s or not loaded()):
                if stall_s is not None and time.monotonic() > stall_s and loaded():
                    stall_s = None
                    _pause(options.max_poll_interval_ms / 1000 + 1, loaded)
                self._gather()
                records, self._gathered = self._gathered, []
                processing.take(self, records)
        except (BeginAnew, ClientLost):
            pass
        finally:
            processing.close()
            # A member that is gone is none any more once its session has ended.
            with suppress(ClientLost):
                self.consumer.close()
            self._deliver()
            self._gathered.clear()
            self.uncommitted.clear()
            self.begin_anew()

    def begin_anew(self) -> None:
        """Positions go on from elsewhere: by an assignment, or because the application went back."""
        self._assignments += 1
        self._anew = self._assignments
        self._since.clear()
        self._stood.clear()

    def on_assigned(self, partitions: Sequence[int]) -> None:
        self._drop(partitions)
        self._note("assign", partitions)

    def on_gone(self, f: str, partitions: Sequence[int]) -> None:
        self._drop(partitions)
        self._note(f, partitions)

    def _note(self, f: str, given: Sequence[int]) -> None:
        partitions = named(self.settings.topic, sorted(given))
        rebalance = "cooperative" if self.settings.options.cooperative else "eager"
        fields = {"consumer": self.consumer_name(), "rebalance": rebalance, "partitions": partitions}
        self.process.at_once(f, None, {**self.identity, **fields})

    def _drop(self, partitions: Sequence[int]) -> None:
        """What was delivered of these and not processed yet is another member's affair from now on."""
        self._deliver()
        if not self.settings.options.cooperative:
            self._gathered.clear()
            self.uncommitted.clear()
            self.begin_anew()
            return
        self._gathered = [record for record in self._gathered if record.partition not in partitions]
        self._assignments += 1
        for partition in partitions:
            self.uncommitted.pop(partition, None)
            self._stood.pop(partition, None)
            self._since[partition] = self._assignments

    def _gather(self) -> None:
        end_s = time.monotonic() + GATHER_S
        try:
            while len(self._gathered) < BATCH and time.monotonic() < end_s:
                records = self.consumer.poll(WAIT_S)
                if not records and self._gathered:
                    break
                self._gathered += records
                self._unsaid += records
                self.given += len(records)
        finally:
            self._deliver()

    def _deliver(self) -> None:
        """One poll for each partition that records came of."""
        by_partition: dict[int, list[Record]] = {}
        for record in self._unsaid:
            by_partition.setdefault(record.partition, []).append(record)
        self._unsaid.clear()
        for partition, records in by_partition.items():
            self._say(partition, records)

    def _say(self, partition: int, records: Sequence[Record]) -> None:
        first, after = records[0].offset, records[-1].offset + 1
        # Where the client keeps its position to itself it begins with what it hands out.
        position = min(first, self._stood.get(partition, first))
        stands = self.consumer.position(partition)
        if stands is not None:
            self._stood[partition] = after = max(after, stands)
        fields = {
            "position": position,
            "client_position": position,
            "leader_epoch": -1,
            "isolation": self.settings.isolation,
            "consumer": self.consumer_name(partition),
            "max_bytes": 0,
            **self.identity,
        }
        found = {
            "next_position": after,
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
