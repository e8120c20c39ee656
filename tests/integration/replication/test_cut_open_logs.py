"""A file that somebody else cuts while its log is open and led: seed 2124 of `examples/runs/all-faults.toml`.

What was appended next was written where it belonged, behind a hole of zeros. Reads near the end go by remembered
places, so consumers got the hole, and the batches that the broker believed to see in it ended at offset 2,101,608,449.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from broker.log.files.batch_scan import end_offset_in_file
from broker.model.log_errors import CorruptLog
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import CorruptBatch, iter_batches
from broker.wire.records import NewRecord, encode_batch
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_cluster import fetched, produced
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("L6")

_IN_A_HEADER = 47
_LAST_OFFSET_DELTA_AT = 23


@pytest.fixture
def active(cluster: DiskCluster) -> Path:
    """The file that broker 1 appends to as leader, with twelve batches in it that all have."""
    for n in range(12):
        cluster.produce(1, f"value-{n}")
    cluster.settle()
    (path,) = cluster.folder_of(1).glob("*.log")
    return path


def _positions(path: Path) -> list[int]:
    return [position for position, _ in iter_batches(memoryview(path.read_bytes()), verify_crc=False)]


def _cut_in_the_last_but_two(path: Path) -> int:
    """Cut the file within the header of a batch, as the run did; where."""
    at = _positions(path)[-3] + _IN_A_HEADER
    os.truncate(path, at)
    return at


@pytest.mark.parametrize("value", ["behind the hole", "x" * 1500], ids=["appended", "rolled"])
def test_leader_whose_open_file_was_cut_takes_no_record_more_and_none_is_lost(
    cluster: DiskCluster, active: Path, value: str
) -> None:
    before = cluster.values(2)
    at = _cut_in_the_last_but_two(active)
    answer = produced(cluster.produce(1, value))
    assert answer is not None
    assert answer.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].offline
    assert active.stat().st_size == at, "no hole was made"
    assert len(list(active.parent.glob("*.log"))) == 1, "nor was anything begun behind it"
    cluster.give_way_and_come_back(1)
    assert cluster.values(1) == cluster.values(cluster.state.leader)
    assert cluster.values(1)[: len(before)] == before


def test_file_that_was_cut_is_reported_with_its_end(cluster: DiskCluster, active: Path) -> None:
    size = active.stat().st_size
    at = _cut_in_the_last_but_two(active)
    log = cluster.nodes[1].log
    log.append_as_leader(memoryview(bytearray(encode_batch([NewRecord(None, b"x")], timestamps=1))), 1)
    with pytest.raises(CorruptLog, match=rf"at position {at}: the file ends here, {size} bytes were written"):
        log.write()


def test_consumer_is_given_no_bytes_of_a_hole_that_reaches_past_the_log(cluster: DiskCluster, active: Path) -> None:
    with active.open("r+b") as file:
        file.seek(_positions(active)[-1] + _LAST_OFFSET_DELTA_AT)
        file.write(struct.pack(">i", 2_000_000_000))
    result = fetched(cluster.fetch(1, 0, min_bytes=1 << 20))
    assert result is not None
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].offline


def _batches(count: int) -> bytearray:
    data = bytearray()
    for n in range(count):
        data += encode_batch([NewRecord(None, b"value")], timestamps=1, base_offset=n)
    return data


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [
        (8, ">i", 0),
        (8, ">i", -12),
        (8, ">i", -(1 << 31)),
        (8, ">i", 1 << 20),
        (_LAST_OFFSET_DELTA_AT, ">i", -1),
        (0, ">q", 0),
        (0, ">q", -5),
    ],
    ids=["no-length", "stands-still", "goes-back", "too-long", "ends-before-it-begins", "offset-again", "below-zero"],
)
def test_end_of_damaged_bytes_in_a_file_is_an_error_and_found(tmp_path: Path, at: int, layout: str, value: int) -> None:
    data = _batches(3)
    one = len(data) // 3
    struct.pack_into(layout, data, one + at, value)
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file, pytest.raises(CorruptBatch) as damage:
        end_offset_in_file(file.fileno(), 0, len(data))
    assert damage.value.position == one


def test_end_of_bytes_that_the_file_no_longer_has_is_an_error(tmp_path: Path) -> None:
    data = _batches(3)
    (tmp_path / "file").write_bytes(data[: len(data) // 3 + _IN_A_HEADER])
    with (tmp_path / "file").open("rb") as file:
        assert end_offset_in_file(file.fileno(), 0, len(data) // 3) == 1
        with pytest.raises(CorruptBatch, match="47 bytes of the file are left"):
            end_offset_in_file(file.fileno(), 0, len(data))
