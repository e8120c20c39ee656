"""L2: what an append or a fetch costs does not grow with the log: 1 GB in one segment beside 1 TB in a thousand.

The logs are holes with right headers and indexes. What is compared is calls and system calls, which no busy machine
disturbs; the times are told. A start makes no more system calls either, and goes through the segments' names once: some
3 microseconds each, half of them the kernel's, which is a two-hundredth of a broker's start for a thousand segments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.measure.sparse import BATCH_BYTES, RECORDS, SEGMENT_BATCHES, set_checkpoints, write_sparse_log
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.wire.chunks import FileSlice
from tests.property.log.log_tools import TP, Clock, batch, open_log, open_store
from tests.support.calls import Calls

pytestmark = pytest.mark.guarantee("L2")

NO_SPECIAL_SETTINGS: dict[str, str] = {}
ALIKE = 1.1


@dataclass
class Costs:
    """Calls of each operation, and its wall-clock seconds without the counting."""

    segments: int
    size_bytes: int
    calls: dict[str, Calls]
    seconds: dict[str, float]


def make_log(path: Path, segments: int) -> int:
    """A cleanly stopped broker's folder with a log of that many full segments; its end."""
    store = open_store(str(path), Clock(), NO_SPECIAL_SETTINGS)
    open_log(store)
    store.close(clean=True)
    end = write_sparse_log(path / str(TP), segments * SEGMENT_BATCHES)
    set_checkpoints(path, TP.topic, TP.partition, end)
    return end


def measure(path: Path, segments: int) -> Costs:
    end = make_log(path, segments)
    calls: dict[str, Calls] = {}
    seconds: dict[str, float] = {}
    stores: list[LogManager] = []

    def start() -> None:
        stores.append(open_store(str(path), Clock(), NO_SPECIAL_SETTINGS))

    def of(name: str, action: Callable[[], object], between: Callable[[], object] = lambda: None) -> None:
        calls[name] = Calls().during(action)
        between()
        began = time.perf_counter()
        action()
        seconds[name] = time.perf_counter() - began

    of("start", start, lambda: stores.pop().close(clean=True))
    store = stores[-1]
    log = store.logs()[TP]
    assert isinstance(log, PartitionLog)
    assert (log.staged_end_offset, len(log.segment_base_offsets)) == (end, segments + 1)

    def append() -> None:
        log.append_as_leader(batch(1), 0)
        log.write()

    append()
    of("append", append)
    newest = log.staged_end_offset - 1
    of("fetch the newest", lambda: _read(log, newest))
    # In the middle of the oldest segment and of one that nobody has opened: the index names its place.
    middle = (segments // 2 * SEGMENT_BATCHES + SEGMENT_BATCHES // 2) * RECORDS
    of("fetch from the middle", lambda: _read(log, middle + 3))
    size = sum(file.stat().st_size for file in (path / str(TP)).glob("*.log"))
    store.close(clean=True)
    return Costs(segments, size, calls, seconds)


def _read(log: PartitionLog, offset: int) -> None:
    chunk = log.read(offset, 1 << 20, log.staged_end_offset, True)
    assert isinstance(chunk, FileSlice)
    assert chunk.length > 0


def test_append_and_fetch_cost_the_same_in_a_terabyte_as_in_a_gigabyte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = measure(tmp_path / "small", 1), measure(tmp_path / "large", 1000)
    assert small.size_bytes > 10**9
    assert large.size_bytes > 10**12
    with capsys.disabled():
        print(f"\n{'':>22} {'1 GB':>18} {'1 TB':>18}   (calls, of these system calls, ms)")
        for name in small.calls:
            cells = [
                f"{costs.calls[name].total:>6} {costs.calls[name].system.total():>4} {costs.seconds[name] * 1000:>6.2f}"
                for costs in (small, large)
            ]
            print(f"{name:>22} {cells[0]} {cells[1]}")
    for name in ("append", "fetch the newest", "fetch from the middle"):
        assert large.calls[name].total <= ALIKE * small.calls[name].total, name
        assert large.calls[name].system == small.calls[name].system, name
    # No segment but the last is opened, none is read; the names of all are.
    assert large.calls["start"].system == small.calls["start"].system
    assert (large.calls["start"].total - small.calls["start"].total) / 999 < 8, "per segment"
    assert large.size_bytes - 3 * batch(1).nbytes == BATCH_BYTES * SEGMENT_BATCHES * 1000
