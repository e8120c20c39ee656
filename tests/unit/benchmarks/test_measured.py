"""What a run is said to have cost, and which of its quantities are said at all."""

from __future__ import annotations

import pytest

from benchmarks.clients.lean import Latencies
from benchmarks.measure.guard import NotHeld, VoidRun
from benchmarks.measure.os_usage import CpuTime
from benchmarks.measure.window import Others, Used
from benchmarks.rows.latency import HELD_SLACK_S, require_held
from benchmarks.rows.measured import Filled, per_request, percentiles, throughput

USED = Used(2.0, CpuTime(0.3, 0.7), 90_000_000, Others(2.0, 0.5, 0.1, 4_000_000))


def test_percentiles_without_ten_samples_above_them_are_left_out() -> None:
    of = Latencies(9_999, 100.0, 200.0, 300.0, 4000.0)
    assert percentiles(of, "us") == {"p50_us": 100.0, "p99_us": 200.0, "max_us": 4000.0}
    assert set(percentiles(Latencies(10_000, 1, 1, 1, 1), "ms")) == {"p50_ms", "p99_ms", "p999_ms", "max_ms"}
    assert set(percentiles(Latencies(999, 1, 1, 1, 1), "us")) == {"p50_us", "max_us"}
    assert percentiles(Latencies(0, -1, -1, -1, -1), "us") == {}


def test_percentiles_in_ms_are_a_thousandth() -> None:
    assert percentiles(Latencies(1000, 1500, 2500, 1, 3500), "ms") == {"p50_ms": 1.5, "p99_ms": 2.5, "max_ms": 3.5}


def test_facts_of_a_run_keep_user_and_system_time_and_the_others_apart() -> None:
    assert USED.facts() == {
        "window_s": 2.0,
        "broker_user_s": 0.3,
        "broker_system_s": 0.7,
        "foreign_cores": 0.25,
        "steal_cores": 0.05,
        "reported_mb": 4.0,
    }


def test_facts_where_the_kernel_reports_nothing_lack_it() -> None:
    assert "reported_mb" not in Others(1.0, 0, 0, None).facts()


def test_cost_is_per_gb_of_values_and_per_thousand_requests() -> None:
    assert throughput(1_000_000, 1000, 2.0, USED, 0.5) == {
        "mb_per_s": 500.0,
        "krecords_per_s": 500.0,
        "cpu_s_per_gb": 1.0,
        "client_cores": 0.25,
    }
    assert per_request(USED, 4000) == {"cpu_ms_per_1000_requests": 250.0}
    assert per_request(USED, 0) == {}, "a client that does not count them"


def test_cold_bytes_that_did_not_come_from_the_disk_void_a_run() -> None:
    Filled("t", "cold").check_source(USED, 100_000_000)
    Filled("t", "cached").check_source(USED, 500_000_000)
    with pytest.raises(VoidRun, match="only 90 MB came from the disk, 101 MB were consumed"):
        Filled("t", "cold").check_source(USED, 101_000_000)


def test_load_that_takes_longer_than_it_may_was_not_held() -> None:
    require_held(2.0 + HELD_SLACK_S, 2.0)
    with pytest.raises(NotHeld, match="not held"):
        require_held(2.1 + HELD_SLACK_S, 2.0)
