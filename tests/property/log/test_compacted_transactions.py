"""A compacted log with transactions beside a list of what became of them: cleanings anywhere, kills, lost snapshots."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.cleaner.offset_map import ENTRY_BYTES
from broker.log.cleaner.schedule import CleanerSettings
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.compaction_tools import COMPACTED, Bench, cleaner_for, headers_of, keyed
from tests.property.log.log_tools import TP, Clock, folder, kill, open_log, open_store
from tests.support.committed_reader import read_committed
from tests.support.examples import examples
from tests.support.transactions import end_marker

pytestmark = pytest.mark.guarantee("L3", "K2")

TINY_MAP = CleanerSettings(dedupe_bytes=ENTRY_BYTES * 8)
STEPS = ("plain", "send", "send", "send", "end", "end", "clean", "clean", "wait", "restart")
PRODUCERS = (7, 8, 9)
Table = dict[bytes, bytes]


@dataclass
class Row:
    """A record that was written. committed: None while its transaction is open."""

    key: bytes
    value: bytes | None
    committed: bool | None


@dataclass
class Told:
    """What happened, by offset, and what is known of each producer."""

    rows: dict[int, Row] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    ends: dict[int, bool] = field(default_factory=dict)

    def stable(self, end: int) -> int:
        return min((offsets[0] for offsets in self.open.values()), default=end)

    def table(self, offsets: list[int]) -> Table:
        """What a consumer's table holds after these."""
        held: Table = {}
        for offset in offsets:
            row = self.rows[offset]
            if row.value is None:
                held.pop(row.key, None)
            else:
                held[row.key] = row.value
        return held


@dataclass
class World:
    """One log and its cleaner."""

    path: str
    rng: random.Random
    settings: CleanerSettings
    clock: Clock = field(default_factory=lambda: Clock(now=1e6))
    told: Told = field(default_factory=Told)
    number: int = 0

    def __post_init__(self) -> None:
        self.store: LogManager = open_store(self.path, self.clock, COMPACTED)
        self.log: PartitionLog = open_log(self.store)
        self.log.restore_producers()
        self.bench: Bench = cleaner_for(self.store, self.clock, self.settings)

    def append(self, producer: int | None) -> None:
        records = []
        for _ in range(self.rng.randrange(1, 4)):
            self.number += 1
            value = None if self.rng.random() < 0.2 else b"%d" % self.number * self.rng.randrange(1, 12)
            records.append((b"k%d" % self.rng.randrange(5), value))
        fields: dict[str, Any] = {}
        if producer is not None:
            sequence = self.told.sequences.get(producer, -1) + 1
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
            self.told.sequences[producer] = sequence + len(records) - 1
        info = self.log.append_as_leader(keyed(records, int(self.clock.now), **fields), 1)
        self.log.write()
        for offset, (key, value) in enumerate(records, info.base_offset):
            self.told.rows[offset] = Row(key, value, True if producer is None else None)
            if producer is not None:
                self.told.open.setdefault(producer, []).append(offset)

    def end(self, producer: int, committed: bool) -> None:
        info = self.log.append_as_leader(end_marker(producer, committed, timestamps=int(self.clock.now)), 1)
        self.log.write()
        self.told.ends[info.base_offset] = committed
        for offset in self.told.open.pop(producer, []):
            self.told.rows[offset].committed = committed

    def clean(self) -> None:
        entries = dict(self.log.producers)
        replicas = self.bench.replicas
        replicas.producers = {of: entry.batches[-1].last_offset for of, entry in entries.items() if entry.batches}
        replicas.epochs = {of: entry.epoch for of, entry in entries.items() if not entry.batches}
        stable = self.told.stable(self.log.log_end_offset)
        replicas.stable = self.rng.choice([stable, self.rng.randrange(stable + 1)])
        self.bench.cleaner.check()
        assert not self.bench.cleaner.uncleanable

    def overwrite_and_clean(self) -> None:
        """New values for all keys, in segments enough that all before them is cleaned."""
        for _ in range(40):
            self.log.append_as_leader(keyed([(b"k%d" % n, b"v" * 30) for n in range(5)]), 1)
            self.log.write()
        self.bench.replicas.stable = self.log.log_end_offset
        self.bench.cleaner.check()

    def restart(self) -> None:
        end, stable = self.log.log_end_offset, self.log.last_stable_offset(self.log.log_end_offset)
        self.store.close(clean=True) if self.rng.random() < 0.5 else kill(self.store)
        if self.rng.random() < 0.5:
            for snapshot in Path(self.path).glob("*/*.snapshot"):
                snapshot.unlink()
        self.store = open_store(self.path, self.clock, COMPACTED)
        self.log = self.store.logs()[TP]
        self.log.restore_producers()
        self.bench = cleaner_for(self.store, self.clock, self.settings)
        assert self.log.log_end_offset == end
        assert self.log.last_stable_offset(end) == stable

    def step(self) -> None:
        match self.rng.choice(STEPS):
            case "plain":
                self.append(None)
            case "send":
                self.append(self.rng.choice(PRODUCERS))
            case "end":
                # Also where there is no transaction: a coordinator that was followed by another writes it twice.
                self.end(self.rng.choice(PRODUCERS), self.rng.random() < 0.5)
            case "clean":
                self.clean()
            case "wait":
                self.clock.advance(self.rng.choice([1, 600, 1500]))
            case _:
                self.restart()

    def check(self) -> None:
        """A reader of committed records sees what was committed, and no producer is forgotten."""
        told, stable = self.told, self.told.stable(self.log.log_end_offset)
        assert self.log.last_stable_offset(self.log.log_end_offset) == stable
        shown = read_committed(self.log, 0, self.rng.choice([200, 100_000]))
        committed = [offset for offset in sorted(told.rows) if offset < stable and told.rows[offset].committed]
        assert all(told.rows[offset].committed and (told.rows[offset].value or b"") == value for offset, value in shown)
        offsets = [offset for offset, _ in shown]
        assert told.table(offsets) == told.table(committed)
        cleaned = self.log.cleaning.cleaned_until or 0
        assert {offset for offset in committed if offset >= cleaned} <= set(offsets)
        known = {of: entry.batches[-1].last_sequence for of, entry in self.log.producers if entry.batches}
        assert known == told.sequences


