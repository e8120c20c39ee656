from __future__ import annotations

from broker.model.repeats import INTERVAL_MS, Repeats


def test_one_an_interval_is_written_and_says_how_many_were_counted() -> None:
    now = [0.0]
    repeats = Repeats(lambda: now[0])
    assert repeats.again("stale") == ""
    assert [repeats.again("stale") for _ in range(500)] == [None] * 500
    assert repeats.again("other") == "", "each kind has its own"
    now[0] = INTERVAL_MS - 1
    assert repeats.again("stale") is None
    now[0] = INTERVAL_MS
    assert repeats.again("stale") == " (501 more like it before)"
    assert repeats.again("stale") is None
    now[0] = 3 * INTERVAL_MS
    assert repeats.again("stale") == " (1 more like it before)"
    now[0] = 5 * INTERVAL_MS
    assert repeats.again("stale") == ""
