"""Names of files and folders."""

from __future__ import annotations

import pytest

from broker.log.files.names import deleted_dir_name, is_deleted_dir, parse_partition_dir, parse_segment_file
from broker.model.ids import TopicPartition


def test_partition_dir_topic_with_dashes_keeps_them() -> None:
    assert parse_partition_dir("a-b-12") == TopicPartition("a-b", 12)


@pytest.mark.parametrize("name", ["a", "a-", "-1", "a-b", "a-1.0123-delete", "lost+found"])
def test_partition_dir_other_folder_is_none(name: str) -> None:
    assert parse_partition_dir(name) is None


def test_deleted_dir_name_is_recognised_and_unique() -> None:
    names = {deleted_dir_name(TopicPartition("t", 3)) for _ in range(3)}
    assert len(names) == 3
    assert all(is_deleted_dir(name) and name.startswith("t-3.") for name in names)


def test_deleted_dir_name_longest_topic_fits_a_file_name() -> None:
    name = deleted_dir_name(TopicPartition("x" * 249, 1234))
    assert len(name) == 255
    assert is_deleted_dir(name)


def test_segment_file_name_parses_and_others_do_not() -> None:
    assert parse_segment_file("00000000000000000042.timeindex") == (42, ".timeindex")
    assert parse_segment_file("00000000000000000042.log.deleted") is None
    assert parse_segment_file("leader-epoch-checkpoint") is None