@examples(150)
@given(seed=st.integers(0, 2**32), small_map=st.booleans())
def test_cleaned_log_shows_the_last_committed_value_of_every_key_and_nothing_that_was_aborted(
    seed: int, small_map: bool
) -> None:
    rng = random.Random(seed)
    with folder() as path:
        world = World(path, rng, TINY_MAP if small_map else CleanerSettings())
        for _ in range(rng.randrange(5, 70)):
            world.step()
            world.check()
        kill(world.store)


@pytest.mark.parametrize("committed", [True, False])
def test_marker_outlives_its_transaction_by_a_cleaning_and_the_retention_of_tombstones(committed: bool) -> None:
    with folder() as path:
        world = World(path, random.Random(1), CleanerSettings())
        log = world.log
        told = world.told
        world.append(7)
        world.end(7, committed)
        kinds = []
        for n in range(5):
            # The producer has gone on elsewhere: nothing of it has to stay.
            world.overwrite_and_clean()
            assert world.bench.cleaner.runs == n + 1
            of_it = [header for header in headers_of(log) if header.producer_id == 7]
            kinds.append([(header.is_control, bool(header.attributes & 0x40)) for header in of_it])
            aborted = log.committed.aborted_across(next(iter(told.ends)))
            assert len(aborted) == (0 if committed or n > 0 else 1)
            world.clock.advance(5000)
        # The records go, or make room; the marker is due only once they are seen to be gone; then it goes.
        assert kinds == [[(True, False)], [(True, True)], [], [], []]
        kill(world.store)


def test_marker_of_a_producer_without_batches_stays_for_its_epoch() -> None:
    with folder() as path:
        world = World(path, random.Random(1), CleanerSettings())
        log = world.log
        log.append_as_leader(end_marker(7, committed=False, epoch=5), 1)
        log.write()
        world.bench.replicas.epochs = {7: 5}
        for n in range(4):
            world.overwrite_and_clean()
            assert world.bench.cleaner.runs == n + 1
            world.clock.advance(5000)
        for snapshot in Path(path).glob("*/*.snapshot"):
            snapshot.unlink()
        kill(world.store)
        store = open_store(path, world.clock, COMPACTED)
        again = store.logs()[TP]
        again.restore_producers()
        assert {of: entry.epoch for of, entry in again.producers} == {7: 5}
        kill(store)
