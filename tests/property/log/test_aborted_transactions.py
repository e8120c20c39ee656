"""A reader of committed records is shown exactly those, whatever happens to the log and to the indexes beside it."""

from __future__ import annotations

import os
import random
import shutil
import tempfile

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from broker.log.indexes.aborted_txn import decode
from broker.model.ids import Offset
from broker.wire.record_batch import read_header
from tests.property.log.log_tools import MEMORY, TP, Clock, batch, kill, open_log, open_store
from tests.support.committed_reader import read_committed
from tests.support.examples import examples
from tests.support.transactions import end_marker, transactional

SMALL = {"segment.bytes": "500", "index.interval.bytes": "100", "file.delete.delay.ms": "10"}
PRODUCERS = [7, 8, 9]


class ReadersAgainstList(RuleBasedStateMachine):
    """`rows`: (offset, producer or −1, value or None of a marker, committed) of all that was appended, one record each.

    Every value is the offset's own text, so that a wrong record is told from a right one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.path = tempfile.mkdtemp(prefix="highwater-log-", dir=MEMORY)
        self.rows: list[tuple[Offset, int, bytes | None, bool]] = []
        self.sequences: dict[int, int] = {}
        self.damaged = False
        self._open()
        self.log.restore_producers()

    def _open(self) -> None:
        self.store = open_store(self.path, Clock(), SMALL)
        self.log = open_log(self.store)

    def teardown(self) -> None:
        self.store.close(clean=False)
        shutil.rmtree(self.path)

    # What is written

    def _append(self, view: memoryview, producer: int, value: bytes | None, committed: bool = False) -> None:
        info = self.log.append_as_leader(view, 0, read_header(view))
        self.rows.append((info.base_offset, producer, value, committed))

    @rule(steps=st.lists(st.tuples(st.sampled_from(PRODUCERS), st.sampled_from("wwwwca")), max_size=8))
    def append_transactions(self, steps: list[tuple[int, str]]) -> None:
        """Producers that write, commit or abort, in one turn."""
        for producer, step in steps:
            if step == "w":
                value = b"%d" % self.log.staged_end_offset
                sequence = self.sequences.get(producer, 0)
                self.sequences[producer] = sequence + 1
                self._append(transactional(value.decode(), producer, sequence), producer, value)
            else:
                committed = step == "c"
                self._append(end_marker(producer, committed), producer, None, committed)
        self.log.write()

    @rule(producer=st.sampled_from(PRODUCERS))
    def abort_one(self, producer: int) -> None:
        self.append_transactions([(producer, "w"), (producer, "a")])

    @rule()
    def append_without_transaction(self) -> None:
        value = self.log.staged_end_offset
        self._append(batch(value), -1, value.to_bytes(8, "big") + bytes(40))

    @rule()
    def flush(self) -> None:
        self.log.write()
        self.log.flush()
        self.store.checkpoint_recovery_points()

    @rule()
    def snapshot(self) -> None:
        self.log.write()
        self.log.snapshot_producers()

    # What takes records away

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = int(self.log.log_start_offset + share * (self.log.log_end_offset - self.log.log_start_offset))
        self.log.truncate_to(offset)
        self._keep_written()
        self._check(0.0)

    @rule()
    def truncate_fully(self) -> None:
        end = self.log.staged_end_offset
        self.log.truncate_fully_and_start_at(end)
        self.rows.clear()

    @rule(share=st.floats(0, 1))
    def delete_old(self, share: float) -> None:
        self.log.write()
        self.log.maybe_raise_log_start(int(share * self.log.log_end_offset))
        self.log.delete_old_segments(0, self.log.log_end_offset)
        self._check(0.0)

    # What happens to the broker, and to its files

    @rule(clean=st.booleans(), lost=st.booleans(), seed=st.integers(0, 2**16))
    def restart(self, clean: bool, lost: bool, seed: int) -> None:
        """lost: a power failure took what was not flushed, and seed says how much of it."""
        if clean:
            self.store.close(clean=True)
        else:
            kept = self.log.recovery_point
            first = max((base for base in self.log.segment_base_offsets if base <= kept), default=0)
            kill(self.store)
            if lost:
                self._lose(first, kept, random.Random(seed))
        self._open()
        self.log.restore_producers()
        self._keep_written()
        self._check(0.0)

    def _lose(self, first: Offset, kept: Offset, chance: random.Random) -> None:
        """first: base of the segment that is not flushed for good. kept: the recovery point."""
        for path in self._files(".txnindex"):
            if _base(path) >= first:
                os.truncate(path, chance.randrange(os.path.getsize(path) + 1))
        last = self._files(".log")[-1]
        if _base(last) >= kept:
            os.truncate(last, chance.randrange(os.path.getsize(last) + 1))

    @precondition(lambda self: self._files(".txnindex"))
    @rule(seed=st.integers(0, 2**16))
    def damage(self, seed: int) -> None:
        """What no broker writes, at the end of an index, where every search comes by."""
        self.log.write()
        path = random.Random(seed).choice(self._files(".txnindex"))
        with open(path, "ab") as file:
            file.write(b"\1")
        self.damaged = True

    def _files(self, suffix: str) -> list[str]:
        folder = f"{self.path}/{TP}"
        return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(suffix)]

    def _keep_written(self) -> None:
        self.rows = [row for row in self.rows if row[0] < self.log.log_end_offset]

    # What is shown

    def _expected(self, start: Offset, stable: Offset) -> list[tuple[Offset, bytes]]:
        outcome: dict[int, list[tuple[Offset, bytes]]] = {}
        shown: list[tuple[Offset, bytes]] = []
        for offset, producer, value, committed in self.rows:
            if value is None:
                ended = outcome.pop(producer, [])
                shown += ended if committed else []
            elif producer < 0:
                shown.append((offset, value))
            else:
                outcome.setdefault(producer, []).append((offset, value))
        return sorted(row for row in shown if start <= row[0] < stable)

    @rule(share=st.floats(0, 1))
    def read(self, share: float) -> None:
        self.log.write()
        self._check(share)

    def _check(self, share: float) -> None:
        if not self.damaged:
            self._check_indexes()
        stable = self.log.last_stable_offset(self.log.log_end_offset)
        start = int(self.log.log_start_offset + share * (stable - self.log.log_start_offset))
        for max_bytes in (100, 300, 100_000):
            assert read_committed(self.log, start, max_bytes) == self._expected(start, stable)

    def _check_indexes(self) -> None:
        """The files have what was aborted, and nothing else. What began below the log start may be left out."""
        found: list[tuple[int, Offset, Offset]] = []
        for path in self._files(".txnindex"):
            with open(path, "rb") as file:
                found += [entry[:3] for entry in decode(_base(path), file.read())]
        begun: dict[int, Offset] = {}
        expected: list[tuple[int, Offset, Offset]] = []
        for offset, producer, value, committed in self.rows:
            if value is not None:
                begun.setdefault(producer, offset)
            elif producer in begun:
                first = begun.pop(producer)
                if not committed:
                    expected.append((producer, first, offset))
        start = self.log.log_start_offset
        assert [entry for entry in found if entry[1] >= start] == [entry for entry in expected if entry[1] >= start]


def _base(path: str) -> Offset:
    return int(os.path.basename(path)[:20])


ReadersAgainstList.TestCase.settings = examples(150, stateful_step_count=40)
TestReadersAgainstList = ReadersAgainstList.TestCase
