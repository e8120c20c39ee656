"""Power fails anywhere, on a disk that keeps only what was synced: what was durable is there, and never a hole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.log.durability import durability
from broker.log.durability.flush import FlushJob
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.log_tools import (
    TINY,
    TOPIC_ID,
    TP,
    Clock,
    append_values,
    batch,
    folder,
    kill,
    open_store,
    read_all,
)
from tests.property.log.lossy_disk import LossyDisk, PowerCut
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("L6")

Rows = list[bytes]

# Each has a time of its own: a power failure may find any of them far behind the others.
_CHECKPOINTS = ["recovery points", "log starts", "watermarks"]
_SHORTEN = ["truncate", "replace", "retain", "delete records"]


class PowerRun:
    """A log on a lossy disk, and what a reader may expect of it. rows: all that is written."""

    def __init__(self, path: str, seed: int, policy: str, overrides: Mapping[str, str]) -> None:
        self.rng = random.Random(seed)
        self.path = path
        self.disk = LossyDisk(path)
        self.config = {**TINY, "flush.policy": policy}
        self.topic_configs = {TP.topic: dict(overrides)}
        self.rows: Rows = []
        self.before: Rows = []
        self.epoch = 0
        self.value = 0
        self.clock = Clock()
        self.store: LogManager | None = None
        self.log: PartitionLog | None = None
        self.durable = 0
        """All below this offset must survive, whatever was under way."""
        self.start = 0
        """The latest that the log may begin."""

    def run(self, steps: int) -> None:
        """Some operations, then the power fails: between two of them, or within the last."""
        rng = self.rng
        with self.disk.watching():
            try:
                self.store = self._open(self.path)
                self.log = self.store.create(TP, TOPIC_ID, self.topic_configs[TP.topic])
                self.log._local.snapshot_at_roll = lambda _: _snapshot_after(self.rows[-1])
                for _ in range(steps):
                    self._step()
                if rng.random() < 0.3:
                    self.disk.write_back()
                self.before = list(self.rows)
                if rng.random() < 0.7:
                    self.disk.calls_left = rng.randint(0, 12)
                    self._step()
            except PowerCut:
                pass
            finally:
                self.disk.calls_left = None

    def _open(self, path: str) -> LogManager:
        return open_store(path, self.clock, self.config, topic_configs=self.topic_configs)

    def _step(self) -> None:
        log, store, rng = self.log, self.store, self.rng
        assert log is not None
        assert store is not None
        self.durable = log.recovery_point
        match rng.choice(["append"] * 6 + ["commit"] * 3 + ["flush", "anew"] + _SHORTEN + _CHECKPOINTS):
            case "append":
                self._append(log, 4)
            case "commit":
                log.commit(lambda: None)
            case "flush":
                log.flush()
            case "truncate" if self.rows:
                self._truncate(log, rng.choice(self.rows))
            case "replace" if self.rows:
                # As a follower does that has more than its new leader. Smaller ones: offsets get further in a segment.
                self._truncate(log, rng.choice(self.rows[-5:]))
                self._append(log, 6, size=4)
            case "anew":
                offset = max(0, log.staged_end_offset + rng.randint(-3, 30))
                self.durable = 0
                self.rows = []
                self.start = max(self.start, offset)
                log.truncate_fully_and_start_at(offset)
            case "recovery points":
                store.checkpoint_recovery_points()
            case "log starts":
                store.checkpoint_log_start_offsets()
            case "watermarks":
                store.checkpoint_high_watermarks({TP: log.staged_end_offset})
            case "retain" if self.rows:
                offset = int.from_bytes(rng.choice(self.rows)[:8], "big")
                self.start = max(self.start, offset)
                log.maybe_raise_log_start(offset)
                log.delete_old_segments(0, log.staged_end_offset)
            case "delete records":
                self.start = max(self.start, log.staged_end_offset)
                log.maybe_raise_log_start(log.staged_end_offset)
                store.checkpoint_log_start_offsets()
            case _:
                pass
        self.durable = log.recovery_point

    def _append(self, log: PartitionLog, most: int, size: int = 40) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, most)):
            self.value += 1
            self.epoch += rng.random() < 0.1
            # The newest timestamp comes anywhere in a segment.
            view = batch(self.value, rng.randint(1, 3), 1000 + self.value * 7919 % 500, size)
            log.append_as_leader(view, self.epoch)
            self.rows.append(bytes(view))
        log.write()

    def _truncate(self, log: PartitionLog, row: bytes) -> None:
        offset = int.from_bytes(row[:8], "big")
        self.durable = min(self.durable, offset)
        self.rows = [row for row in self.rows if int.from_bytes(row[:8], "big") < offset]
        log.truncate_to(offset)

    def judge(self, after: str) -> None:
        """Restart on what the disk kept."""
        self.disk.cut(self.rng, after)
        os.makedirs(after, exist_ok=True)
        store = self._open(after)
        try:
            assert not store.offline_logs, "what a power failure leaves is not damage"
            log = store.get(TP)
            if log is None:
                assert self.durable == 0, "the folder is gone"
                return
            found = read_all(log)
            history = [self.rows, self.before]
            assert any(_is_run_of(found, rows) for rows in history), "something else, or something between, is there"
            if self.durable:
                assert log.topic_id == TOPIC_ID, "a log without its id"
                assert log.staged_end_offset >= self.durable, (
                    f"{self.durable} was durable, the log ends at {log.staged_end_offset}"
                )
                assert log.log_start_offset <= self.start, "a start with a hole"
            for row in found:
                assert log.epoch_at(int.from_bytes(row[:8], "big")) == int.from_bytes(row[12:16], "big")
            self._judge_snapshots(log, found)
            if log.config.flushes_between_rolls:
                self._judge_timestamps(log, found)
            log.append_as_leader(batch(99_999), self.epoch + 1)
            log.write()
            assert len(read_all(log)) == len(found) + 1
        finally:
            store.close(clean=False)

    def _judge_timestamps(self, log: PartitionLog, found: Rows) -> None:
        """Retention goes by the newest of each segment, lookups by that of any: none may be forgotten with an index."""
        for base in log.segment_base_offsets:
            segment = log._segments.at(log._segments.floor(base))
            segment.open()
            newest = max((_newest(row) for row in found if base <= _base(row) < segment.next_offset()), default=-1)
            assert segment.max_timestamp >= newest, f"segment {base} has forgotten {newest}"

    def _judge_snapshots(self, log: PartitionLog, found: Rows) -> None:
        """A whole one that a start would use was made of the records that are there."""
        before = {int.from_bytes(row[:8], "big"): previous for previous, row in pairwise(found)}
        before[log.staged_end_offset] = found[-1] if found else b""
        at = log.snapshots.latest(log.staged_end_offset)
        while at is not None and at[0] > log.log_start_offset:
            offset, content = at
            if len(content) == len(_snapshot_after(b"")):
                right = content == _snapshot_after(before.get(offset, b""))
                assert right, f"the snapshot at {offset} stands for other bytes"
            at = log.snapshots.latest(offset - 1)


def _snapshot_after(row: bytes) -> bytes:
    return hashlib.sha256(row).digest()


def _base(row: bytes) -> int:
    return int.from_bytes(row[:8], "big")


def _newest(row: bytes) -> int:
    return int.from_bytes(row[35:43], "big")


def _is_run_of(found: Rows, rows: Rows) -> bool:
    """Whether found is a gapless part of rows; nothing at all is one too."""
    return not found or any(rows[at : at + len(found)] == found for at in range(len(rows)))


def _try(seed: int, policy: str, overrides: Mapping[str, str]) -> None:
    with folder() as path:
        os.mkdir(f"{path}/disk")
        run = PowerRun(os.path.realpath(f"{path}/disk"), seed, policy, overrides)
        run.run(run.rng.randint(0, 14))
        store, run.store = run.store, None
        try:
            run.judge(f"{path}/after")
        finally:
            if store is not None:
                store.close(clean=False)
            shutil.rmtree(f"{path}/disk")


# These left an epoch file torn within its last number, which was believed: "2 66" as epoch 2 from 6 on.
@example(seed=731, policy="group-commit", overrides={"cleanup.policy": "delete"})
@example(seed=731, policy="interval", overrides={"cleanup.policy": "delete"})
# These left a log that ends below its checkpointed start, which no other checkpoint had heard of.
@example(seed=38, policy="group-commit", overrides={})
@example(seed=74, policy="interval", overrides={})
# These brought a snapshot back that a cut had removed.
@example(seed=275, policy="interval", overrides={"cleanup.policy": "delete"})
@example(seed=1606, policy="group-commit", overrides={})
# This left a segment that had forgotten its newest timestamp: all of it was durable when it was rolled.
@example(seed=6, policy="group-commit", overrides={})
@example(seed=1342, policy="group-commit", overrides={})
@examples(300)
@given(
    seed=st.integers(0, 2**32 - 1),
    policy=st.sampled_from(["interval", "group-commit"]),
    # Of one with a policy of its own nobody knows whether it was compacted once, and may have holes.
    overrides=st.sampled_from([{}, {"cleanup.policy": "delete"}]),
)
def test_log_after_a_power_failure_anywhere_holds_all_that_was_durable_and_no_hole(
    seed: int, policy: str, overrides: dict[str, str]
) -> None:
    _try(seed, policy, overrides)


def test_snapshot_that_a_start_has_removed_does_not_come_back() -> None:
    with folder() as path:
        os.mkdir(f"{path}/disk")
        disk, clock = LossyDisk(f"{path}/disk"), Clock()
        with disk.watching():
            store = open_store(disk.root, clock, TINY)
            append_values(store, range(20))
            log = store.logs()[TP]
            log.snapshots.write(20, b"of 20")
            log.flush()
            kill(store)
            last = f"{log.path}/{log.segment_base_offsets[-1]:020d}.log"
            os.truncate(last, os.path.getsize(last) - 1)
            store = open_store(disk.root, clock, TINY)
            assert store.logs()[TP].staged_end_offset == 19
            kill(store)
        for seed in range(10):
            disk.cut(random.Random(seed), f"{path}/{seed}")
            assert not os.path.exists(f"{path}/{seed}/{TP}/{20:020d}.snapshot")


@pytest.mark.parametrize("later", [True, False])
def test_finished_segment_forgets_no_timestamp_where_all_was_durable_when_it_was_rolled(later: bool) -> None:
    """later: the power fails when the recovery point has passed its end; else within the roll, at any call of it."""
    config = {**TINY, "flush.policy": "group-commit"}
    for seed in range(60):
        with folder() as path:
            os.mkdir(f"{path}/disk")
            disk, rng, clock = LossyDisk(f"{path}/disk"), random.Random(seed), Clock()
            with disk.watching():
                store = open_store(disk.root, clock, config)
                log = store.create(TP, TOPIC_ID, {})
                newest = 0
                for value in range(5):
                    timestamp = rng.randint(1000, 2000)
                    newest = max(newest, timestamp)
                    log.append_as_leader(batch(value, 1, timestamp, 60), 0)
                    log.write()
                log.commit(lambda: None)
                store.checkpoint_recovery_points()
                assert log.segment_base_offsets == [0]
                disk.calls_left = None if later else rng.randint(3, 12)
                with contextlib.suppress(PowerCut):
                    log.append_as_leader(batch(9, 1, 500, 60), 0)
                    log.write()
                    assert log.segment_base_offsets == [0, 5]
                    log.commit(lambda: None)
                    store.checkpoint_recovery_points()
                disk.calls_left = None
                disk.cut(random.Random(seed), f"{path}/after")
                store.close(clean=False)
            store = open_store(f"{path}/after", Clock(), config)
            segment = store.logs()[TP]._segments.first
            segment.open()
            assert segment.max_timestamp == newest, f"seed {seed}"
            kill(store)


def _finds_a_loss(seeds: int) -> bool:
    for seed in range(seeds):
        try:
            _try(seed, "group-commit", {})
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("fault", ["no data sync", "no folder sync"])
def test_log_that_leaves_out_a_sync_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = FlushJob

    def lazy(**fields: object) -> FlushJob:
        if fault == "no data sync":
            for fd in fields["fds"]:  # type: ignore[attr-defined]
                os.close(fd)
            fields["fds"] = []
        else:
            fields["directories"] = []
        return real(**fields)  # type: ignore[arg-type]

    make: Callable[..., FlushJob] = lazy
    monkeypatch.setattr(durability, "FlushJob", make)
    assert _finds_a_loss(150)
