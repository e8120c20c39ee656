"""One partition and two log dirs: what is left of its log in one when it is in the other, or in both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.log.files.unclean_shutdown import UNCLEAN_MARK
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, append_values, kill, open_log, read_all

pytestmark = pytest.mark.guarantee("L6")

OTHERS = [TopicPartition("u", partition) for partition in range(2)]


def opened(dirs: list[str], clock: Clock | None = None) -> LogManager:
    return LogManager(dirs, (clock or Clock()).environment(), defaults={"file.delete.delay.ms": "10"})


def doubled(dirs: list[str]) -> None:
    """t-0 with ten records in both dirs, left in order, and the others beside."""
    for path in dirs:
        store = opened([path])
        append_values(store, range(10))
        store.close(clean=True)
    store = opened(dirs[1:])
    for tp in OTHERS:
        store.create(tp, "", {})
    store.close(clean=True)


def hidden(path: str) -> list[str]:
    return [name for name in os.listdir(path) if name.endswith("-delete")]


def test_partition_in_two_dirs_stays_offline_alone_and_names_both(dirs: list[str]) -> None:
    doubled(dirs)
    for _ in range(2):
        store = opened(dirs)
        assert set(store.logs()) == set(OTHERS)
        words = str(store.offline_logs[TP])
        assert all(f"{path}/t-0" in words for path in dirs)
        assert "remove the folder that is not wanted" in words
        assert store.out_of_reach(TP)
        with pytest.raises(CorruptLog, match="that is not wanted"):
            open_log(store)
        assert not hidden(dirs[0]) + hidden(dirs[1]), "nobody said which is wanted"
        store.close(clean=True)


def test_folder_that_was_kept_of_two_is_whole_and_vouches_for_nothing(dirs: list[str]) -> None:
    doubled(dirs)
    kill(opened(dirs))
    os.rename(f"{dirs[0]}/t-0", f"{dirs[0]}-aside")
    store = opened(dirs)
    assert len(read_all(store.logs()[TP])) == 10
    assert f"{dirs[0]}/t-0" in store.unclean[TP]
    kill(store)


def test_partition_in_two_dirs_that_nothing_rests_on_is_made_anew(dirs: list[str]) -> None:
    doubled(dirs)
    clock = Clock()
    store = opened(dirs, clock)
    assert store.restore(TP, TOPIC_ID, {}).staged_end_offset == 0
    assert TP in store.unclean
    assert not store.offline_logs
    assert [len(hidden(path)) for path in dirs] == [1, 1]
    clock.advance(20)
    assert not hidden(dirs[0]) + hidden(dirs[1])
    kill(store)
    store = opened(dirs)
    assert store.logs()[TP].staged_end_offset == 0
    assert TP in store.unclean
    kill(store)


@pytest.mark.parametrize("taken_away", [[], [0], [1], [0, 1]])
def test_partition_in_two_dirs_is_deleted_from_both(dirs: list[str], taken_away: list[int]) -> None:
    doubled(dirs)
    store = opened(dirs)
    for place in taken_away:
        os.rename(f"{dirs[place]}/t-0", f"{dirs[place]}-aside-{place}")
    store.delete(TP)
    assert not store.out_of_reach(TP)
    assert not store.offline_dirs
    assert not any(os.path.exists(f"{path}/t-0") for path in dirs)
    log = open_log(store)
    assert (log.staged_end_offset, TP in store.unclean) == (0, False)
    kill(store)
    store = opened(dirs)
    assert store.logs()[TP].staged_end_offset == 0
    kill(store)


def test_mark_of_damage_in_one_of_two_dirs_is_kept(dirs: list[str]) -> None:
    doubled(dirs)
    for path in dirs:
        mark = Path(path, "t-0", UNCLEAN_MARK)
        mark.write_text("damaged: by a comet\n")
        kill(opened(dirs))
        assert mark.read_text() == "damaged: by a comet\n"


@pytest.mark.parametrize("restarts", [False, True])
def test_name_that_is_free_in_one_dir_is_free_for_good_before_it_is_taken_in_another(
    dirs: list[str], monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    """A power failure would bring the old folder back beside the new one."""
    store = opened(dirs)
    assert open_log(store).directory == dirs[0]
    for tp in OTHERS:
        store.create(tp, "", {})
    waiting: set[str] = set()
    rename, mkdir, fsync = os.rename, os.mkdir, os.fsync

    def renamed(old: str, new: str) -> None:
        rename(old, new)
        waiting.add(os.path.dirname(new))

    def made(path: str, mode: int = 0o777) -> None:
        assert os.path.basename(path) != str(TP) or not waiting - {os.path.dirname(path)}
        mkdir(path, mode)

    def synced(fd: int) -> None:
        fsync(fd)
        waiting.discard(os.readlink(f"/proc/self/fd/{fd}"))

    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "mkdir", made)
    monkeypatch.setattr(os, "fsync", synced)
    store.delete(OTHERS[0])
    store.delete(TP)
    if restarts:
        kill(store)
        store = opened(dirs)
    assert waiting
    assert open_log(store).directory == dirs[1]
    kill(store)


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
    assert (log.log_start_offset, log.staged_end_offset) == (0, 9)
    assert store.high_watermarks().get(TP, 0) == 0
    assert not store.unclean
    kill(store)
