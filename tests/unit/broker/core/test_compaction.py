"""What compaction may touch, and what stays."""

from __future__ import annotations

import pytest

from broker.core.compaction import (
    LONG_MAX,
    CleanableRange,
    Dirtiness,
    SegmentFacts,
    cleanable_range,
    compaction_delay_ms,
    dirtiness,
    group_segments,
    is_worth_it,
    keeps_empty,
    keeps_record,
)

BASES = [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("last_clean", "stable", "too_young", "expected"),
    [
        (None, 40, None, (0, 30)),  # never the active segment
        (None, 25, None, (0, 20)),  # nor a segment that reaches above what is stable
        (None, 20, None, (0, 20)),
        (None, 19, None, (0, 10)),
        (None, 0, None, (0, 0)),
        (10, 40, None, (10, 30)),
        (30, 40, None, (30, 30)),
        (35, 40, None, (35, 35)),
        (None, 40, 10, (0, 10)),
        (20, 40, 10, (20, 20)),
    ],
)
def test_cleanable_range_ends_below_the_active_segment_the_stable_offset_and_young_records(
    last_clean: int | None, stable: int, too_young: int | None, expected: tuple[int, int]
) -> None:
    assert cleanable_range(BASES, 0, 40, last_clean, stable, too_young) == CleanableRange(*expected)


@pytest.mark.parametrize("last_clean", [3, 41])
def test_cleanable_range_with_a_checkpoint_outside_of_the_log_starts_over(last_clean: int) -> None:
    assert cleanable_range(BASES, 5, 40, last_clean, 40, None) == CleanableRange(5, 30, True)


def test_cleanable_range_of_a_log_with_one_segment_is_empty() -> None:
    assert cleanable_range([0], 0, 40, None, 40, None) == CleanableRange(0, 0)


def test_dirtiness_counts_whole_segments_and_the_one_where_the_dirty_part_begins_twice() -> None:
    segments = [SegmentFacts(base, 100) for base in (0, 10, 20)]
    assert dirtiness(segments, CleanableRange(10, 30)) == Dirtiness(100, 200)
    assert dirtiness(segments, CleanableRange(15, 30)) == Dirtiness(200, 200)
    assert dirtiness(segments, CleanableRange(0, 10)) == Dirtiness(0, 100)
    assert dirtiness(segments, CleanableRange(30, 30)).cleanable_bytes == 0


def test_log_is_worth_cleaning_above_the_ratio_or_when_overdue_but_never_without_dirty_bytes() -> None:
    assert not is_worth_it(Dirtiness(100, 100), 0.5, 0)
    assert is_worth_it(Dirtiness(100, 101), 0.5, 0)
    assert is_worth_it(Dirtiness(1000, 1), 0.5, 1)
    assert not is_worth_it(Dirtiness(0, 0), 0.0, 1)
    assert is_worth_it(Dirtiness(0, 1), 0.99, 0)


def test_delay_counts_from_when_the_oldest_dirty_record_was_due() -> None:
    assert compaction_delay_ms(1000, 1500, 400) == 100
    assert compaction_delay_ms(1000, 1400, 400) == 0
    assert compaction_delay_ms(1000, 1e13, LONG_MAX) == 0
    assert compaction_delay_ms(None, 1e13, 0) == 0


def test_groups_are_neighbours_that_fit_one_segment_and_one_index_and_31_bits() -> None:
    def groups(*segments: SegmentFacts, size: int = 100, index: int = 100) -> list[list[int]]:
        found = group_segments(segments, size, index, 2**40)
        return [[segment.base_offset for segment in group] for group in found]

    assert groups(*(SegmentFacts(base, 40) for base in (0, 10, 20, 30, 40))) == [[0, 10], [20, 30], [40]]
    assert groups(SegmentFacts(0, 200), SegmentFacts(10, 1)) == [[0], [10]]
    assert groups(SegmentFacts(0, 1, 60, 0), SegmentFacts(10, 1, 60, 0), SegmentFacts(20, 1)) == [[0], [10], [20]]
    assert groups(SegmentFacts(0, 1, 0, 60), SegmentFacts(10, 1, 0, 60)) == [[0], [10]]
    near, far = SegmentFacts(2**31 - 10, 1), SegmentFacts(2**31, 1)
    # The second ends where the third begins: 2³¹ − 1 is the last offset that fits a segment with base 0.
    assert groups(SegmentFacts(0, 1), near, far) == [[0, 2**31 - 10], [2**31]]
    assert groups(SegmentFacts(0, 1), near, SegmentFacts(2**31 + 1, 1)) == [[0], [2**31 - 10], [2**31 + 1]]
    assert groups() == []


def test_empty_batch_stays_at_the_end_of_the_range_and_for_an_active_producer() -> None:
    assert keeps_empty(30, 30, False)
    assert keeps_empty(29, 30, True)
    assert not keeps_empty(29, 30, False)


@pytest.mark.parametrize(
    ("offset", "newest", "has_value", "horizon_ms", "stays"),
    [
        (101, None, False, 0, True),  # not mapped yet
        (101, 200, True, None, True),
        (100, None, True, None, True),
        (50, 50, True, None, True),
        (50, 51, True, None, False),
        (50, 49, True, None, True),  # what was mapped before the dirty part began
        (50, 50, False, None, True),  # a tombstone that no cleaning saw before
        (50, 50, False, 1001, True),
        (50, 50, False, 1000, False),
        (50, 51, False, 1001, False),
        (50, 50, True, 1000, True),  # the horizon is for tombstones only
    ],
)
def test_record_stays_if_it_is_the_newest_of_its_key_and_a_tombstone_until_its_horizon(
    offset: int, newest: int | None, has_value: bool, horizon_ms: int | None, stays: bool
) -> None:
    assert keeps_record(offset, 100, newest, has_value, horizon_ms, 1000) is stays
