"""A byte flipped anywhere in a log's folder: what is served is valid and in its place, or CorruptLog is raised."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.model.log_errors import CorruptLog
from broker.wire.record_batch import iter_batches
from tests.property.log.log_tools import TP, Clock, batch, fetch, folder, kill, open_log, open_store, read_all
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("L6")


def _filled(path: str, clean: bool, flushed: bool) -> list[bytes]:
    """A log of several segments and two epochs; returns its batches."""
    clock = Clock()
    store = open_store(path, clock)
    log = open_log(store)
    for value in range(24):
        log.append_as_leader(batch(value, 1 + value % 3, 1000 + value), value // 10)
        log.write()
    expected = read_all(log)
    if flushed:
        log.flush()
        store.checkpoint_recovery_points()
    if clean:
        store.close(clean=True)
    else:
        kill(store)
    return expected


def _is_epoch_byte(name: str, content: bytes, position: int) -> bool:
    """Whether the byte belongs to a leader epoch, which no check can cover."""
    return name.endswith(".log") and any(
        at + 12 <= position < at + 16 for at, _ in iter_batches(memoryview(content), verify_crc=True)
    )


@example(clean=False, flushed=True, file_at=0.4375, byte_at=0.046875, bit=0, cut=False)
@examples(400)
@given(
    clean=st.booleans(),
    flushed=st.booleans(),
    file_at=st.floats(0, 0.999),
    byte_at=st.floats(0, 0.999),
    bit=st.integers(0, 7),
    cut=st.booleans(),
)
def test_log_damaged_anywhere_serves_only_valid_batches(
    clean: bool, flushed: bool, file_at: float, byte_at: float, bit: int, cut: bool
) -> None:
    with folder() as path:
        expected = _filled(path, clean, flushed)
        home = f"{path}/{TP}"
        names = sorted(name for name in os.listdir(home) if os.path.getsize(f"{home}/{name}"))
        name = names[int(file_at * len(names))]
        with open(f"{home}/{name}", "r+b") as file:
            content = file.read()
            position = int(byte_at * len(content))
            if cut:
                file.truncate(position)
            elif not _is_epoch_byte(name, content, position):
                file.seek(position)
                file.write(bytes([content[position] ^ (1 << bit)]))
        store = open_store(path, Clock())
        try:
            log = store.get(TP)
            if log is None:
                assert store.offline_logs[TP].topic_partition == TP
                return
            by_base = {int.from_bytes(content[:8], "big"): content for content in expected}
            offset = log.log_start_offset
            while offset < log.staged_end_offset:
                try:
                    data = fetch(log, offset, 400)
                except CorruptLog:
                    offset += 1
                    continue
                assert data
                for at, header in iter_batches(memoryview(data), verify_crc=True):
                    assert data[at : at + header.size] == by_base[header.base_offset]
                    assert header.base_offset <= offset <= header.last_offset
                    offset = header.last_offset + 1
            assert log.staged_end_offset <= sum(1 + value % 3 for value in range(24))
        finally:
            store.close(clean=False)
