"""Waits by offset and by partition."""

from __future__ import annotations

import pytest

from broker.core.replication.purgatory import OffsetWaiters, Watchers

pytestmark = pytest.mark.guarantee("long-polls")


def test_reached_offsets_come_out_in_order() -> None:
    waiters: OffsetWaiters[str] = OffsetWaiters()
    for offset, name in ((5, "b"), (3, "a"), (5, "c"), (9, "d")):
        waiters.add(offset, name)
    assert waiters.reach(2) == []
    assert waiters.reach(5) == ["a", "b", "c"]
    assert waiters.take_all() == ["d"]
    assert len(waiters) == 0


def test_watchers_of_one_key_leave_no_trace() -> None:
    watchers: Watchers[object] = Watchers()
    one, two = object(), object()
    watchers.watch("p", one)
    watchers.watch("p", two)
    watchers.watch("q", one)
    assert watchers.of("p") == [one, two]
    for key in ("p", "q"):
        watchers.unwatch(key, one)
    watchers.unwatch("p", two)
    watchers.unwatch("p", two)
    assert watchers.of("p") == []
    assert watchers.keys_watched() == 0


def test_watcher_for_two_reasons_watches_until_both_are_gone() -> None:
    watchers: Watchers[object] = Watchers()
    one = object()
    for _ in range(3):
        watchers.watch("p", one)
    for _ in range(2):
        watchers.unwatch("p", one)
        assert watchers.of("p") == [one]
    watchers.unwatch("p", one)
    assert watchers.of("p") == []
    assert watchers.keys_watched() == 0
