"""One random corruption of a small log folder, the real log code over it, and what must hold afterwards.

The folder holds a partition of several segments and epochs, a second one as a bystander, all checkpoints, a producer
snapshot and meta.properties. One file is damaged while nobody has it open. `judge` then opens the folder as a broker
does, reads everything, and restores the replica from its leader's bytes where it must.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.log import checkpoints
from broker.log.log import PartitionLog
from broker.log.log_dir import WrongIdentity
from broker.log.store import DiskLogStore
from broker.runtime.ports import CorruptLog, TopicPartition
from broker.wire.record_batch import iter_batches
from tests.property.log.log_tools import TINY, TOPIC_ID, TP, Clock, batch, fetch, kill, read_all

BYSTANDER = TopicPartition("u", 3)
IDENTITY = (1, "cluster-of-the-test")
BATCHES = 24
START = 5
_BLOCK = 64


@dataclass(frozen=True)
class Template:
    """A folder's files by relative path, and the batches that it holds. recovery_point: as checkpointed."""

    files: dict[str, bytes]
    expected: list[bytes]
    recovery_point: int
    clean: bool


@dataclass(frozen=True)
class Outcome:
    """how: untouched, cut, offline, found-by-read, refused (the broker does not start)."""

    file: str
    kind: str
    how: str


