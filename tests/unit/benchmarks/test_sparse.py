"""Logs that are holes: their ends and checkpoints are what a broker expects to find."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure.logs import end_offset, size_bytes
from benchmarks.measure.sparse import SEGMENT_BYTES, batch_header, with_entry, write_sparse_log


def test_batch_header_is_as_long_as_kafkas() -> None:
    assert len(batch_header(0, 1000, 5000, 0)) == 61


def test_sparse_log_has_its_length_its_end_and_takes_no_disk(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"old")
    total = 3 * SEGMENT_BYTES // 2
    assert write_sparse_log(tmp_path, total) == 2000
    assert end_offset(tmp_path) == 2000
    assert size_bytes(tmp_path) == total
    assert sum(path.stat().st_blocks for path in tmp_path.iterdir()) * 512 < 1 << 20


def test_checkpoint_entry_replaces_the_partitions_own_only() -> None:
    text = "0\n2\nt 1 5\nt 11 6\n"
    assert with_entry(text, "t", 1, 9) == "0\n2\nt 11 6\nt 1 9\n"
