from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.measure import memory
from benchmarks.measure.memory import Ballast
from tests.support.wait import eventually

SIZE = 64 << 20
MIB = 1 << 20


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(start, length) of what was taken out of the page cache; a machine of SIZE bytes, a quarter of it ahead."""
    calls: list[tuple[int, int]] = []

    def advise(fd: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        calls.append((start, length))

    monkeypatch.setattr(memory, "total_bytes", lambda: SIZE)
    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(memory, "TICK_S", 0.001)
    return calls


def total(freed: list[tuple[int, int]]) -> int:
    return sum(length for _, length in freed)


def test_room_frees_what_was_read_last_and_the_next_pretouch_reads_it_again(
    tmp_path: Path, freed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [24 * MIB]

    def free_bytes() -> int:
        left[0] -= 4 * MIB
        return memory.LEFT_FREE_BYTES + left[0]

    monkeypatch.setattr(memory, "processors", lambda: 1)
    ballast = Ballast(tmp_path / "ballast")
    calls = []
    for _ in range(2):
        left[0] = 24 * MIB
        monkeypatch.setattr(memory, "free_bytes", free_bytes)
        ballast.pretouch()
        monkeypatch.setattr(memory, "free_bytes", lambda: SIZE)
        with ballast.room(16 * MIB):
            calls.append(list(freed))
        freed.clear()
    assert total(calls[0]) == 16 * MIB
    assert calls[0] == calls[1]


def test_room_grows_as_it_is_used_up_to_what_is_needed(
    tmp_path: Path, freed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = [0]
    monkeypatch.setattr(memory, "free_bytes", lambda: total(freed) - used[0])
    ballast = Ballast(tmp_path / "ballast")
    with ballast.room(32 * MIB):
        assert total(freed) == SIZE // 4, "no more than a part of it is freed ahead"
        used[0] = 10 * MIB
        eventually(lambda: total(freed) == SIZE // 4 + 10 * MIB, "as much again as was used")
        used[0] = 200 * MIB
        eventually(lambda: total(freed) == SIZE // 4 + 32 * MIB, "what is needed, and no more")
    so_far = total(freed)
    used[0] = 400 * MIB
    assert total(freed) == so_far


def test_room_for_little_frees_little(tmp_path: Path, freed: list[tuple[int, int]]) -> None:
    with Ballast(tmp_path / "ballast").room(MIB):
        assert total(freed) == MIB


def test_room_for_nothing_does_not_free_the_whole_file(tmp_path: Path, freed: list[tuple[int, int]]) -> None:
    with Ballast(tmp_path / "ballast").room(0):
        assert freed == [], "a length of 0 would mean the whole file"


def test_room_at_the_files_start_does_not_free_the_whole_file(tmp_path: Path, freed: list[tuple[int, int]]) -> None:
    with Ballast(tmp_path / "ballast").room(MIB):
        assert freed[0] == (SIZE - MIB, MIB), "a length of 0 would mean the whole file"


def test_room_of_unwanted_ballast_does_nothing(tmp_path: Path, freed: list[tuple[int, int]]) -> None:
    with Ballast(tmp_path / "ballast", wanted=False).room(MIB):
        assert freed == []
