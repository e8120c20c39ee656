"""A partition whose log was in one log dir, and is in another now: what is left of it in the first is not believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.store import DiskLogStore
from broker.runtime.ports import TopicPartition
from tests.property.log.log_tools import TP, Clock, append_values, kill, open_log

OTHERS = [TopicPartition("u", partition) for partition in range(2)]


@pytest.fixture
def dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "a"), str(tmp_path / "b")]


def opened(dirs: list[str], clock: Clock | None = None) -> DiskLogStore:
    return DiskLogStore(dirs, (clock or Clock()).environment(), defaults={"file.delete.delay.ms": "10"})


def test_checkpoints_of_the_dir_that_a_log_was_in_say_nothing_of_it(dirs: list[str]) -> None:
    store = opened(dirs)
    append_values(store, range(10))
    log = open_log(store)
    assert log.directory == dirs[0]
    log.flush()
    log.maybe_raise_log_start(5)
    store.checkpoint_high_watermarks({TP: 8})
    store.checkpoint_recovery_points()
    store.checkpoint_log_start_offsets()
    for tp in OTHERS:
        store.create(tp, "", {})
    store.delete(TP)
    store.delete(OTHERS[0])
    append_values(store, range(9), epoch=1)
    assert open_log(store).directory == dirs[1]
    kill(store)
    store = opened(dirs)
    log = store.logs()[TP]
    assert (log.log_start_offset, log.leo) == (0, 9)
    assert store.high_watermarks().get(TP, 0) == 0
    assert not store.unclean
    kill(store)
