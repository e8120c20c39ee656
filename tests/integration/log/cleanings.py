"""A compacted log that is ready to be cleaned, and the names of its files."""

from __future__ import annotations

import os

from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.wire.compression import Compression
from tests.property.log.compaction_tools import COMPACTED, Bench, PatientClock, append_overwriting, cleaner_for
from tests.property.log.log_tools import TP, Clock, open_log, open_store


def ready_log(path: str, clock: Clock) -> tuple[LogManager, PartitionLog, Bench]:
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    append_overwriting(log, 60, Compression.GZIP, of_an_epoch=25)
    if isinstance(clock, PatientClock):
        clock.work()
    return store, log, cleaner_for(store, clock)


def file_names(path: str, *endings: str) -> list[str]:
    return [name for name in os.listdir(f"{path}/{TP}") if name.endswith(endings)]
