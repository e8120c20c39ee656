"""One broker of a cluster in one process: its parts, its slots for answers, its event log without a file."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.model.ids import TopicPartition
from broker.runtime.event_log import EventLog
from broker.runtime.replica_manager import ReplicaManager
from broker.wire.chunks import Chunk
from tests.support.chunks import chunk_view
from tests.support.fake_loop import FakeLoop
from tests.support.memory_log import MemoryLog, MemoryStore

TOPIC = "t"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class FakeSlot:
    """Keeps the answer."""

    def __init__(self, on_response: Callable[[Sequence[Chunk]], None] | None = None) -> None:
        self.response: bytes | None = None
        self.nothing = False
        self.closed: str | None = None
        self.open = True
        self.overtaken: Callable[[], None] | None = None
        self._on_response = on_response

    @property
    def done(self) -> bool:
        return self.response is not None or self.nothing or self.closed is not None

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        assert not self.done, "answered twice"
        data = b""
        for chunk in chunks:
            data += bytes(chunk_view(chunk))
        self.response = data
        if self._on_response is not None:
            self._on_response(chunks)

    def fulfil_nothing(self) -> None:
        assert not self.done
        self.nothing = True

    def when_overtaken(self, call: Callable[[], None] | None) -> None:
        self.overtaken = call

    def close_connection(self, reason: str, response: Sequence[Chunk] = ()) -> None:
        assert not self.done
        if response:
            self.fulfil(response)
        self.closed = reason


class RecordingEventLog(EventLog):
    """The event log without a file."""

    __slots__ = ("events", "flushed")

    def __init__(self, broker_id: int, incarnation: str, with_ids: Collection[str] = ()) -> None:
        super().__init__("/dev/null", broker_id, incarnation, lambda: 0, lambda: 0, with_ids)
        self.events: list[dict[str, Any]] = []
        self.flushed = 0

    def flush(self) -> None:
        self.events += [json.loads(line) for line in self._lines]
        self._lines.clear()
        self.flushed = len(self.events)

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.events if line["e"] == event]


@dataclass
class Node:
    """One broker. `manager` is None while it is dead."""

    broker_id: int
    loop: FakeLoop
    store: MemoryStore = field(default_factory=MemoryStore)
    manager: ReplicaManager | None = None
    events: list[RecordingEventLog] = field(default_factory=list)
    paused: bool = False
    deaf: bool = False
    min_isr: int | None = None
    """Where it has heard of another one than the controller."""
    broker_epoch: int = -1
    incarnation: int = 0
    inbox: deque[Callable[[], object]] = field(default_factory=deque)
    connected: list[Callable[[], None]] = field(default_factory=list)
    """Tell those who wait for an answer of this broker that their connection is gone."""

    def __post_init__(self) -> None:
        self.store.now_ms = self.loop.now_ms

    @property
    def log(self) -> MemoryLog:
        return self.store.logs()[TopicPartition(TOPIC, 0)]

    @property
    def up(self) -> ReplicaManager:
        assert self.manager is not None, f"broker {self.broker_id} is down"
        return self.manager

    @property
    def hw(self) -> int:
        return self.up.replicas.by_partition[(TOPIC, 0)].high_watermark

    @property
    def event_log(self) -> RecordingEventLog:
        return self.events[-1]
