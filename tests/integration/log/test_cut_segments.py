"""Segments that somebody cuts or removes beneath an open log: whoever finishes, flushes or opens them finds out.

A flush, a roll and an orderly stop vouch for all that was written. Only appends looked whether that was still there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.log_errors import CorruptLog
from tests.property.log.log_tools import (
    TP,
    Clock,
    append_values,
    batch,
    fetch,
    kill,
    open_log,
    open_store,
    read_all,
)

pytestmark = pytest.mark.guarantee("L6")

ONE_SEGMENT = {"segment.bytes": "100000"}
SHORT = "the file ends here"


def _segments(path: str) -> list[Path]:
    return sorted(Path(path, str(TP)).glob("*.log"))


def _cut_to(path: Path, batches: int) -> None:
    """Keep so many batches of the file, all of which are as long as one another."""
    os.truncate(path, len(batch(0)) * batches)


def _roll(log: PartitionLog) -> None:
    log.append_as_leader(batch(7, size=99_900), 0)
    log.write()


@pytest.mark.parametrize(
    "vouch",
    [_roll, lambda log: log.flush(), lambda log: log.flush_in_background(), lambda log: log.commit(lambda: None)],
    ids=["roll", "flush", "flush-in-background", "group-commit"],
)
def test_open_file_that_was_cut_is_vouched_for_by_nobody(path: str, vouch: Callable[[PartitionLog], None]) -> None:
    store = open_store(path, Clock(), ONE_SEGMENT)
    append_values(store, range(6))
    log = open_log(store)
    _cut_to(_segments(path)[0], 4)
    with pytest.raises(CorruptLog, match=SHORT):
        vouch(log)
    assert log.recovery_point == 0
    assert len(_segments(path)) == 1, "nothing was begun behind it"
    assert log.staged_end_offset == 6
    assert not store.offline_dirs
    kill(store)


def test_log_whose_file_was_cut_is_not_closed_as_clean(path: str) -> None:
    store = open_store(path, Clock(), ONE_SEGMENT)
    append_values(store, range(6))
    _cut_to(_segments(path)[0], 4)
    store.close(clean=True)
    store = open_store(path, Clock(), ONE_SEGMENT)
    assert SHORT in store.unclean[TP]
    kill(store)


def test_retention_begins_nothing_behind_a_file_that_was_cut(path: str) -> None:
    store = open_store(path, Clock(), {**ONE_SEGMENT, "retention.ms": "1000"})
    append_values(store, range(6))
    _cut_to(_segments(path)[0], 4)
    damages: list[CorruptLog] = []
    store.delete_old_segments(1e9, {TP: 6}, damages.append)
    (damage,) = damages
    assert SHORT in str(damage)
    assert len(_segments(path)) == 1
    kill(store)


def _rolled(path: str) -> tuple[LogManager, PartitionLog, Path]:
    """Some segments, all but the active one closed; the third of their files."""
    store = open_store(path, Clock())
    append_values(store, range(60))
    store.close(clean=True)
    store = open_store(path, Clock())
    log = open_log(store)
    assert log.size_bytes > 0, "its sizes are known"
    return store, log, _segments(path)[2]


def test_closed_segment_that_was_cut_between_batches_is_found_as_often_as_it_is_opened(path: str) -> None:
    store, log, third = _rolled(path)
    _cut_to(third, 2)
    for _ in range(2):
        with pytest.raises(CorruptLog, match=SHORT):
            fetch(log, int(third.stem))
    kill(store)


_USES: dict[str, Callable[[LogManager, PartitionLog, int], object]] = {
    "read": lambda store, log, base: fetch(log, base + 1),
    "time": lambda store, log, base: log.offset_for_timestamp(1000 + base + 1, 60),
    "cut": lambda store, log, base: log.truncate_to(base + 1),
    "retention": lambda store, log, base: _expire(store),
}


def _expire(store: LogManager) -> None:
    damages: list[CorruptLog] = []
    store.update_config("t", {"retention.ms": "1000"})
    store.delete_old_segments(1e9, {TP: 60}, damages.append)
    raise damages[0]


@pytest.mark.parametrize("use", list(_USES))
def test_segment_that_was_removed_is_damage_of_its_log_alone(path: str, use: str) -> None:
    store, log, third = _rolled(path)
    third.unlink()
    with pytest.raises(CorruptLog, match=f"{third.name}: at position 0: somebody removed the file"):
        _USES[use](store, log, int(third.stem))
    assert not store.offline_dirs
    kill(store)


def test_log_whose_first_file_was_removed_can_be_emptied(path: str) -> None:
    store, log, _ = _rolled(path)
    _segments(path)[0].unlink()
    log.truncate_fully_and_start_at(0)
    append_values(store, range(3))
    assert len(read_all(log)) == 3
    store.close(clean=True)
    store = open_store(path, Clock())
    assert len(read_all(open_log(store))) == 3
    kill(store)


def test_log_whose_folder_is_gone_takes_its_dir_offline(path: str) -> None:
    store, log, third = _rolled(path)
    os.rename(third.parent, f"{path}/elsewhere")
    with pytest.raises(Exception, match="No such file or directory"):
        fetch(log, int(third.stem))
    assert store.offline_dirs == [path]
    kill(store)


def test_topic_id_file_that_was_removed_fails_no_flush(path: str) -> None:
    store = open_store(path, Clock(), ONE_SEGMENT)
    append_values(store, range(6))
    log = open_log(store)
    Path(path, str(TP), "partition.metadata").unlink()
    _roll(log)
    assert len(_segments(path)) == 2
    log.flush()
    assert log.recovery_point == 7
    assert not store.offline_dirs
    kill(store)
