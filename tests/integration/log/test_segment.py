"""One segment in its file: reads end before their limit, and a cut takes its indexes' entries along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.segments.segment import Segment
from broker.wire.record_batch import iter_batches
from tests.property.log.log_tools import TP, batch
from tests.support.chunks import chunk_view
from tests.support.flipped import flip

RECORDS = 2
BATCHES = 40
END = RECORDS * BATCHES


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    """40 batches of two records each, with rising timestamps; about every third one is in the indexes."""
    segment = Segment.create(TP, str(tmp_path), 0, 300, False, 0.0)
    for number in range(BATCHES):
        data = batch(number, RECORDS, timestamp=1000 + number)
        data[:8] = (RECORDS * number).to_bytes(8, "big")
        segment.append([data])
        segment.add(RECORDS * number + 1, 1000 + number, len(data))
    yield segment
    segment.close()


def read(segment: Segment, offset: int, limit: int) -> list[int]:
    """Base offsets of the batches that a read may return."""
    chunk = segment.read(offset, 1 << 20, limit, END, True)
    assert chunk is not None
    return (
        [header.base_offset for _, header in iter_batches(chunk_view(chunk), verify_crc=True)] if chunk.length else []
    )


def test_read_returns_no_batch_that_holds_its_limit(segment: Segment) -> None:
    for limit in range(3, END):
        assert read(segment, 0, limit) == [base for base in range(0, END, RECORDS) if base + RECORDS <= limit]


def test_read_that_begins_in_the_batch_of_its_limit_returns_nothing(segment: Segment) -> None:
    for limit in range(2, END):
        assert read(segment, limit - limit % RECORDS, limit) == []


def test_cut_takes_the_entries_of_both_indexes_along(segment: Segment) -> None:
    """Were an entry left, the indexes would be built anew from all batches, of which the first is damaged here."""
    segment.finish()
    last = segment.indexes.by_time.newest()
    assert last is not None
    assert last.offset == END - 1
    flip(Path(segment.path(".log")), 70)
    for end in range(END - RECORDS, END // 2, -RECORDS):
        assert segment.truncate_to(end) == end
        newest = segment.indexes.by_time.newest()
        assert newest is not None
        assert newest.offset < end
        assert (segment.max_timestamp, segment.max_timestamp_offset) == (1000 + end // RECORDS - 1, end - 1)
