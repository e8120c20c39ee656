"""One thread that does a broker's blocking ZooKeeper work in the order in which it was submitted.

The controller has its own thread; this one is for everything else: registering, topic settings, producer ids, creating
topics. A task reports to the loop by itself. A task that raises is logged by name, and the next one runs.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

_log = logging.getLogger("broker.zk")

_END_S = 1.0


class ZkWorker:
    """Satisfies `broker.runtime.worker.Worker`."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[str, Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="zk-worker", daemon=True)

    def start(self) -> None:
        """Start the thread; tasks submitted before run first."""
        self._thread.start()

    def submit(self, name: str, task: Callable[[], None]) -> None:
        """Queue a task; any thread, never blocks."""
        self._tasks.put((name, task))

    def stop(self) -> None:
        """End after the tasks that are queued. Close the ZooKeeper client first: blocked tasks then fail at once.

        Where ZooKeeper does not even respond to that, a task that hangs is left behind.
        """
        self._tasks.put(None)
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        while (item := self._tasks.get()) is not None:
            name, task = item
            try:
                task()
            except Exception:
                _log.exception("%s failed", name)
