from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.measure import memory
from benchmarks.measure.memory import Ballast

SIZE = 64 << 20


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(start, length) of what was taken out of the page cache; a machine of SIZE bytes, a quarter of it for runs."""
    told: list[tuple[int, int]] = []

    def advise(fd: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        told.append((start, length))

    monkeypatch.setattr(memory, "total_bytes", lambda: SIZE)
    monkeypatch.setattr(memory.os, "posix_fadvise", advise)
    return told


def test_make_room_frees_what_was_read_last_and_the_next_pretouch_reads_it_again(
    tmp_path: Path, freed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [24 << 20]

    def free_bytes() -> int:
        left[0] -= 4 << 20
        return memory.LEFT_FREE_BYTES + left[0]

    monkeypatch.setattr(memory, "free_bytes", free_bytes)
    monkeypatch.setattr(memory, "processors", lambda: 1)
    ballast = Ballast(tmp_path / "ballast")
    ballast.pretouch()
    ballast.make_room()
    first = list(freed)
    freed.clear()
    left[0] = 24 << 20
    ballast.pretouch()
    ballast.make_room()
    assert sum(length for _, length in first) == SIZE // 4
    assert freed == first


def test_make_room_at_the_files_start_does_not_free_the_whole_file(
    tmp_path: Path, freed: list[tuple[int, int]]
) -> None:
    Ballast(tmp_path / "ballast").make_room()
    assert freed == [(SIZE - SIZE // 4, SIZE // 4)], "a length of 0 would mean the whole file"


def test_make_room_unwanted_ballast_does_nothing(tmp_path: Path, freed: list[tuple[int, int]]) -> None:
    Ballast(tmp_path / "ballast", wanted=False).make_room()
    assert freed == []
