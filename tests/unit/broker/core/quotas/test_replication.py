"""The sliding rate."""

from __future__ import annotations

from broker.core.quotas.replication import RateWindow


def test_rate_a_beginning_counts_as_a_whole_window() -> None:
    window = RateWindow(11, 1000)
    window.record(500, 0)
    assert window.bytes_per_s(0) == 500
    assert window.bytes_per_s(500) == 500
    assert window.bytes_per_s(2000) == 250


def test_rate_forgets_what_is_older_than_all_samples() -> None:
    window = RateWindow(2, 1000)
    window.record(1000, 0)
    window.record(100, 1500)
    assert window.bytes_per_s(1999) == 1100 * 1000 / 1999
    assert window.bytes_per_s(2000) == 100
    assert window.bytes_per_s(9000) == 0


def test_rate_a_steady_stream_is_its_own_rate() -> None:
    window = RateWindow(11, 1000)
    for at in range(0, 60_000, 100):
        window.record(50, at)
    assert 480 < window.bytes_per_s(60_000) < 560
