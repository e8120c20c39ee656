"""Which inactive segments close, and when."""

from __future__ import annotations

import pytest

from broker.log.files.open_segments import OpenSegments


class _Segment:
    def __init__(self, kept: OpenSegments) -> None:
        self._kept = kept
        self.open = True
        kept.opened(self)

    def close(self) -> None:
        self.open = False
        self._kept.forget(self)


class _Turns:
    def __init__(self) -> None:
        self.turn = 1

    def __call__(self) -> int:
        return self.turn


def test_least_recently_read_closes_once_there_are_too_many() -> None:
    turns = _Turns()
    kept = OpenSegments(2, turns)
    first, second = _Segment(kept), _Segment(kept)
    turns.turn += 1
    kept.touch(first)
    third = _Segment(kept)
    kept.touch(third)
    assert [segment.open for segment in (first, second, third)] == [True, False, True]
    assert len(kept) == 2


def test_nothing_closes_in_the_turn_in_which_it_was_read() -> None:
    turns = _Turns()
    kept = OpenSegments(1, turns)
    segments = [_Segment(kept) for _ in range(5)]
    for segment in segments:
        kept.touch(segment)
    kept.trim()
    assert not kept.make_room()
    assert all(segment.open for segment in segments)
    turns.turn += 1
    kept.trim()
    assert [segment.open for segment in segments] == [False] * 4 + [True]


def test_opening_one_too_many_closes_those_of_earlier_turns_at_once() -> None:
    turns = _Turns()
    kept = OpenSegments(2, turns)
    first, second = _Segment(kept), _Segment(kept)
    turns.turn += 1
    third, fourth, fifth = (_Segment(kept) for _ in range(3))
    assert [segment.open for segment in (first, second, third, fourth, fifth)] == [False, False, True, True, True]


def test_what_is_not_in_it_is_not_taken_up_by_a_read() -> None:
    turns = _Turns()
    kept = OpenSegments(0, turns)
    active = _Segment(kept)
    kept.forget(active)
    kept.touch(active)
    turns.turn += 1
    kept.trim()
    assert active.open


def test_room_is_made_below_the_bound_too_and_its_lack_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    turns = _Turns()
    kept = OpenSegments(100, turns)
    for _ in range(2):
        assert not kept.make_room()
    assert len(caplog.records) == 1
    segment = _Segment(kept)
    turns.turn += 1
    assert kept.make_room()
    assert not segment.open
    assert not kept.make_room()
    assert len(caplog.records) == 2
