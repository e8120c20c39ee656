"""What the kernel remembers of the last run of a log dir, with real files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.log import run_mark
from broker.log.run_mark import FILE_NAME, RunMark
from broker.runtime.ports import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 7)


@pytest.fixture
def marked(tmp_path: Path) -> str:
    """A log dir whose process ended with a at 5 and b at 9."""
    mark = RunMark(str(tmp_path))
    mark.add(A, 0)
    mark.add(B, 3)
    mark.set(A, 5)
    mark.set(B, 9)
    mark.close()
    return str(tmp_path)


def test_ends_are_remembered_without_a_sync(marked: str) -> None:
    last = run_mark.read(marked)
    assert last.same_kernel
    assert (last.end_of(A), last.end_of(B), last.end_of(TopicPartition("c", 0))) == (5, 9, None)


def test_registration_is_remembered_and_outlives_a_larger_mark(tmp_path: Path) -> None:
    mark = RunMark(str(tmp_path), epoch=5)
    assert run_mark.read(str(tmp_path)).epoch == 5
    mark.set_epoch(2**40)
    for index in range(1000):
        mark.set(TopicPartition("t", index), index)
    mark.close()
    last = run_mark.read(str(tmp_path))
    assert (last.epoch, last.end_of(TopicPartition("t", 999))) == (2**40, 999)


def test_registration_is_not_known_where_nobody_said_it(marked: str) -> None:
    assert run_mark.read(marked).epoch == run_mark.NO_EPOCH
    with Path(marked, FILE_NAME).open("r+b") as file:
        # As older versions left it.
        file.seek(504)
        file.write(bytes(8))
    assert run_mark.read(marked).same_kernel
    assert run_mark.read(marked).epoch == run_mark.NO_EPOCH


def test_another_boot_is_another_host(marked: str) -> None:
    last = run_mark.read(marked, boot_id="another")
    assert not last.same_kernel
    assert last.end_of(A) is None


def test_copy_of_a_log_dir_is_not_the_log_dir(marked: str, tmp_path: Path) -> None:
    original = tmp_path / FILE_NAME
    content = original.read_bytes()
    original.rename(tmp_path / "kept")
    original.write_bytes(content)
    assert not run_mark.read(marked).same_kernel


def test_page_that_left_the_cache_proves_nothing(marked: str) -> None:
    fd = os.open(f"{marked}/{FILE_NAME}", os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    assert not run_mark.read(marked).same_kernel
    assert not run_mark.read(marked, boot_id="another").same_kernel


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"{" * 600, b"[]".ljust(600, b"\0")])
def test_damaged_mark_reads_as_a_lost_host(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert not run_mark.read(str(tmp_path)).same_kernel


def test_mark_that_was_cut_reads_as_a_lost_host(tmp_path: Path) -> None:
    mark = RunMark(str(tmp_path))
    for index in range(300):
        mark.set(TopicPartition("t", index), index)
    mark.close()
    file = tmp_path / FILE_NAME
    whole = file.read_bytes()
    # The last one is as long as a mark of fewer logs.
    for size in (len(whole) - 1, len(whole) - 16, len(whole) // 2, 600, 528, 512, 4096):
        os.truncate(file, size)
        assert not run_mark.read(str(tmp_path)).same_kernel
        # Into the same file.
        file.write_bytes(whole)
        assert run_mark.read(str(tmp_path)).end_of(TopicPartition("t", 299)) == 299


def test_mark_of_an_older_version_is_read_as_it_is(marked: str) -> None:
    with Path(marked, FILE_NAME).open("r+b") as file:
        header = json.loads(file.read(504).rstrip(b"\0"))
        assert header.pop("slots") > 0
        file.seek(0)
        file.write(json.dumps(header).encode().ljust(504, b"\0"))
    last = run_mark.read(marked)
    assert (last.same_kernel, last.end_of(A), last.end_of(B)) == (True, 5, 9)


@pytest.mark.parametrize("slots", ['"x"', "[]", "1.5", "-1"])
def test_mark_whose_count_of_slots_makes_no_sense_stops_no_start(marked: str, slots: str) -> None:
    with Path(marked, FILE_NAME).open("r+b") as file:
        header = file.read(504).rstrip(b"\0").decode()
        file.seek(0)
        file.write(header.replace('"slots": 224', f'"slots": {slots}').encode().ljust(504, b"\0"))
    assert not run_mark.read(marked).same_kernel


def test_missing_mark_reads_as_a_lost_host(tmp_path: Path) -> None:
    assert not run_mark.read(str(tmp_path)).same_kernel


def test_many_logs_and_deleted_ones_are_kept_apart(tmp_path: Path) -> None:
    mark = RunMark(str(tmp_path))
    partitions = [TopicPartition("t", index) for index in range(1000)]
    for partition in partitions:
        mark.set(partition, partition.partition * 2)
    for partition in partitions[:500]:
        mark.remove(partition)
    mark.add(A, 77)
    mark.close()
    last = run_mark.read(str(tmp_path))
    assert [last.end_of(partition) for partition in partitions[:500]] == [None] * 500
    assert [last.end_of(partition) for partition in partitions[500:]] == [2 * p.partition for p in partitions[500:]]
    assert last.end_of(A) == 77
