"""When a run is void, and what equal logs are: by states and by files."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.measure.guard import Guard, VoidRun, why_isr_void
from benchmarks.measure.logs import all_equal, end_offset, first_difference, size_bytes
from benchmarks.process import BenchmarkFailed
from benchmarks.zookeeper import PartitionState

_FULL = PartitionState(1, (1, 2, 3), 4)


def batch(base: int, count: int, body: bytes = b"x") -> bytes:
    """A batch with a right base offset, length and last offset delta; nothing else of it is looked at."""
    rest = bytes(11) + struct.pack(">i", count - 1) + bytes(34) + body
    return struct.pack(">qi", base, len(rest)) + rest


def log(folder: Path, **segments: bytes) -> None:
    folder.mkdir(parents=True)
    for name, data in segments.items():
        (folder / f"{int(name[1:]):020d}.log").write_bytes(data)


def test_isr_that_stayed_full_is_no_reason() -> None:
    assert why_isr_void([_FULL], [_FULL]) is None


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (PartitionState(1, (1, 2), 4), _FULL, "ISR [1, 2] before"),
        (_FULL, PartitionState(1, (1, 3), 5), "ISR [1, 3] after"),
        (_FULL, PartitionState(1, (1, 2, 3), 6), "changed 2 times"),
        (_FULL, None, "no state"),
    ],
)
def test_isr_that_changed_is_reported(before: PartitionState, after: PartitionState | None, reason: str) -> None:
    told = why_isr_void([before], [after])
    assert told is not None
    assert reason in told


def test_end_offset_is_one_past_the_last_batch(tmp_path: Path) -> None:
    log(tmp_path / "t-0", s0=batch(0, 3) + batch(3, 4), s7=batch(7, 1))
    assert end_offset(tmp_path / "t-0") == 8


def test_end_offset_of_an_empty_last_segment_is_its_base(tmp_path: Path) -> None:
    log(tmp_path / "t-0", s0=batch(0, 3), s3=b"")
    assert end_offset(tmp_path / "t-0") == 3


def test_end_offset_of_a_torn_batch_is_an_error(tmp_path: Path) -> None:
    log(tmp_path / "t-0", s0=batch(0, 3)[:-1])
    with pytest.raises(ValueError, match="the file ends before"):
        end_offset(tmp_path / "t-0")


def test_logs_with_other_segment_ends_are_equal(tmp_path: Path) -> None:
    log(tmp_path / "a" / "t-0", s0=batch(0, 3) + batch(3, 4), s7=batch(7, 1))
    log(tmp_path / "b" / "t-0", s0=batch(0, 3), s3=batch(3, 4) + batch(7, 1))
    assert first_difference([tmp_path / "a", tmp_path / "b"], "t", 1) is None


def test_logs_that_differ_in_a_byte_or_in_length_are_reported(tmp_path: Path) -> None:
    log(tmp_path / "a" / "t-0", s0=batch(0, 3, b"x"))
    log(tmp_path / "b" / "t-0", s0=batch(0, 3, b"y"))
    log(tmp_path / "c" / "t-0", s0=batch(0, 3, b"x") + batch(3, 1))
    log(tmp_path / "d" / "t-0", s0=b"")
    for other in "bcd":
        difference = first_difference([tmp_path / "a", tmp_path / other], "t", 1)
        assert difference is not None
        assert difference.partition == 0


def test_size_of_a_folder_that_is_not_there_is_zero(tmp_path: Path) -> None:
    assert size_bytes(tmp_path / "t-0") == 0
    assert all_equal([[5, 5, 5], [0, 0, 0]])
    assert not all_equal([[5, 5, 4]])


def test_isr_without_those_that_are_away_is_full_when_they_are_known_to_be() -> None:
    two = PartitionState(1, (1, 2), 6)
    assert why_isr_void([two], [two], members=2) is None
    assert why_isr_void([two], [PartitionState(1, (1, 2), 8)], members=2) is not None
    assert why_isr_void([_FULL], [_FULL], members=2) is not None


class FakeCluster:
    """Folders of three brokers, and what ZooKeeper says in turn."""

    def __init__(self, folder: Path, *states: PartitionState) -> None:
        self.brokers = {number: SimpleNamespace(data=folder / str(number)) for number in (1, 2, 3)}
        told = list(states)
        self.dead: set[int] = set()
        self.zookeeper = SimpleNamespace(partitions=lambda topic, count: [told.pop(0) if len(told) > 1 else told[0]])

    def require_alive(self, among: Sequence[int]) -> None:
        if self.dead & set(among):
            raise BenchmarkFailed("a broker ended")


def guarded(
    folder: Path, *ends: int, states: tuple[PartitionState, ...] = (_FULL,), away: tuple[int, ...] = ()
) -> Guard:
    """A guard over one partition whose replicas end where it is said."""
    cluster = FakeCluster(folder, *states)
    for broker, end in zip(cluster.brokers.values(), ends, strict=True):
        log(broker.data / "t-0", s0=b"".join(batch(base, 1) for base in range(end)))
    return Guard(cast(Any, cluster), "t", 1, away)


def test_guard_lets_a_run_count_and_returns_the_ends(tmp_path: Path) -> None:
    guard = guarded(tmp_path, 3, 3, 3)
    assert guard.await_replicas() > 0
    guard.check(3)
    assert guard.check_logs(None) == [3]


def test_guard_finds_records_that_were_acknowledged_and_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(VoidRun, match="broker 1 holds 3 records, 4 were acknowledged"):
        guarded(tmp_path, 3, 3, 3).check(4)


def test_guard_finds_an_isr_that_changed_meanwhile(tmp_path: Path) -> None:
    guard = guarded(tmp_path, 3, 3, 3, states=(_FULL, PartitionState(1, (1, 2, 3), 6)))
    with pytest.raises(VoidRun, match="changed 2 times"):
        guard.check(3)


def test_guard_does_not_look_at_who_is_away(tmp_path: Path) -> None:
    guard = guarded(tmp_path, 3, 3, 1, states=(PartitionState(1, (1, 2), 6),), away=(3,))
    assert guard.await_replicas() > 0
    guard.check(3)


def test_guard_does_not_wait_for_a_broker_that_has_ended(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, _FULL)
    for broker, end in zip(cluster.brokers.values(), (3, 3, 1), strict=True):
        log(broker.data / "t-0", s0=b"".join(batch(base, 1) for base in range(end)))
    guard = Guard(cast(Any, cluster), "t", 1)
    cluster.dead = {3}
    with pytest.raises(BenchmarkFailed, match="a broker ended"):
        guard.await_replicas()
