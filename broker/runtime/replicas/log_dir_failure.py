"""Notifies the controller that files of this broker failed; it then sends LeaderAndIsr, whose response names the
replicas.

Many replicas fail at once when a dir does: one notice is on its way at a time, and one more follows what came
meanwhile. ZooKeeper may be away: the notice is repeated until it is written. Loop thread; the write is on the worker.
Source: kafka.server.ReplicaManager.LogDirFailureHandler, KafkaZkClient.propagateLogDirEvent (KIP-112).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from broker.core.controller.cluster_state import StoreUnavailable
from broker.model.backoff import Backoff
from broker.runtime.ports import Loop
from broker.runtime.worker import Worker

_log = logging.getLogger("broker")


class LogFailureStore(Protocol):
    """Where the controller learns of a failed log dir; called on the worker's thread."""

    def report_log_failure(self) -> None:
        """Blocks; raises StoreUnavailable."""
        ...


class LogFailureNotice:
    """`report` as often as something fails."""

    def __init__(
        self, store: LogFailureStore, worker: Worker, loop: Loop, retries: Callable[[], Backoff] = Backoff
    ) -> None:
        self._backoff = retries()
        self._store = store
        self._worker = worker
        self._loop = loop
        self._under_way = False
        self._again = False

    def report(self) -> None:
        """Soon, once for all that failed until then."""
        if self._under_way:
            self._again = True
            return
        self._under_way = True
        self._again = False
        self._loop.call_soon(lambda: self._worker.submit("reporting failed files", self._write))

    def _write(self) -> None:
        """Worker thread."""
        try:
            self._store.report_log_failure()
        except StoreUnavailable as unavailable:
            _log.warning("the controller does not know of failed files yet: %s", unavailable)
            self._repeat()
        except Exception:
            # Until this notice is written no other one is.
            _log.exception("the controller does not know of failed files yet")
            self._repeat()
        else:
            self._backoff.reset()
            self._loop.call_soon_threadsafe(lambda: self._done(0.0, repeat=False))

    def _repeat(self) -> None:
        wait_ms = self._backoff.next_ms()
        self._loop.call_soon_threadsafe(lambda: self._done(wait_ms, repeat=True))

    def _done(self, pause_ms: float, repeat: bool) -> None:
        self._under_way = False
        if repeat or self._again:
            self._under_way = True
            self._again = False
            self._loop.call_later(pause_ms, lambda: self._worker.submit("reporting failed files", self._write))
