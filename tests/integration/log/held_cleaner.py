"""A cleaner whose cleanings wait until the test lets them run."""

from __future__ import annotations

from collections.abc import Callable

from broker.log.cleaner.cleaner import CleaningJob, LogCleaning
from broker.log.cleaner.process import OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.log.log_manager import LogManager
from broker.model.log_errors import CorruptLog
from tests.property.log.compaction_tools import Replicas

ENOUGH_READS = 1000
"""A cleaning that reads more often would read for ever."""


class HeldCleaner:
    """Each cleaning is done when `go` is called, with `between` before reads; `told`: the damage that was reported."""

    def __init__(self, store: LogManager) -> None:
        self.damages: list[CorruptLog] = []
        self.started: list[str] = []
        self.reads = 0
        self.between: Callable[[int], None] = lambda reads: None
        self.cleaner = LogCleaner(
            store, Replicas(store.logs), self, CleanerSettings(), lambda: 1e6, self.damages.append
        )
        self._held: list[Callable[[], None]] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        self.started.append(job.directory.rpartition("/")[2])
        self.reads = 0

        def read() -> None:
            self.reads += 1
            assert self.reads < ENOUGH_READS, "it reads for ever"
            self.between(self.reads)

        self._held.append(lambda: perform(LogCleaning(job, unlimited(), read), on_event))
        return lambda: None

    def go(self) -> None:
        while self._held:
            self._held.pop(0)()

    def tick(self) -> None:
        self.cleaner.check()
        self.go()
