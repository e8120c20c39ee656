"""Logs that are holes: their ends, checksums and checkpoints are what a broker expects to find."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure.logs import end_offset, size_bytes
from benchmarks.measure.sparse import BATCH_BYTES, RECORDS, SEGMENT_BATCHES, batch_header, with_entry, write_sparse_log
from broker.wire.record_batch import check_crc, read_header


def test_sparse_batch_has_a_good_checksum() -> None:
    start = batch_header(7000, 1234)
    whole = memoryview(start + bytes(BATCH_BYTES - len(start)))
    header = read_header(whole)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (7000, RECORDS - 1, RECORDS)
    assert header.batch_length + 12 == BATCH_BYTES
    check_crc(whole, 0, header)


def test_sparse_log_has_its_length_its_end_and_takes_no_disk(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"old")
    batches = SEGMENT_BATCHES + 2
    assert write_sparse_log(tmp_path, batches) == batches * RECORDS
    assert end_offset(tmp_path) == batches * RECORDS
    assert size_bytes(tmp_path) == batches * BATCH_BYTES
    assert sum(path.stat().st_blocks for path in tmp_path.iterdir()) * 512 < 1 << 20


def test_checkpoint_entry_replaces_the_partitions_own_only() -> None:
    text = "0\n2\nt 1 5\nt 11 6\n"
    assert with_entry(text, "t", 1, 9) == "0\n2\nt 11 6\nt 1 9\n"
