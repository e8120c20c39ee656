"""Producer ids for this broker, from blocks claimed in ZooKeeper. Loop thread.

Ids are handed out at once while a block lasts; the next block is claimed on the worker when the current one is used up,
and requests meanwhile wait, but not for as long as ZooKeeper may be away: other brokers may have ids left.
Source: kafka.coordinator.transaction.ZkProducerIdManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from broker.core.controller.cluster_state import StoreUnavailable
from broker.runtime.ports import Loop
from broker.runtime.requests.deadlines import Deadlines
from broker.runtime.worker import Worker

WAIT_MS: Final = 2000.0
"""Well within any client's request time-out, and longer than a claim takes that succeeds."""


@dataclass(slots=True, eq=False)
class _Waiting:
    on_id: Callable[[int], None]
    on_failure: Callable[[str], None]


class ProducerIdStore(Protocol):
    """What hands out blocks of producer ids, cluster-wide; called on the worker's thread."""

    def claim_producer_ids(self) -> tuple[int, int]:
        """[first, last] of a block that no other broker gets; the call blocks. Raises StoreUnavailable."""
        ...


class ProducerIdBlocks:
    """Satisfies `replication_ports.ProducerIdSource`."""

    def __init__(self, store: ProducerIdStore, worker: Worker, loop: Loop) -> None:
        self._store = store
        self._worker = worker
        self._loop = loop
        self._next = 0
        self._end = 0
        self._claiming = False
        self._waiting: deque[_Waiting] = deque()
        self._deadlines: Deadlines[_Waiting] = Deadlines(loop, self._on_late)

    def next_producer_id(self, on_id: Callable[[int], None], on_failure: Callable[[str], None]) -> None:
        """Exactly one callback follows within WAIT_MS; on_id is called at once while the block lasts."""
        if self._next < self._end:
            self._next += 1
            on_id(self._next - 1)
            return
        waiting = _Waiting(on_id, on_failure)
        self._waiting.append(waiting)
        self._deadlines.add(waiting, WAIT_MS)
        self._claim_more()

    def _claim_more(self) -> None:
        if not self._claiming:
            self._claiming = True
            self._worker.submit("claiming producer ids", self._claim)

    def _on_late(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        waiting.on_failure(f"no block of ids was claimed within {WAIT_MS:.0f} ms: is ZooKeeper there?")

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
        self._claiming = False
        self._next, self._end = first, last + 1
        while self._waiting and self._next < self._end:
            waiting = self._take_first()
            self._next += 1
            waiting.on_id(self._next - 1)
        if self._waiting:
            self._claim_more()

    def _failed(self, reason: str) -> None:
        self._claiming = False
        for _ in range(len(self._waiting)):
            self._take_first().on_failure(reason)

    def _take_first(self) -> _Waiting:
        waiting = self._waiting.popleft()
        self._deadlines.remove(waiting, WAIT_MS)
        return waiting
