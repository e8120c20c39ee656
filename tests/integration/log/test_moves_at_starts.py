"""What a start makes of a move between log dirs: it goes on, takes the copy, or says what it cannot know."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.property.log.compaction_tools import COMPACTED, keyed, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill, read_all
from tests.property.log.moved_logs import Life, copies, opened

pytestmark = pytest.mark.guarantee("L6", "L8")


def between_the_renames(life: Life, dirs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed once the copy has the partition's name, with the outdated log under the same name in the other dir."""
    life.store.moving.begin(TP, dirs[1])
    with monkeypatch.context() as patch:
        patch.setattr("broker.log.manager.moving.LogMoving._retire", lambda *_: None)
        assert life.change_over()
    life.append(3, 1)
    kill(life.store)
    assert all(Path(path, str(TP)).exists() for path in dirs)


def test_start_between_the_renames_takes_the_copy(
    life: Life, dirs: list[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_the_renames(life, dirs, monkeypatch)
    again = Life(opened(dirs, clock))
    assert again.home == dirs[1]
    assert read_all(again.log) == life.written
    assert not Path(dirs[0], str(TP)).exists()
    kill(again.store)


def test_outdated_log_without_the_dir_of_its_copy_stays_offline(
    life: Life, dirs: list[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_the_renames(life, dirs, monkeypatch)
    store = opened([dirs[0]], clock)
    assert "may have been moved" in str(store.offline_logs[TP])
    assert store.restore(TP, TOPIC_ID, {}).log_end_offset > 0, "where another replica leads"
    assert TP in store.unclean
    kill(store)
    store = opened([dirs[0]], clock)
    assert not store.offline_logs
    kill(store)


def test_outdated_log_whose_copy_is_gone_vouches_for_nothing(
    life: Life, dirs: list[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_the_renames(life, dirs, monkeypatch)
    os.rename(f"{dirs[1]}/{TP}", f"{dirs[1]}-aside")
    for checkpoint in Path(dirs[1]).glob("*-checkpoint"):
        checkpoint.unlink()
    for _ in range(2):
        store = opened(dirs, clock)
        assert store.logs()[TP].directory == dirs[0]
        assert "which is gone" in store.unclean[TP]
        kill(store)


@pytest.mark.parametrize("clean", [False, True])
def test_second_copy_and_one_beside_its_log_are_not_wanted(
    life: Life, dirs: list[str], clock: Clock, clean: bool
) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    life.store.close(clean=clean)
    if not clean:
        kill(life.store)
    (name,) = copies(dirs[1])
    os.mkdir(f"{dirs[0]}/{name}")
    os.mkdir(f"{dirs[1]}/t-0.{'f' * 32}-future")
    again = Life(opened(dirs, clock))
    clock.advance(20)
    assert [copies(path) for path in dirs] == [[], [name]]
    assert again.store.moving.targets == {TP: dirs[1]}
    assert again.store.reports[0].clean == clean
    while (copied := again.store.moving.copy(TP, 100)) != 0:
        assert copied == -1, "nothing is copied twice: its disk catches up"
    assert again.change_over()
    assert read_all(again.log) == life.written
    kill(again.store)


def test_copy_that_is_ahead_or_parted_from_its_log_is_cut_at_a_start(life: Life, dirs: list[str], clock: Clock) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.append(10, 2)
    life.copy()
    kill(life.store)
    # The log lost its end, and a new leader wrote another one.
    alone = opened([dirs[0]], clock)
    log = Life(alone, written=list(life.written), value=life.value)
    log.cut(8)
    log.append(2, 3)
    kill(alone)
    again = Life(opened(dirs, clock))
    assert again.store.moving.targets == {TP: dirs[1]}
    assert again.change_over()
    assert read_all(again.log) == log.written
    assert [epoch for epoch, _ in again.log.epochs] == [1, 2, 3]
    kill(again.store)


def test_copy_of_a_compacted_log_begins_anew(dirs: list[str], clock: Clock) -> None:
    """The log was restored from a leader that had cleaned a tombstone away, with the value that the copy has."""
    life = Life(opened(dirs, clock, COMPACTED))
    life.create()
    for data in (keyed([(b"gone", b"v")]), keyed([(b"k", b"v")])):
        life.log.append_as_leader(data, 1)
        life.log.write()
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    kill(life.store)
    alone = opened([dirs[0]], clock, COMPACTED)
    log = alone.logs()[TP]
    log.truncate_fully_and_start_at(0)
    kept = bytearray(keyed([(b"k", b"v")]))
    kept[:8] = (1).to_bytes(8, "big")
    kept[12:16] = (1).to_bytes(4, "big")
    log.append_as_follower(memoryview(kept))
    log.write()
    kill(alone)
    again = Life(opened(dirs, clock, COMPACTED))
    assert again.store.moving.targets == {TP: dirs[1]}
    assert again.change_over()
    assert [record.key for record in records_of(again.log)] == [b"k"]
    kill(again.store)
