"""Which logs a store marks unclean after a stop, with real files; the mark sticks until the replica is repaired."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.files import unclean_shutdown
from broker.log.files.run_mark import FILE_NAME
from broker.log.files.unclean_shutdown import UNCLEAN_MARK
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, batch, kill, open_log, open_store
from tests.support.page_cache import drop

pytestmark = pytest.mark.guarantee("R12", "L6")

PAGE = 4096
CONFIG = {"segment.bytes": "100000"}


def opened(path: str) -> LogManager:
    return open_store(path, Clock(), CONFIG)


def written(path: str, count: int = 10) -> LogManager:
    store = opened(path)
    log = open_log(store)
    for value in range(count):
        log.append_as_leader(batch(value), 0)
        log.write()
    return store


def segment(path: str) -> Path:
    return Path(path, str(TP), f"{0:020d}.log")


def cut(path: str, batches: int) -> None:
    """At the end of a batch: no CRC tells."""
    size = segment(path).stat().st_size
    os.truncate(segment(path), size // 10 * batches)


def lose_the_host(path: str) -> None:
    Path(path, FILE_NAME).unlink()


def is_unclean(path: str) -> bool:
    store = opened(path)
    try:
        assert (TP in store.unclean) == Path(path, str(TP), UNCLEAN_MARK).exists()
        return TP in store.unclean
    finally:
        kill(store)


def test_kill_costs_nothing(path: str) -> None:
    kill(written(path))
    assert not is_unclean(path)
    assert not is_unclean(path)


def test_torn_write_that_was_never_acknowledged_costs_nothing(path: str) -> None:
    kill(written(path))
    with segment(path).open("ab") as file:
        file.write(bytes(batch(10))[:50])
    assert not is_unclean(path)


@pytest.mark.parametrize("damage", [lambda path: cut(path, 9), lambda path: cut(path, 0), lose_the_host])
def test_log_that_was_cut_or_lost_its_host_is_marked_unclean(path: str, damage: Callable[[str], None]) -> None:
    kill(written(path))
    damage(path)
    assert is_unclean(path)


def test_lost_host_leaves_a_log_that_is_what_it_was_but_for_its_end_and_a_cut_one_is_not(path: str) -> None:
    kill(written(path))
    lose_the_host(path)
    for clean in (False, True):
        store = opened(path)
        assert TP in store.unclean
        assert store.is_shortened(TP)
        store.close(clean=True) if clean else kill(store)
    cut(path, 5)
    store = opened(path)
    assert "everything below 10 had been flushed" in store.unclean[TP]
    assert not store.is_shortened(TP)
    kill(store)


def read_everything(path: str) -> None:
    for file in Path(path).rglob("*"):
        if file.is_file():
            file.read_bytes()


def test_lost_mount_is_no_mere_kill_where_somebody_read_the_dir_since(path: str) -> None:
    kill(written(path))
    drop(Path(path, FILE_NAME))
    read_everything(path)
    assert is_unclean(path)


def test_kill_costs_nothing_where_a_backup_read_the_dir_of_the_running_broker(path: str) -> None:
    store = written(path)
    read_everything(path)
    store.checkpoint_recovery_points()
    kill(store)
    assert not is_unclean(path)
    assert not is_unclean(path)


def test_lost_host_after_a_clean_stop_costs_nothing(path: str) -> None:
    written(path).close(clean=True)
    lose_the_host(path)
    assert not is_unclean(path)


def test_log_cut_after_a_clean_stop_is_marked_unclean(path: str) -> None:
    written(path).close(clean=True)
    cut(path, 9)
    assert is_unclean(path)


def test_own_truncation_is_no_loss(path: str) -> None:
    store = written(path)
    open_log(store).truncate_to(4)
    kill(store)
    assert not is_unclean(path)


@pytest.mark.parametrize("offset", [3, 40])
def test_log_begun_anew_is_no_loss(path: str, offset: int) -> None:
    store = written(path)
    open_log(store).truncate_fully_and_start_at(offset)
    kill(store)
    assert not is_unclean(path)


def test_log_of_a_topic_made_again_under_the_name_is_no_loss(path: str) -> None:
    store = written(path)
    store.delete(TP)
    open_log(store)
    kill(store)
    assert not is_unclean(path)


def test_mark_outlives_clean_stops_and_goes_when_the_replica_is_repaired(path: str) -> None:
    kill(written(path))
    cut(path, 5)
    store = opened(path)
    store.close(clean=True)
    store = opened(path)
    assert TP in store.unclean
    assert "reached 10" in store.unclean[TP]
    store.clear_unclean(TP)
    kill(store)
    assert not is_unclean(path)


def test_log_made_anew_for_an_old_partition_is_marked_unclean_from_then_on(path: str) -> None:
    store = opened(path)
    store.create(TP, TOPIC_ID, {}, new=False)
    store.close(clean=True)
    assert is_unclean(path)


def test_damage_is_remembered_over_orderly_stops(path: str) -> None:
    store = written(path)
    open_log(store).flush()
    store.checkpoint_recovery_points()
    kill(store)
    lose_the_host(path)
    with segment(path).open("r+b") as file:
        file.seek(300)
        file.write(b"\xff" * 8)
    for _ in range(3):
        store = opened(path)
        assert list(store.offline_logs) == [TP], "an orderly stop makes nothing whole"
        assert store.unclean[TP].startswith("damaged: ")
        store.close(clean=True)
        assert store.offline_logs


def test_repaired_log_believes_no_hole_either(path: str) -> None:
    """A segment lost what had been synced of its end; the next one makes it look like compaction's work."""
    overrides = {"cleanup.policy": "delete"}
    config = {"segment.bytes": "700"}
    store = open_store(path, Clock(), config)
    log = store.create(TP, TOPIC_ID, overrides)
    for value in range(20):
        log.append_as_leader(batch(value), 0)
        log.write()
    second = log.segment_base_offsets[1]
    log.flush()
    store.checkpoint_recovery_points()
    kill(store)
    lose_the_host(path)
    os.truncate(segment(path), segment(path).stat().st_size // second * (second - 2))
    recovery = Path(path, "recovery-point-offset-checkpoint")
    recovery.write_text(recovery.read_text().replace("t 0 20", f"t 0 {second - 1}"))
    store = open_store(path, Clock(), config, topic_configs={TP.topic: overrides})
    assert list(store.offline_logs) == [TP]
    assert store.restore(TP, TOPIC_ID, overrides).staged_end_offset == second - 2
    kill(store)


def test_damaged_log_whose_folder_was_taken_away_lets_the_others_stop_in_order(path: str) -> None:
    store = written(path)
    open_log(store).flush()
    store.checkpoint_recovery_points()
    kill(store)
    Path(path, str(TP), "partition.metadata").write_text("damaged")
    store = opened(path)
    assert list(store.offline_logs) == [TP]
    shutil.rmtree(Path(path, str(TP)))
    store.close(clean=True)
    store = opened(path)
    assert list(store.clean_shutdown_epochs.values()) != [None]
    kill(store)


# Copies of another time


def life(path: str, epoch: int, before: int | None, clean: bool, count: int = 1) -> bool:
    """A start, some writes and a stop; whether the start marks what it found unclean."""
    store = opened(path)
    store.registered(epoch, before)
    log = open_log(store)
    for value in range(count):
        log.append_as_leader(batch(value), 0)
        log.write()
    found = TP in store.unclean
    if clean:
        store.close(clean=True)
    else:
        kill(store)
    return found


@pytest.mark.parametrize("clean", [True, False])
def test_what_the_last_registration_left_is_trusted(path: str, clean: bool) -> None:
    assert not life(path, 5, None, clean)
    assert not life(path, 7, 5, clean)


def test_copy_of_an_earlier_clean_stop_is_marked_unclean(path: str) -> None:
    life(path, 5, None, clean=True)
    shutil.copytree(path, path + "-backup")
    life(path, 7, 5, clean=True)
    shutil.rmtree(path)
    shutil.copytree(path + "-backup", path)
    assert life(path, 9, 7, clean=True)
    assert is_unclean(path)


def test_log_with_holes_reports_no_epochs(path: str) -> None:
    """Replicas that were compacted apart need not agree on where one began."""
    store = written(path)
    log = open_log(store)
    assert list(log.history) == [(0, 0)]
    log.allow_holes()
    assert not log.history
    kill(store)


def test_older_copy_that_lost_its_host_as_well_is_not_what_it_was(path: str) -> None:
    life(path, 5, None, clean=False)
    lose_the_host(path)
    store = opened(path)
    assert store.is_shortened(TP)
    store.registered(9, 7)
    assert "older copy" in store.unclean[TP]
    assert not store.is_shortened(TP)
    kill(store)


def test_copy_put_back_into_the_very_files_is_marked_unclean(path: str) -> None:
    life(path, 5, None, clean=False)
    shutil.copytree(path, path + "-backup")
    # The copy was made while the broker ran.
    drop(Path(path, FILE_NAME), PAGE)
    life(path, 7, 5, clean=False)
    for file in Path(path + "-backup").rglob("*"):
        if file.is_file() and file.name != FILE_NAME:
            # Into the file that is there: same inode.
            target = Path(path) / file.relative_to(path + "-backup")
            target.write_bytes(file.read_bytes())
    mark = Path(path, FILE_NAME)
    content = Path(path + "-backup", FILE_NAME).read_bytes()[:PAGE]
    # File systems give inodes out again: the mark of two lives ago may well have had this one. Nor need the last page,
    # by which a copy is found out, be put back.
    header = json.loads(content[:504].rstrip(b"\0")) | {"inode": mark.stat().st_ino}
    with mark.open("r+b") as opened_mark:
        opened_mark.write(json.dumps(header).encode().ljust(504, b"\0") + content[504:])
    store = opened(path)
    assert TP not in store.unclean, "nothing but the registration tells"
    store.registered(9, 7)
    assert "older copy" in store.unclean[TP]
    kill(store)


@pytest.mark.parametrize("marks", [0, 1])
def test_copy_that_could_not_be_marked_does_not_name_the_registration_that_found_it(
    path: str, monkeypatch: pytest.MonkeyPatch, marks: int
) -> None:
    """The disk is full as its logs are marked: some are, some are not, and the next start is in the same boot."""
    second = TopicPartition("u", 0)
    store = opened(path)
    store.create(second, TOPIC_ID, {})
    store.close(clean=True)
    life(path, 5, None, clean=True)
    shutil.copytree(path, path + "-backup")
    life(path, 7, 5, clean=True)
    shutil.rmtree(path)
    shutil.copytree(path + "-backup", path)
    real = unclean_shutdown.leave_mark
    done: list[str] = []

    def leave(folder: str, reason: str) -> None:
        if len(done) == marks:
            raise OSError(errno.ENOSPC, "No space left on device")
        done.append(folder)
        real(folder, reason)

    store = opened(path)
    with monkeypatch.context() as patch:
        patch.setattr(unclean_shutdown, "leave_mark", leave)
        store.registered(9, 7)
    assert store.offline_dirs == [path]
    assert len(done) == marks
    kill(store)
    store = opened(path)
    store.registered(11, 9)
    assert set(store.unclean) == {TP, second}
    kill(store)


def test_dir_that_the_last_registration_did_without_is_marked_unclean_alone(path: str) -> None:
    other = path + "-other"
    life(path, 5, None, clean=True)
    shutil.copytree(path, other)
    Path(other, str(TP)).rename(Path(other, "u-0"))
    Path(other, "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    life(path, 7, 5, clean=True)
    store = LogManager([path, other], Clock().environment(), defaults=CONFIG)
    store.registered(9, 7)
    assert [tp.topic for tp in store.unclean] == ["u"]
    kill(store)


def test_stop_before_the_registration_leaves_what_was_known(path: str) -> None:
    life(path, 5, None, clean=True)
    opened(path).close(clean=True)
    opened(path).close_unused()
    kill(opened(path))
    assert not life(path, 7, 5, clean=True)


def test_stop_while_fenced_names_the_registration_that_was_lost(path: str) -> None:
    store = opened(path)
    store.registered(5)
    store.registered(8)
    open_log(store)
    store.close(clean=True)
    assert not life(path, 9, 8, clean=True)


def test_start_that_ends_after_its_registration_leaves_its_own_mark(path: str) -> None:
    life(path, 5, None, clean=True)
    store = opened(path)
    store.registered(7, 5)
    store.close_unused()
    assert not life(path, 9, 7, clean=True)
