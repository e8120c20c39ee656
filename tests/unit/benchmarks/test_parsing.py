"""What clients and the operating system print, as values."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.clients.java_tools import parse_consumed, parse_processed, parse_produced
from benchmarks.clients.lean import Attempt, Lean, parse_attempts, parse_result
from benchmarks.measure.os_usage import CpuTime, parse_kib, total
from benchmarks.process import BenchmarkFailed
from benchmarks.rows.failover import longest_gap_s, why_lost

_LEAN = (
    '{"records": 1000, "failed_records": 0, "first_error": 0, "requests": 10, "bytes": 110000, '
    '"first_send_ns": 1000000000, "last_ack_ns": 3500000000, "cpu_s": 0.125, '
    '"latency_us": {"count": 9, "p50": 210.5, "p99": 300.0, "p999": 400.0, "max": 400.0}}\n'
)


def test_lean_result_has_seconds_and_latencies() -> None:
    result = parse_result(_LEAN)
    assert (result.records, result.requests, result.seconds, result.cpu_s) == (1000, 10, 2.5, 0.125)
    assert (result.latency_us.p50, result.latency_us.p999) == (210.5, 400.0)


@pytest.mark.parametrize("output", ["", "{}", _LEAN.replace('"records": 1000', '"records": "many"'), "[]"])
def test_lean_result_that_is_none_is_quoted(output: str) -> None:
    with pytest.raises(BenchmarkFailed, match="cannot be read"):
        parse_result(output)


def test_lean_command_spells_options_as_the_program_does() -> None:
    command = Lean(Path("lean"), "h:1").command("produce", "t", acks=-1, record_bytes=100)
    assert command == ["lean", "produce", "--bootstrap", "h:1", "--topic", "t", "--acks", "-1", "--record-bytes", "100"]


def test_attempts_leave_a_torn_last_line_out() -> None:
    assert parse_attempts("10 20 5 1\n20 30 6 -\n30 4") == [Attempt(10, 20, 1, 5), Attempt(20, 30, None)]


def test_longest_gap_starts_at_the_signal_and_ignores_failures() -> None:
    s = 1_000_000_000
    attempts = [Attempt(0, s, 1), Attempt(s, 2 * s, 1), Attempt(2 * s, 3 * s, None), Attempt(3 * s, 6 * s, 2)]
    assert longest_gap_s(attempts, int(2.5 * s)) == 3.5


def test_longest_gap_without_later_success_is_zero() -> None:
    assert longest_gap_s([Attempt(0, 1, 1)], 5) == 0


def test_longest_gap_that_lasts_to_the_end_counts_as_far_as_was_looked() -> None:
    s = 1_000_000_000
    assert longest_gap_s([Attempt(0, s, 1), Attempt(2 * s, 3 * s, None)], 2 * s, 42 * s) == 40
    assert longest_gap_s([Attempt(0, s, 1), Attempt(2 * s, 5 * s, 1)], 2 * s, 5 * s) == 3


def test_acknowledged_offsets_within_the_log_and_different_are_not_lost() -> None:
    assert why_lost([Attempt(0, 1, 1, 0), Attempt(1, 2, None), Attempt(2, 3, 1, 4)], 5) is None


@pytest.mark.parametrize(("offset", "reason"), [(5, "the log ends at 5"), (0, "acknowledged twice")])
def test_acknowledged_offset_beyond_the_log_or_given_again_is_lost(offset: int, reason: str) -> None:
    why = why_lost([Attempt(0, 1, 1, 0), Attempt(2, 3, 1, offset)], 5)
    assert why is not None
    assert reason in why


def test_console_consumer_prints_what_it_processed_last() -> None:
    assert parse_processed("WARN x\nProcessed a total of 1 messages\nProcessed a total of 781250 messages\n") == 781250


def test_console_consumer_without_a_count_is_an_error() -> None:
    with pytest.raises(BenchmarkFailed, match="does not say how many"):
        parse_processed("org.apache.kafka.common.errors.TimeoutException\n")


def test_producer_tool_summary_is_its_last_line() -> None:
    output = (
        "24997 records sent, 4999.4 records/sec (4.88 MB/sec), 1.1 ms avg latency, 212.0 ms max latency.\n"
        "50000 records sent, 4998.5 records/sec (4.88 MB/sec), 0.9 ms avg latency, 212.00 ms max latency, "
        "1 ms 50th, 2 ms 95th, 13 ms 99th, 46 ms 99.9th.\n"
    )
    records, seconds = parse_produced(output)
    assert records == 50000
    assert seconds == pytest.approx(10.003, abs=1e-3)


def test_producer_tool_without_summary_is_an_error() -> None:
    with pytest.raises(BenchmarkFailed, match="no summary"):
        parse_produced("org.apache.kafka.common.errors.TimeoutException\n")


def test_consumer_tool_time_leaves_joining_out() -> None:
    output = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
        "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
        "2026-01-01 00:00:00:000, 2026-01-01 00:00:04:000, 97.6, 24.4, 100000, 25000.0, 3500, 500, 195.3, 200000.0\n"
    )
    assert parse_consumed(output) == (100000, 0.5)


def test_cpu_times_add_and_subtract_user_and_system_apart() -> None:
    summed = total([CpuTime(1.0, 0.5), CpuTime(2.0, 0.25)])
    assert summed == CpuTime(3.0, 0.75)
    assert summed.since(CpuTime(1.0, 0.5)) == CpuTime(2.0, 0.25)
    assert summed.total_s == 3.75


def test_kib_line_is_bytes() -> None:
    assert parse_kib("VmPeak:\t 9 kB\nVmRSS:\t  2048 kB\n", "VmRSS") == 2 << 20


def test_kib_line_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="VmRSS"):
        parse_kib("VmPeak: 9 kB\n", "VmRSS")
