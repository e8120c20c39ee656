"""Producer ids for this broker, from blocks claimed in ZooKeeper. Loop thread.

Ids are answered at once while a block lasts; the next block is claimed on the worker when the current one is used up,
and whoever asks meanwhile waits. Source: kafka.coordinator.transaction.ZkProducerIdManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.core.cluster_state import StoreUnavailable
from broker.runtime.ports import Loop
from broker.runtime.registration import Worker


class ProducerIdStore(Protocol):
    def claim_producer_ids(self) -> tuple[int, int]:
        """[first, last] of a block that is ours alone; blocks. Raises StoreUnavailable."""
        ...


class ProducerIdBlocks:
    """Satisfies `replication_ports.ProducerIdSource`."""

    def __init__(self, store: ProducerIdStore, worker: Worker, loop: Loop) -> None:
        self._store = store
        self._worker = worker
        self._loop = loop
        self._next = 0
        self._end = 0
        self._waiting: deque[tuple[Callable[[int], None], Callable[[str], None]]] = deque()

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        """Exactly one callback follows; on_id is called at once while the block lasts."""
        if self._next < self._end and not self._waiting:
            self._next += 1
            on_id(self._next - 1)
            return
        self._waiting.append((on_id, on_failure))
        if len(self._waiting) == 1:
            self._worker.submit("claiming producer ids", self._claim)

    def _claim(self) -> None:
        try:
            first, last = self._store.claim_producer_ids()
        except StoreUnavailable as unavailable:
            reason = str(unavailable)
            self._loop.call_soon_threadsafe(lambda: self._failed(reason))
        except Exception as error:
            reason = repr(error)
            self._loop.call_soon_threadsafe(lambda: self._failed(reason))
            raise
        else:
            self._loop.call_soon_threadsafe(lambda: self._claimed(first, last))

    def _claimed(self, first: int, last: int) -> None:
        self._next, self._end = first, last + 1
        while self._waiting and self._next < self._end:
            on_id, _ = self._waiting.popleft()
            self._next += 1
            on_id(self._next - 1)
        if self._waiting:
            self._worker.submit("claiming producer ids", self._claim)

    def _failed(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, on_failure in waiting:
            on_failure(reason)
