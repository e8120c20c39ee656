"""A compacted log in which a batch's base offset is wrong: no CRC covers it, and a hole would look the same.

What contradicts it is the order of the batches and the name of the next segment. Whoever is believed, nothing that was
right is cut as if it had been the wrong one, no batch is served under another's offset, and what is lacking is known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.log.log_manager import LogManager
from broker.model.log_errors import CorruptLog
from broker.wire.record_batch import iter_batches
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, keyed
from tests.property.log.killed_starts import put_back, save
from tests.property.log.log_tools import TP, Clock, fetch, folder, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L6")

STOPS = ["clean", "killed", "killed unflushed"]
CHANGES = [1 << 26, 1 << 33, 3, 1, -1, -3]


class Place(NamedTuple):
    """A batch in a file. before, after: between these a wrong base offset would look like a hole of compaction's."""

    file: str
    position: int
    size: int
    base: int
    before: int
    after: int


class Written(NamedTuple):
    """A log dir's folder after a stop, and what it holds."""

    path: str
    batches: list[bytes]
    places: list[Place]
    end: int


def _store(path: str) -> LogManager:
    return open_store(path, Clock(now=1e6), COMPACTED)


def _written(path: str, stop: str) -> Written:
    clock = Clock(now=1e6)
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    for value in range(30):
        log.append_as_leader(keyed([(b"k%d" % (value % 9), b"%d" % value * 20)], 1000 + value), value // 12)
        log.write()
        if value == 19:
            clock.advance(1000)
            log.flush()
            cleaner_for(store, clock).cleaner.check()
    if stop != "killed unflushed":
        log.flush()
        store.checkpoint_recovery_points()
    batches, places = [], []
    bases = [*log.segment_base_offsets, log.staged_end_offset]
    for base, following in pairwise(bases):
        file = f"{path}/{TP}/{base:020d}.log"
        data = Path(file).read_bytes()
        found = list(iter_batches(memoryview(data), verify_crc=True))
        batches += [data[at : at + header.size] for at, header in found]
        ends = [base, *(header.last_offset + 1 for _, header in found)]
        starts = [*(header.base_offset for _, header in found[1:]), following]
        for (at, header), before, after in zip(found, ends, starts, strict=False):
            places.append(Place(file, at, header.size, header.base_offset, before, after))
    assert len(bases) > 4
    assert len(batches) < 30, "nothing was compacted"
    end = log.staged_end_offset
    if stop == "clean":
        store.close(clean=True)
    else:
        kill(store)
    return Written(path, batches, places, end)


def _damages(written: Written) -> Iterator[tuple[Place, int]]:
    """Every batch but the last, under every other offset that its neighbours or the next segment contradict."""
    for place in written.places[:-1]:
        for change in CHANGES:
            wrong = place.base + change
            if wrong >= 0 and not place.before <= wrong < place.after:
                yield place, wrong


def _read(log_at: LogManager) -> list[bytes] | None:
    """All that is served, from the start to the end; None where a read finds damage."""
    log = log_at.logs()[TP]
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.staged_end_offset:
        try:
            data = fetch(log, offset, 300)
        except CorruptLog:
            return None
        assert data, f"nothing is served at {offset}, the log ends at {log.staged_end_offset}"
        for at, header in iter_batches(memoryview(data), verify_crc=True):
            found.append(data[at : at + header.size])
            offset = header.last_offset + 1
    return found


@pytest.mark.parametrize("stop", STOPS)
def test_wrong_base_offset_costs_no_other_batch_unnoticed(stop: str) -> None:
    with folder() as above:
        path = f"{above}/data"
        written = _written(path, stop)
        saved = f"{above}/saved"
        save(path, saved)
        outcomes = set()
        for place, wrong in _damages(written):
            what = f"{os.path.basename(place.file)}: {place.base} as {wrong}"
            put_back(saved, path)
            with open(place.file, "r+b") as opened:
                opened.seek(place.position)
                opened.write(wrong.to_bytes(8, "big"))
            store = _store(path)
            try:
                outcomes.add(_judge(written, store, what))
            finally:
                kill(store)
        assert outcomes <= {"offline", "found by a read", "cut"}
        assert outcomes


def _judge(written: Written, store: LogManager, what: str) -> str:
    log = store.get(TP)
    if log is None:
        assert TP in store.offline_logs
        return "offline"
    assert log.staged_end_offset <= written.end, f"{what}: the log ends at {log.staged_end_offset}"
    found = _read(store)
    if found is None:
        return "found by a read"
    assert found == written.batches[: len(found)], what
    assert log.staged_end_offset < written.end, f"{what}: nobody noticed"
    assert TP in store.unclean, f"{what}: it ends at {log.staged_end_offset}, and passes for whole"
    return "cut"
