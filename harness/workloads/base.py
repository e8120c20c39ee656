"""What a run needs of a workload."""

from __future__ import annotations

from typing import Protocol

from harness.operations.generator import Generator


class Workload(Protocol):
    """Pure: generators from the plan's seed."""

    threads: int

    def main(self) -> Generator:
        """The load of the main phase; ends with the time limit."""
        ...

    def final(self, again: int = 0) -> Generator:
        """The acknowledged sentinels, one per partition; ends when each has come out ok.

        again: how often that was done before in this run; the values are others each time.
        """
        ...
