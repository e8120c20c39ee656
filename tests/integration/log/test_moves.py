"""Moves of logs between log dirs, on real files: what they take along, how they end, what a start makes of one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.log.environment import Done, Job, run_inline
from broker.log.files.moved_mark import MOVED_MARK
from broker.log.files.unclean_shutdown import UNCLEAN_MARK
from broker.log.log_manager import LogManager
from broker.model.log_errors import LogDirFailed
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, keyed, records_of
from tests.property.log.log_tools import TINY, TOPIC_ID, TP, Clock, append_values, kill, read_all
from tests.property.log.moved_logs import Life, copies, opened, told

pytestmark = pytest.mark.guarantee("L3", "L6", "L8")


def failing(monkeypatch: pytest.MonkeyPatch, call: str, where: Callable[[object], bool]) -> None:
    """Let a call fail where its first argument is such."""
    real = getattr(os, call)

    def fail(first: object, *args: object, **kwargs: object) -> object:
        if where(first):
            raise OSError(errno.EIO, "a bad sector")
        return real(first, *args, **kwargs)

    monkeypatch.setattr(os, call, fail)


def in_folder(path: str) -> Callable[[object], bool]:
    return lambda fd: os.readlink(f"/proc/self/fd/{fd}").startswith(path)


def test_cancelled_move_leaves_nothing(life: Life, dirs: list[str], clock: Clock) -> None:
    before = told(life.log)
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    life.store.moving.prepare(TP, 5, lambda: None)
    assert Path(dirs[0], str(TP), MOVED_MARK).exists()
    life.store.moving.cancel(TP)
    clock.advance(20)
    assert not [name for name in os.listdir(dirs[1]) if name.startswith("t-0")]
    assert str(TP.topic) not in Path(dirs[1], "recovery-point-offset-checkpoint").read_text()
    assert not Path(dirs[0], str(TP), MOVED_MARK).exists()
    assert told(life.log) == before
    life.append(3, 1)
    kill(life.store)
    store = opened(dirs, clock)
    assert read_all(store.logs()[TP]) == life.written
    kill(store)


def test_both_are_described_while_one_is_copied(life: Life, dirs: list[str]) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.store.moving.copy(TP, 100)
    infos = life.store.describe_dirs(None)
    ((here,), (copy,)) = (info.logs for info in infos)
    assert (here.is_future, copy.is_future) == (False, True)
    assert here.size > copy.size > 0
    assert here.end_offset > copy.end_offset > 0
    assert [list(info.logs) for info in life.store.describe_dirs(())] == [[], []]
    kill(life.store)


def test_target_that_fails_ends_the_move_alone(
    life: Life, dirs: list[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.store.moving.copy(TP, 100)
    with monkeypatch.context() as patch:
        failing(patch, "pwritev", in_folder(dirs[1]))
        assert life.store.moving.copy(TP, 100) is None
    assert life.store.offline_dirs == [dirs[1]]
    assert TP not in life.store.moving.targets
    life.append(3, 1)
    with pytest.raises(LogDirFailed):
        life.store.moving.begin(TP, dirs[1])
    kill(life.store)
    again = Life(opened(dirs, clock))
    assert again.store.moving.targets == {TP: dirs[1]}, "a start with the dir goes on"
    assert again.change_over()
    assert read_all(again.log) == life.written
    kill(again.store)


@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_target_that_fails_as_the_copy_takes_over_leaves_the_log(
    life: Life, dirs: list[str], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    with monkeypatch.context() as patch:
        if call == "fsync":
            failing(patch, "fsync", in_folder(dirs[1]))
            life.store.moving.prepare(TP, 5, lambda: None)
            assert TP not in life.store.moving.targets or life.store.moving.replace(TP) is None
        else:
            life.store.moving.prepare(TP, 5, lambda: None)
            failing(patch, "rename", lambda path: str(path).startswith(dirs[1]))
            assert life.store.moving.replace(TP) is None
    life.store.moving.on_dir_failed(dirs[1])
    assert life.store.offline_dirs == [dirs[1]]
    assert not Path(dirs[0], str(TP), MOVED_MARK).exists()
    assert life.home == dirs[0]
    life.append(3, 1)
    assert read_all(life.log) == life.written
    kill(life.store)


def test_source_that_fails_ends_the_move_and_a_start_goes_on(
    life: Life, dirs: list[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.store.moving.copy(TP, 100)
    with monkeypatch.context() as patch:
        failing(patch, "pwritev", in_folder(dirs[0]))
        with pytest.raises(LogDirFailed):
            life.append(1, 1)
    life.store.moving.on_dir_failed(dirs[0])
    assert not life.store.moving.targets
    kill(life.store)
    os.rename(dirs[0], f"{dirs[0]}-away")
    store = opened([dirs[1]], clock)
    assert not store.offline_logs, "the lines in the checkpoints are the copy's"
    assert not store.logs()
    assert copies(dirs[1]), "it may be all that is left"
    kill(store)
    os.rename(f"{dirs[0]}-away", dirs[0])
    again = Life(opened(dirs, clock))
    assert again.change_over()
    assert read_all(again.log) == life.written
    kill(again.store)


def test_log_that_cannot_be_opened_in_its_place_stays_where_it_was(
    life: Life, dirs: list[str], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "a bad sector")

    life.store.moving.begin(TP, dirs[1])
    life.copy()
    life.store.moving.prepare(TP, 5, lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr("broker.log.manager.moving.load", fail)
        assert life.store.moving.replace(TP) is None
    assert not life.store.offline_dirs
    assert life.home == dirs[0]
    life.append(3, 1)
    clock.advance(20)
    assert not Path(dirs[1], str(TP)).exists()
    assert not copies(dirs[1])
    kill(life.store)
    store = opened(dirs, clock)
    assert read_all(store.logs()[TP]) == life.written
    kill(store)


def test_what_changed_since_it_was_prepared_is_prepared_again(life: Life, dirs: list[str], clock: Clock) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    life.store.moving.prepare(TP, 5, lambda: None)
    life.log.maybe_raise_log_start(7)
    life.copy()
    assert life.store.moving.replace(TP) is None, "deleted records would come back in a crash"
    life.store.moving.prepare(TP, 5, lambda: None)
    life.store.mark_unclean(TP, "a test")
    assert life.store.moving.replace(TP) is None
    life.store.moving.prepare(TP, 5, lambda: None)
    life.append(1, 1)
    life.copy()
    life.log.flush()
    assert life.store.moving.replace(TP) is None, "less of the copy is durable"
    assert life.change_over()
    assert life.log.log_start_offset == 7
    assert Path(dirs[1], str(TP), UNCLEAN_MARK).read_text() == "a test\n"
    kill(life.store)
    store = opened(dirs, clock)
    assert store.logs()[TP].log_start_offset == 7
    assert store.unclean[TP] == "a test"
    store.clear_unclean(TP)
    kill(store)
    store = opened(dirs, clock)
    assert not store.unclean
    kill(store)


def test_start_that_rose_since_the_last_slice_is_checkpointed_before_the_copy_takes_over(
    life: Life, dirs: list[str], clock: Clock
) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    life.log.maybe_raise_log_start(7)
    life.store.moving.prepare(TP, 5, lambda: None)
    assert life.store.moving.replace(TP) is not None
    kill(life.store)
    store = opened(dirs, clock)
    assert store.logs()[TP].log_start_offset == 7
    kill(store)


def test_nothing_counts_as_durable_before_the_new_name_is(life: Life, dirs: list[str], synced: list[str]) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    life.log.flush()
    flushed = life.log.recovery_point
    life.store.moving.prepare(TP, 5, lambda: None)
    life.append(2, 1)
    life.copy()
    assert life.store.moving.replace(TP) is not None
    assert life.log.recovery_point == flushed < life.log.log_end_offset
    synced.clear()
    life.log.flush()
    assert life.log.recovery_point == life.log.log_end_offset
    assert synced[-3:] == ["t-0", "t-0", "b"], "its leader epochs, its names, its own name"
    assert any(name.endswith(".log") for name in synced)
    assert any(name.startswith("leader-epoch-checkpoint") for name in synced)
    kill(life.store)


def test_compacted_log_keeps_its_holes_and_what_is_clean(dirs: list[str], clock: Clock) -> None:
    life = Life(opened(dirs, clock, COMPACTED))
    life.create()
    for n in range(60):
        life.log.append_as_leader(keyed([(b"k%d" % (n % 5), b"v%d" % n * 8)]), 1)
        life.log.write()
    cleaner_for(life.store, clock).cleaner.check()
    clock.advance(1000)
    before, clean = records_of(life.log), life.log.cleaning.cleaned_until
    assert len(before) < 60
    cuts = life.log.cleaning.cuts
    life.store.moving.begin(TP, dirs[1])
    assert life.log.cleaning.cuts > cuts, "a cleaning that has begun is void"
    assert life.change_over()
    assert records_of(life.log) == before
    assert life.log.cleaning.cleaned_until == clean
    kill(life.store)
    store = opened(dirs, clock, COMPACTED)
    assert not store.offline_logs
    assert records_of(store.logs()[TP]) == before
    kill(store)


def test_log_that_ends_in_a_hole_is_copied_to_its_end(dirs: list[str], clock: Clock) -> None:
    life = Life(opened(dirs, clock, COMPACTED))
    life.create()
    for n in range(30):
        value = None if n > 20 else b"v"
        life.log.append_as_leader(keyed([(b"k%d" % (n % 3), value)], timestamp=1), 1)
        life.log.write()
    local, _ = life.log.parts
    local.roll(life.log.log_end_offset, None)
    local.aim_at_active()
    for _ in range(3):
        # Tombstones go with the cleanings after the one that dated them.
        clock.advance(100_000_000)
        cleaner_for(life.store, clock).cleaner.check()
        life.store.logs()[TP].cleaning.note_cleaned(0)
    life.store.moving.begin(TP, dirs[1])
    assert life.change_over()
    assert life.log.log_end_offset == 30
    life.log.append_as_leader(keyed([(b"k", b"newest")]), 1)
    life.log.write()
    kill(life.store)
    store = opened(dirs, clock, COMPACTED)
    assert store.logs()[TP].log_end_offset == 31
    kill(store)


def test_log_is_made_in_the_dir_that_was_asked_for(dirs: list[str], clock: Clock) -> None:
    store = opened(dirs, clock)
    store.moving.prefer(TP, dirs[1])
    assert store.create(TP, TOPIC_ID, {}).directory == dirs[1]
    store.delete(TP)
    assert store.create(TP, TOPIC_ID, {}).directory == dirs[0], "once"
    kill(store)


def test_copy_goes_with_its_log(life: Life, dirs: list[str], clock: Clock) -> None:
    life.store.moving.begin(TP, dirs[1])
    life.copy()
    life.store.delete(TP)
    clock.advance(20)
    assert not [name for path in dirs for name in os.listdir(path) if name.startswith("t-0")]
    append_values(life.store, range(3))
    assert not life.store.moving.targets
    kill(life.store)


def test_copy_waits_for_its_disk_and_goes_on(dirs: list[str]) -> None:
    """Flushes that the rolls of small segments begin hold the descriptors of all that is not on disk."""
    waiting: list[tuple[Job, Done]] = []
    environment = replace(Clock(now=1e6).environment(), background=lambda job, done: waiting.append((job, done)))
    life = Life(LogManager(dirs, environment, defaults=TINY))
    life.create()
    life.append(120, 1)
    assert len(life.log.segment_base_offsets) > 20
    for job, done in waiting:
        run_inline(job, done)
    waiting.clear()
    life.store.moving.begin(TP, dirs[1])
    rounds, most = 0, 0
    while (copied := life.store.moving.copy(TP, 100)) != 0:
        assert copied is not None
        if copied < 0:
            rounds += 1
            most = max(most, len(waiting))
            assert life.store.moving.copy(TP, 100) == -1
            assert waiting, "something is under way"
            for job, done in waiting:
                run_inline(job, done)
            waiting.clear()
    assert rounds > 3
    assert most < 10
    kill(life.store)


def test_copy_that_is_cut_while_it_waits_for_its_disk_goes_on(dirs: list[str]) -> None:
    """A flush that was made before a cut vouches for nothing after it."""
    waiting: list[tuple[Job, Done]] = []

    def flush() -> None:
        for job, done in [waiting.pop(0) for _ in waiting[:]]:
            run_inline(job, done)

    environment = replace(Clock(now=1e6).environment(), background=lambda job, done: waiting.append((job, done)))
    life = Life(LogManager(dirs, environment, defaults=TINY))
    life.create()
    life.append(120, 1)
    flush()
    life.store.moving.begin(TP, dirs[1])
    flush()
    while (copied := life.store.moving.copy(TP, 100)) != -1:
        assert copied
    (infos,) = life.store.describe_dirs(None)[1].logs
    life.log.truncate_to(infos.end_offset - 1)
    flush()
    copied, rounds = None, 0
    while copied != 0:
        copied, rounds = life.store.moving.copy(TP, 100), rounds + 1
        assert rounds < 100, "it waits for ever"
        flush()
    kill(life.store)
