"""A log on disk does what a plain list of batches does, through rolls, truncations, stops, kills and torn tails."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.model.log_errors import OffsetOutOfRange, UnexpectedAppendOffset
from broker.wire.record_batch import read_header
from tests.property.log.log_tools import MEMORY, TP, Clock, batch, fetch, kill, open_log, open_store, read_all
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("L6")


class LogAgainstList(RuleBasedStateMachine):
    """`rows`: (base offset, last offset, epoch, bytes) of written batches; `staged`: those that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.path = tempfile.mkdtemp(prefix="highwater-log-", dir=MEMORY)
        self.clock = Clock()
        self.store = open_store(self.path, self.clock)
        self.log = open_log(self.store)
        self.rows: list[tuple[int, int, int, bytes]] = []
        self.staged: list[tuple[int, int, int, bytes]] = []
        self.start = 0
        self.first = 0
        self.epoch = 0
        self.value = 0

    def teardown(self) -> None:
        self.store.close(clean=False)
        shutil.rmtree(self.path)

    @property
    def log_end_offset(self) -> int:
        return self.rows[-1][1] + 1 if self.rows else self.first

    @property
    def leo(self) -> int:
        return self.staged[-1][1] + 1 if self.staged else self.log_end_offset

    @initialize(epoch=st.integers(0, 3))
    def begin(self, epoch: int) -> None:
        self.epoch = epoch

    @rule(records=st.integers(1, 4), size=st.sampled_from([0, 40, 300]), step=st.integers(0, 2))
    def append_as_leader(self, records: int, size: int, step: int) -> None:
        self.epoch += step
        self.value += 1
        view = batch(self.value, records, 1000 + self.value, size)
        info = self.log.append_as_leader(view, self.epoch)
        assert (info.base_offset, info.last_offset) == (self.leo, self.leo + records - 1)
        self.staged.append((self.leo, self.leo + records - 1, self.epoch, bytes(view)))

    @rule(batches=st.lists(st.integers(1, 3), min_size=1, max_size=3), step=st.integers(0, 2))
    def append_as_follower(self, batches: list[int], step: int) -> None:
        data = bytearray()
        offset = self.leo
        rows = []
        for records in batches:
            self.epoch += step
            self.value += 1
            view = batch(self.value, records, 1000 + self.value)
            view[0:8] = offset.to_bytes(8, "big")
            view[12:16] = self.epoch.to_bytes(4, "big")
            rows.append((offset, offset + records - 1, self.epoch, bytes(view)))
            data += view
            offset += records
        self.log.append_as_follower(memoryview(data))
        self.staged += rows

    @rule(by=st.sampled_from([-1, 1, 7]))
    def append_elsewhere(self, by: int) -> None:
        view = batch(0)
        view[0:8] = max(self.leo + by, self.leo - 1, 0).to_bytes(8, "big")
        if read_header(view).base_offset != self.leo:
            with pytest.raises(UnexpectedAppendOffset):
                self.log.append_as_follower(view)

    @rule()
    def write(self) -> None:
        self.log.write()
        self.rows += self.staged
        self.staged = []

    @rule(at=st.floats(0, 1.1), max_bytes=st.integers(1, 900), limit=st.floats(0, 1.2), one=st.booleans())
    def read(self, at: float, max_bytes: int, limit: float, one: bool) -> None:
        span = self.leo + 1 - self.start
        offset, stop = self.start + int(at * span), self.start + int(limit * span)
        if offset > self.leo:
            with pytest.raises(OffsetOutOfRange):
                fetch(self.log, offset, max_bytes, stop, one)
            return
        data = fetch(self.log, offset, max_bytes, stop, one)
        usable = [row for row in self.rows if row[1] >= offset]
        expected = b""
        segment_ends = set(self.log.segment_base_offsets)
        for base, last, _, content in usable:
            too_much = len(expected) + len(content) > max_bytes and not (one and not expected)
            if last >= stop or too_much or (expected and base in segment_ends):
                break
            expected += content
        assert data == expected

    @rule(at=st.floats(0, 1.2))
    def truncate(self, at: float) -> None:
        target = self.first + int(at * (self.leo + 1 - self.first))
        self.log.truncate_to(target)
        self.staged = []
        self.rows = [row for row in self.rows if row[1] < target]
        assert self.log.staged_end_offset == self.log_end_offset
        self.start = min(self.start, self.log_end_offset)

    @rule(by=st.integers(-5, 9))
    def truncate_fully(self, by: int) -> None:
        target = max(self.leo + by, 0)
        self.log.truncate_fully_and_start_at(target)
        self.rows, self.staged = [], []
        self.start = self.first = target
        assert self.log.epochs == []

    @rule(at=st.floats(0, 1))
    def raise_log_start(self, at: float) -> None:
        self.write()
        target = self.start + int(at * (self.log_end_offset - self.start))
        self.log.maybe_raise_log_start(target)
        self.start = target

    @rule()
    def delete_old(self) -> None:
        self.log.delete_old_segments(0, self.log_end_offset)
        self.first = self.log.segment_base_offsets[0]
        self.rows = [row for row in self.rows if row[0] >= self.first]
        assert self.start == self.log.log_start_offset

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.log_end_offset

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint_recovery_points()
        self.store.checkpoint_log_start_offsets()

    @rule(by=st.integers(0, 20))
    def pass_time(self, by: int) -> None:
        self.clock.advance(by)

    @rule()
    def stop_and_start(self) -> None:
        self.write()
        self.store.close(clean=True)
        self._reopen()
        (report,) = self.store.reports
        assert report.clean
        assert self.log.recovery_point == self.log_end_offset

    @rule()
    def kill_and_start(self) -> None:
        kill(self.store)
        self._reopen()
        (report,) = self.store.reports
        assert not report.clean
        assert report.cut_bytes == report.segments_removed == 0
        self._forget_unwritten_start()

    @precondition(lambda self: self.rows and self.log.recovery_point < self.log_end_offset)
    @rule(at=st.floats(0, 0.999), flip=st.booleans())
    def kill_with_a_torn_tail_and_start(self, at: float, flip: bool) -> None:
        durable = self.log.recovery_point
        unsynced = [row for row in self.rows if row[0] >= durable]
        victim = unsynced[int(at * len(unsynced))]
        bases = self.log.segment_base_offsets
        segment = max(base for base in bases if base <= victim[0])
        position = sum(len(row[3]) for row in self.rows if segment <= row[0] < victim[0])
        position += int(at * len(victim[3]))
        kill(self.store)
        with open(f"{self.path}/{TP}/{segment:020d}.log", "r+b") as file:
            if flip:
                position = max(position, position - position % 4)
                file.seek(position)
                byte = file.read(1)
                file.seek(position)
                file.write(bytes([byte[0] ^ 0x40]))
            else:
                file.truncate(position)
        epoch_flipped = (
            flip and 12 <= position - sum(len(row[3]) for row in self.rows if segment <= row[0] < victim[0]) < 16
        )
        if epoch_flipped:
            # The epoch lies outside of the CRC: nothing on disk can tell. Put it back.
            with open(f"{self.path}/{TP}/{segment:020d}.log", "r+b") as file:
                file.seek(position)
                file.write(byte)
        self._reopen()
        (report,) = self.store.reports
        if not epoch_flipped:
            self.rows = [row for row in self.rows if row[1] < victim[0]]
            if report.log_start > victim[0]:
                # Cut below the checkpointed log start: nothing may be shown again, the log begins anew there.
                assert report.log_start == report.leo <= self.start
                self.rows, self.first = [], report.log_start
        assert report.leo == self.log_end_offset
        self._forget_unwritten_start()

    def _forget_unwritten_start(self) -> None:
        """The log start is checkpointed now and then only: after a kill it may be an earlier one."""
        self.staged = []
        assert self.log.log_start_offset <= max(self.start, self.first)
        self.start = self.log.log_start_offset

    def _reopen(self) -> None:
        self.staged = []
        self.store = open_store(self.path, self.clock)
        assert not self.store.offline_logs
        self.log = open_log(self.store)

    @invariant()
    def same_ends(self) -> None:
        assert self.log.staged_end_offset == self.leo
        assert self.log.log_end_offset == self.log_end_offset
        assert self.log.log_start_offset == self.start
        assert self.log.recovery_point <= self.log_end_offset

    @invariant()
    def same_batches(self) -> None:
        assert read_all(self.log) == [row[3] for row in self.rows if row[1] >= self.start]

    @invariant()
    def same_epochs(self) -> None:
        for base, last, epoch, _ in self.rows:
            if last >= self.start:
                assert self.log.epoch_at(max(base, self.start)) == epoch

    @invariant()
    def no_index_entry_lies(self) -> None:
        for base in self.log.segment_base_offsets:
            assert os.path.exists(f"{self.path}/{TP}/{base:020d}.index")


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = examples(150, stateful_step_count=30)
