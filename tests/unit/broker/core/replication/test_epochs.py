"""Where logs part: KIP-101, KIP-279, and what a follower may cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.replication.epochs import (
    OUT_OF_RANGE,
    EpochEnd,
    Reset,
    diverging_epoch,
    out_of_range_reset,
    truncation_offset,
)

pytestmark = pytest.mark.guarantee("R8", "diverging-epochs")


def history(starts: list[tuple[int, int]], leo: int) -> Callable[[int], tuple[int, int]]:
    """end_offset_for over [(epoch, start), …], written as the definition says."""

    def end_offset_for(epoch: int) -> tuple[int, int]:
        if not starts or epoch > starts[-1][0]:
            return -1, -1
        higher = [start for own, start in starts if own > epoch]
        lower = [own for own, _ in starts if own <= epoch]
        return (lower[-1] if lower else epoch), (higher[0] if higher else leo)

    return end_offset_for


def test_prefix_of_the_leader_does_not_diverge() -> None:
    assert diverging_epoch(history([(0, 0), (3, 10)], 20), 0, 10) is None
    assert diverging_epoch(history([(0, 0), (3, 10)], 20), 3, 20) is None


def test_longer_tail_in_a_shared_epoch_diverges_at_its_end() -> None:
    assert diverging_epoch(history([(0, 0), (3, 10)], 20), 0, 14) == EpochEnd(0, 10)


def test_epoch_unknown_to_the_leader_diverges_at_its_next_smaller() -> None:
    assert diverging_epoch(history([(0, 0), (3, 10)], 20), 2, 12) == EpochEnd(0, 10)


def test_epoch_above_all_of_the_leaders_is_out_of_range() -> None:
    assert diverging_epoch(history([(0, 0)], 20), 5, 12) == OUT_OF_RANGE


def test_follower_without_epoch_is_not_checked() -> None:
    assert diverging_epoch(history([(0, 0)], 20), -1, 99) is None


def test_follower_cuts_to_the_shared_end() -> None:
    assert truncation_offset(EpochEnd(0, 10), history([(0, 0), (2, 12)], 15), 15) == 10
    assert truncation_offset(EpochEnd(0, 13), history([(0, 0), (2, 12)], 15), 15) == 12


def test_follower_that_lacks_the_leaders_epoch_cuts_to_its_own_smaller_one() -> None:
    # KIP-279: leader says epoch 3 ends at 20; the follower has 1 and 4 only and must ask again from the end of 1.
    assert truncation_offset(EpochEnd(3, 20), history([(1, 0), (4, 8)], 15), 15) == 8


def test_follower_without_history_cuts_to_the_leaders_end() -> None:
    assert truncation_offset(EpochEnd(3, 4), history([], 15), 15) == 4


@pytest.mark.parametrize(
    ("own", "start", "end", "hw", "may", "reset"),
    [
        (5, 8, 20, 3, False, Reset(None, 8)),
        (5, 0, 20, 3, False, Reset(None, None)),
        (9, 0, 4, 3, True, Reset(4, None)),
        (9, 0, 4, 7, True, Reset(4, None)),
        (9, 0, 4, 7, False, Reset(7, None)),
        (9, 0, 4, 9, False, Reset(None, None)),
    ],
)
@pytest.mark.parametrize("in_isr", [False, True])
def test_out_of_range_resets_without_cutting_what_was_committed(
    own: int, start: int, end: int, hw: int, may: bool, reset: Reset, in_isr: bool
) -> None:
    assert out_of_range_reset(0, own, start, end, hw, in_isr, may) == reset


@pytest.mark.parametrize(
    ("own_start", "own", "hw", "in_isr", "may", "reset"),
    [
        (9, 9, 9, False, False, Reset(None, 1)),
        (9, 9, 9, False, True, Reset(None, 1)),
        (9, 12, 9, False, False, Reset(None, 1)),
        (9, 12, 10, False, False, Reset(10, None)),
        (9, 12, 12, False, False, Reset(None, None)),
        (9, 12, 12, False, True, Reset(None, 1)),
        (9, 9, 9, True, False, Reset(None, None)),
        (9, 12, 9, True, False, Reset(9, None)),
        (4, 4, 4, False, False, Reset(None, None)),
        (4, 9, 4, False, False, Reset(4, None)),
    ],
)
def test_log_that_begins_beyond_the_leaders_end_begins_anew_where_it_holds_nothing_committed(
    own_start: int, own: int, hw: int, in_isr: bool, may: bool, reset: Reset
) -> None:
    assert out_of_range_reset(own_start, own, 1, 4, hw, in_isr, may) == reset
