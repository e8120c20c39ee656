"""Leader epochs of a log. Source: LeaderEpochFileCache, KIP-101, KIP-279."""

from __future__ import annotations

import pytest

from broker.log.epochs.cache import UNDEFINED, EpochCache

pytestmark = pytest.mark.guarantee("diverging-epochs")


def test_end_offset_latest_epoch_is_leo() -> None:
    assert EpochCache([(2, 0), (4, 10)]).end_offset_for(4, 17) == (4, 17)


def test_end_offset_past_epoch_is_start_of_next() -> None:
    assert EpochCache([(2, 0), (4, 10)]).end_offset_for(2, 17) == (2, 10)


def test_end_offset_epoch_between_known_ones_returns_the_smaller() -> None:
    assert EpochCache([(2, 0), (4, 10)]).end_offset_for(3, 17) == (2, 10)


def test_end_offset_epoch_above_all_is_undefined() -> None:
    assert EpochCache([(2, 0)]).end_offset_for(3, 17) == UNDEFINED


def test_end_offset_epoch_below_all_is_where_the_log_begins() -> None:
    assert EpochCache([(2, 5), (4, 10)]).end_offset_for(1, 17) == (1, 5)


@pytest.mark.parametrize("entries", [[], [(2, 0)]])
def test_end_offset_of_no_epoch_is_undefined(entries: list[tuple[int, int]]) -> None:
    assert EpochCache(entries).end_offset_for(-1, 17) == UNDEFINED


def test_end_offset_empty_cache_is_undefined() -> None:
    assert EpochCache().end_offset_for(0, 17) == UNDEFINED


def test_assign_same_epoch_again_keeps_first_start() -> None:
    cache = EpochCache([(3, 5)])
    assert not cache.assign(3, 9)
    assert cache.entries == [(3, 5)]


def test_assign_same_epoch_earlier_moves_start_back() -> None:
    cache = EpochCache([(3, 5)])
    assert cache.assign(3, 2)
    assert cache.entries == [(3, 2)]


def test_assign_at_start_of_latest_replaces_it() -> None:
    cache = EpochCache([(1, 0), (3, 5)])
    cache.assign(4, 5)
    assert cache.entries == [(1, 0), (4, 5)]


def test_assign_lower_epoch_removes_those_it_contradicts() -> None:
    cache = EpochCache([(1, 0), (3, 5), (6, 9)])
    cache.assign(2, 12)
    assert cache.entries == [(1, 0), (2, 12)]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_assign_negative_is_refused(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        EpochCache().assign(*entry)


def test_truncate_from_end_at_a_start_drops_that_epoch() -> None:
    cache = EpochCache([(1, 0), (3, 5), (6, 9)])
    cache.truncate_from_end(5)
    assert cache.entries == [(1, 0)]


def test_truncate_from_start_inside_an_epoch_moves_its_start() -> None:
    cache = EpochCache([(1, 0), (3, 5), (6, 9)])
    cache.truncate_from_start(7)
    assert cache.entries == [(3, 7), (6, 9)]


def test_truncate_from_start_at_a_start_keeps_it() -> None:
    cache = EpochCache([(1, 0), (3, 5), (6, 9)])
    cache.truncate_from_start(9)
    assert cache.entries == [(6, 9)]


def test_truncate_that_changes_nothing_leaves_cache_unchanged() -> None:
    cache = EpochCache([(1, 0), (3, 5)])
    cache.truncate_from_start(0)
    cache.truncate_from_end(6)
    assert not cache.changed


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 1), (8, 1), (9, 3), (100, 3)])
def test_epoch_at_offset(offset: int, epoch: int) -> None:
    assert EpochCache([(1, 5), (3, 9)]).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "offset", "contradicted"),
    [(1, 8, False), (2, 8, True), (0, 8, True), (3, 9, False), (1, 9, True), (7, 4, False), (-1, 9, False)],
)
def test_batch_contradicts_entries_that_give_its_offset_another_epoch(
    epoch: int, offset: int, contradicted: bool
) -> None:
    assert EpochCache([(1, 5), (3, 9)]).contradicts(epoch, offset) is contradicted


def test_nothing_contradicts_an_empty_cache() -> None:
    assert not EpochCache().contradicts(3, 9)
