"""A thread for work that may wait (ZooKeeper, files), as a Protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Worker(Protocol):
    """One serial queue of tasks, none of which runs on the loop."""

    def submit(self, name: str, task: Callable[[], None]) -> None:
        """Run `task` after those submitted before it; an error that it raises is logged under `name`."""
        ...
