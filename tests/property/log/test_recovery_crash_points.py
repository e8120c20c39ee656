"""A kill before any file system call of a recovery, of a log with holes, leaves one that the next recovery understands.

Such a log's holes are believed, so a recovery that cuts must not leave one of its own, however it ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.log.files import checkpoints
from broker.log.log_manager import LogManager
from broker.wire.record_batch import iter_batches
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, keyed
from tests.property.log.killed_starts import is_restored, put_back, save, started
from tests.property.log.kills import attempts
from tests.property.log.log_tools import TINY, TOPIC_ID, TP, Clock, batch, folder, kill, open_store, read_all

pytestmark = pytest.mark.guarantee("L6")

Damage = Callable[[Path, int, int], None]

DELETED = {"cleanup.policy": "delete"}
"""Of a topic with a policy of its own nobody knows whether it was compacted once."""


class Written(NamedTuple):
    """A log after a kill: what it holds, and where. places: file, position and size of each of the batches.

    point: the one of them that the checkpointed recovery point names, in a segment with others behind it.
    """

    batches: list[bytes]
    places: list[tuple[str, int, int]]
    point: int
    config: Mapping[str, str]
    overrides: Mapping[str, str]


def _compacted(path: str, clock: Clock) -> LogManager:
    store = open_store(path, clock, COMPACTED)
    log = store.create(TP, TOPIC_ID, {})
    for value in range(24):
        log.append_as_leader(keyed([(b"k%d" % (value * value % 7), b"%d" % value * 20)], 1000 + value), value // 10)
        log.write()
        if value == 11:
            clock.advance(1000)
            log.flush()
            cleaner_for(store, clock).cleaner.check()
    return store


def _with_a_policy(path: str, clock: Clock) -> LogManager:
    store = open_store(path, clock, TINY)
    log = store.create(TP, TOPIC_ID, DELETED)
    for value in range(20):
        log.append_as_leader(batch(value, 1, 1000 + value), value // 10)
        log.write()
    return store


def _written(path: str, kind: str, flushed: bool) -> Written:
    clock = Clock(now=1e6)
    store = _compacted(path, clock) if kind == "compacted" else _with_a_policy(path, clock)
    log = store.logs()[TP]
    batches, places = [], []
    for base in log.segment_base_offsets:
        file = f"{path}/{TP}/{base:020d}.log"
        data = Path(file).read_bytes()
        for at, header in iter_batches(memoryview(data), verify_crc=True):
            batches.append(data[at : at + header.size])
            places.append((file, at, header.size))
    holes = any(_base(after) != _last(before) + 1 for before, after in pairwise(batches))
    assert holes == (kind == "compacted")
    files = sorted({file for file, _, _ in places})
    assert len(files) > 3
    point = [file for file, _, _ in places].index(files[-3]) + 2 if flushed else 0
    kill(store)
    # Below a lower one than that was: the scan meets holes, too.
    points = checkpoints.format_offsets({TP: _base(batches[point])})
    Path(path, checkpoints.RECOVERY_POINTS).write_text(points)
    config, overrides = (COMPACTED, {}) if kind == "compacted" else (TINY, DELETED)
    return Written(batches, places, point, config, overrides)


def _base(content: bytes) -> int:
    return int.from_bytes(content[:8], "big")


def _last(content: bytes) -> int:
    return _base(content) + int.from_bytes(content[23:27], "big")


def _flip(file: Path, position: int, size: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(position + size - 3)
        opened.write(b"\xff\xfe")


def _tear(file: Path, position: int, size: int) -> None:
    os.truncate(file, position + size - 3)


def _move(file: Path, position: int, size: int) -> None:
    """A wrong base offset, which no CRC covers."""
    with file.open("r+b") as opened:
        opened.seek(position)
        base = int.from_bytes(opened.read(8), "big")
        opened.seek(position)
        opened.write((base + (1 << 26)).to_bytes(8, "big"))


@pytest.mark.parametrize("kind", ["compacted", "with a policy"])
@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("damage", [_flip, _tear, _move], ids=lambda damage: damage.__name__.strip("_"))
def test_recovery_that_is_killed_anywhere_leaves_no_hole(damage: Damage, flushed: bool, kind: str) -> None:
    kills = offline = 0
    with folder() as above:
        path, saved = f"{above}/data", f"{above}/saved"
        written = _written(path, kind, flushed)
        save(path, saved)
        places = (written.point - 1, written.point + 1) if flushed else (1, len(written.batches) // 2)
        for file, position, size in (written.places[place] for place in places):
            put_back(saved, path)
            damage(Path(file), position, size)
            hurt = f"{above}/{os.path.basename(file)}-{position}"
            save(path, hurt)
            kills += _kill_starts(written, hurt, path)
            with started(path, written.config, written.overrides) as (store, _):
                is_offline = TP in store.offline_logs
            if is_offline:
                offline += 1
                kills += _kill_restorations(written, hurt, path)
    assert kills > 40
    assert offline == flushed


def _kill_starts(written: Written, hurt: str, path: str) -> int:
    """Returns how many of them were killed."""
    for attempt in attempts():
        put_back(hurt, path)
        with started(path, written.config, written.overrides, attempt.number) as (_, attempt.finished):
            pass
        _judge_next(written, path, f"start killed before call {attempt.number}")
    put_back(hurt, path)
    return attempt.number - 1


def _kill_restorations(written: Written, hurt: str, path: str) -> int:
    for attempt in attempts():
        put_back(hurt, path)
        with started(path, written.config, written.overrides) as (store, _):
            attempt.finished = is_restored(store, written.overrides, attempt.number)
        _judge_next(written, path, f"restoration killed before call {attempt.number}")
    return attempt.number - 1


def _judge_next(written: Written, path: str, what: str) -> None:
    """The start after that holds the batches up to somewhere, and knows what it lacks."""
    with started(path, written.config, written.overrides) as (store, _):
        if TP in store.offline_logs:
            assert is_restored(store, written.overrides)
        log = store.logs()[TP]
        found = read_all(log, holes=True)
        assert found == written.batches[: len(found)], f"{what}: a hole that nothing made but the recovery"
        assert len(found) < len(written.batches), f"{what}: the damage is still there"
        assert log.staged_end_offset <= _base(written.batches[len(found)]), f"{what}: it ends behind what it lacks"
        assert TP in store.unclean, f"{what}: it ends at {log.staged_end_offset}, and passes for whole"