def make_template(path: str, clean: bool, flushed: bool) -> Template:
    """Fill a store in `path` and take its files."""
    store = _open(path)
    log = store.create(TP, TOPIC_ID, {})
    other = store.create(BYSTANDER, "BBBBBBBBBBBBBBBBBBBBBQ", {})
    for value in range(BATCHES):
        log.append_as_leader(batch(value, 1 + value % 3, 1000 + value), value // 10)
        log.write()
        other.append_as_leader(batch(value + 500), 2)
        other.write()
        if value == 12:
            log.write_producer_snapshot(log.leo, bytes(40))
            if flushed:
                log.flush()
                store.checkpoint_recovery_points()
    log.maybe_raise_log_start(START)
    store.checkpoint_log_start_offsets()
    store.checkpoint_high_watermarks({TP: log.leo - 2, BYSTANDER: other.leo})
    recovery_point = log.recovery_point if flushed else 0
    expected = read_all(log)
    if clean:
        recovery_point = log.leo
        store.registered(77)
        store.close(clean=True)
    else:
        kill(store)
    root = Path(path)
    files = {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
    files.pop(".lock", None)
    shutil.rmtree(path)
    return Template(files, expected, recovery_point, clean)


def _open(path: str) -> DiskLogStore:
    return DiskLogStore([path], Clock().environment(), defaults=TINY, identity=IDENTITY)


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _truncate(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _zero(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    length = min(len(data) - start, rng.choice((1, 8, 64, 512, 4096)))
    data[start : start + length] = bytes(length)


def _swap(rng: random.Random, data: bytearray) -> None:
    size = min(_BLOCK, len(data) // 2)
    if size == 0:
        return
    a, b = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
    first, second = bytes(data[a : a + size]), bytes(data[b : b + size])
    data[a : a + size], data[b : b + size] = second, first


def _append(rng: random.Random, data: bytearray) -> None:
    data += rng.randbytes(rng.choice((1, 7, 61, 200, 5000)))


def _repeat(rng: random.Random, data: bytearray) -> None:
    """An old piece of the same file again at its end: valid bytes in the wrong place."""
    start = rng.randrange(len(data))
    data += data[start : start + rng.choice((61, 100, 700))]


_KINDS: dict[str, Callable[[random.Random, bytearray], None]] = {
    "flip": _flip,
    "truncate": _truncate,
    "zero": _zero,
    "swap": _swap,
    "append": _append,
    "repeat": _repeat,
}


def _touches_what_no_check_covers(name: str, before: bytes, after: bytearray) -> bool:
    """Whether a leader epoch in a batch header changed (it lies outside of the CRC, as in Kafka's own files)."""
    if not name.endswith(".log"):
        return False
    return any(
        before[at + 12 : at + 16] != after[at + 12 : at + 16]
        for at, _ in iter_batches(memoryview(before), verify_crc=True)
    )


def corrupt(template: Template, seed: int) -> tuple[str, str, dict[str, bytes]]:
    """(file, kind, files): the folder with one file damaged."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(sorted(template.files))
        kind = rng.choice([*_KINDS, "delete"])
        files = dict(template.files)
        before = files.pop(name)
        if kind == "delete":
            return name, kind, files
        data = bytearray(before)
        if not data:
            continue
        _KINDS[kind](rng, data)
        if bytes(data) != before and not _touches_what_no_check_covers(name, before, data):
            return name, kind, {**files, name: bytes(data)}


def judge(template: Template, seed: int, path: str) -> Outcome:
    """Raises AssertionError, or whatever the log code should not have raised."""
    name, kind, files = corrupt(template, seed)
    for relative, content in files.items():
        file = Path(path, relative)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    store = _open_unless_refused(path, name)
    if store is None:
        return Outcome(name, kind, "refused")
    try:
        how = _judge_open(template, store, name)
        _judge_bystander(store, name)
    finally:
        store.close(clean=False)
    return Outcome(name, kind, how)


def _open_unless_refused(path: str, name: str) -> DiskLogStore | None:
    """None where the broker does not start: it says that meta.properties is wrong, and that is the damaged file."""
    try:
        return _open(path)
    except WrongIdentity as refusal:
        if name != checkpoints.META_PROPERTIES or name not in str(refusal):
            raise
        return None


def _judge_open(template: Template, store: DiskLogStore, name: str) -> str:
    log = store.get(TP)
    leo = int.from_bytes(template.expected[-1][:8], "big") + struct.unpack_from(">i", template.expected[-1], 23)[0] + 1
    if log is None:
        damage = store.offline_logs[TP]
        assert damage.where.startswith(store._dirs[0].path), "it names the file"
        assert damage.reason
        _restore(template, store)
        return "offline"
    assert log.leo <= leo or name == checkpoints.LOG_STARTS
    if name != checkpoints.LOG_STARTS:
        # Records that were deleted may come back; a log never begins later than it did.
        assert log.log_start_offset <= START, "a start with a hole"
    if log.leo < leo:
        (report,) = [report for report in store.reports if report.topic_partition == TP]
        assert not report.clean
        assert report.reason
        assert name.endswith(".log") or name == checkpoints.LOG_STARTS
        if log.leo < template.recovery_point:
            assert report.cut_below == log.leo
    if not _reads_true(template, log):
        log.distrust()
        store.offline_logs[TP] = CorruptLog(TP, store._dirs[0].path, "found by a read")
        store.delete(TP)
        store.create(TP, TOPIC_ID, {})
        _follow(template, store)
        return "found-by-read"
    if log.leo == leo and log.log_start_offset == START:
        assert read_all(log) == template.expected
    how = "cut" if log.leo < leo else "untouched"
    _follow(template, store)
    return how


def _reads_true(template: Template, log: PartitionLog) -> bool:
    """Read everything: only what was written, in its place. False where a read found damage."""
    by_base = {int.from_bytes(content[:8], "big"): content for content in template.expected}
    offset = max(log.log_start_offset, START)
    while offset < log.leo:
        try:
            data = fetch(log, offset, 400)
        except CorruptLog as damage:
            if not (damage.where and damage.reason):
                raise
            return False
        assert data, f"nothing is served at {offset}, the log ends at {log.leo}"
        for at, header in iter_batches(memoryview(data), verify_crc=True):
            assert data[at : at + header.size] == by_base[header.base_offset]
            assert header.base_offset <= offset <= header.last_offset
            offset = header.last_offset + 1
    return True


def _restore(template: Template, store: DiskLogStore) -> None:
    """As LeaderAndIsr does it once another replica leads."""
    log = store.restore(TP, TOPIC_ID, {})
    assert log.log_start_offset <= START, "it would have its followers delete what lies before"
    _follow(template, store)


def _follow(template: Template, store: DiskLogStore) -> None:
    """Fetch from a leader that has everything; the copy then equals it, and survives a clean stop."""
    log = store.get(TP)
    assert log is not None
    end = int.from_bytes(template.expected[0][:8], "big")
    if log.leo < end or not _holds(template, log):
        log.truncate_fully_and_start_at(end)
    for content in template.expected:
        if int.from_bytes(content[:8], "big") >= log.leo:
            log.append_as_follower(memoryview(bytearray(content)))
            log.write()
    log.maybe_raise_log_start(START)
    # Deleted records may come back in front, nothing may be missing there.
    assert read_all(log)[-len(template.expected) :] == template.expected
    log.append_as_leader(batch(9999), 9)
    log.write()
    rows = read_all(log)
    store.close(clean=True)
    again = _open(store._dirs[0].path)
    try:
        reopened = again.get(TP)
        assert reopened is not None, again.offline_logs
        assert read_all(reopened) == rows
    finally:
        again.close(clean=False)


def _holds(template: Template, log: PartitionLog) -> bool:
    """Whether the log's end is one of the leader's batch boundaries."""
    starts = {int.from_bytes(content[:8], "big") for content in template.expected}
    return log.leo in starts or log.leo == max(starts) + 1 + (BATCHES - 1) % 3


def _judge_bystander(store: DiskLogStore, name: str) -> None:
    """Damage to one partition's files is that partition's alone."""
    if name.startswith(f"{TP}/"):
        again = _open(store._dirs[0].path) if store._closed else store
        try:
            other = again.get(BYSTANDER)
            assert other is not None
            assert len(read_all(other)) == BATCHES
        finally:
            again.close(clean=False)
