"""An application that sends: one producer, many records under way, the delivery callback of each.

Decides pace, values and partitions. Must not know consumers, nor client libraries. Invariant: every record's operation
is invoked before it is handed over, and completed once: by its callback, or as unknown at the end, be it the client's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random

from harness.clients.values import encode_value
from harness.operations import outcomes
from harness.operations.op import Outcome
from harness.workloads.real_clients.ports import CallFailed, ClientLost, Clients, RecordSender
from harness.workloads.real_clients.record import Begun, Process
from harness.workloads.real_clients.settings import Settings

OPEN_MAX = 200
"""Records of one partition that are under way: a leader that hangs takes no partition's records but its own. More than
come within a fault, so that records are handed over during all of it.
"""
VALUES_EACH = 10**9
"""Values of producer n are from n times this on."""
OPEN_AGAIN_S = 0.5


class ProducerLoop:
    """One producing thread. acknowledged: how many of its records were."""

    def __init__(self, settings: Settings, number: int, process: Process, rate: float, clients: Clients) -> None:
        """rate: records per second."""
        self._settings = settings
        self._process = process
        self._clients = clients
        self._gap_s = 1 / rate
        self._rng = Random(settings.seed * 1_000_003 + number)
        self._next_value = number * VALUES_EACH
        self._open: dict[int, Begun] = {}
        self._waiting: Counter[int] = Counter()
        self._sender: RecordSender | None = None
        self.acknowledged = 0

    def run(self, going: Callable[[], bool]) -> None:
        """Send while `going`; then wait for the callbacks of what is under way, as long as the client may take."""
        try:
            due_s = time.monotonic()
            while going():
                due_s = self._step(due_s)
            self._finish()
        finally:
            self._clients.close()

    def _step(self, due_s: float) -> float:
        """One record; when the next is due."""
        try:
            if self._sender is None:
                self._sender = self._clients.sender(self._delivered)
            self._send_one(self._sender)
            due_s = max(due_s + self._gap_s * self._rng.uniform(0.5, 1.5), time.monotonic() - 0.1)
            self._wait_until(self._sender, due_s)
            if self._sender.broken:
                self._finish()
        except ClientLost as lost:
            self._give_up(lost.error)
            time.sleep(OPEN_AGAIN_S)
        return due_s

    @staticmethod
    def _wait_until(sender: RecordSender, due_s: float) -> None:
        """Serve callbacks meanwhile."""
        while True:
            sender.serve(max(0.0, due_s - time.monotonic()))
            if time.monotonic() >= due_s or sender.broken:
                return

    def _send_one(self, sender: RecordSender) -> None:
        free = [one for one in range(self._settings.partitions) if self._waiting[one] < OPEN_MAX]
        if not free:
            return
        partition = self._rng.choice(free)
        value, topic = self._next_value, self._settings.topic
        self._next_value += 1
        settings = self._settings
        fields = {"values": [value], "acks": settings.acks, "sentinel": False, "in_order": settings.idempotent}
        begun = self._process.invoke("send", (topic, partition), fields)
        self._open[begun.op] = begun
        self._waiting[partition] += 1
        sender.send(begun.op, partition, encode_value(value, topic, partition, self._settings.record_bytes))

    def _delivered(self, index: int, outcome: Outcome, error: str | None, offset: int | None) -> None:
        begun = self._open.pop(index, None)
        # A client that is gone may have said nothing of it, and another one does not know it.
        if begun is not None:
            self.acknowledged += outcome == "ok"
            self._waiting[begun.invocation.home[1]] -= 1
            self._process.complete(begun, outcome, error, {} if offset is None else {"base_offset": offset})

    def _finish(self) -> None:
        """Wait for what is under way, then drop the producer; what has no callback by then is unknown."""
        if self._sender is None:
            return
        try:
            self._sender.finish(self._settings.options.delivery_timeout_ms / 1000 + 2)
        except CallFailed as failed:
            self._give_up(failed.error)
        else:
            self._give_up(outcomes.TIMEOUT)

    def _give_up(self, error: str) -> None:
        self._sender = None
        for index in list(self._open):
            self._delivered(index, "info", error, None)
