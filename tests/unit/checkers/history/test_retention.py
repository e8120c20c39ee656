"""Retention excuses a loss only where it could have fired, and what it could have taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.history.load import span_of
from checkers.history.retention import (
    DEFAULT_MS,
    SLACK_NS,
    START_WRITTEN_NS,
    TOMBSTONES_MS,
    Expiry,
    Retention,
    is_compacted,
    keeps_all,
    retention_of,
    start_written_ns,
    tombstones_kept_ms,
)

HOUR_MS = 3_600_000
RUN: dict[str, Any] = {"run_ms": 60_000.0, "ahead_ms": 0.0, "behind_ms": 0.0, "record_bytes": 200}


@pytest.mark.parametrize(
    ("brokers", "topic", "expected"),
    [
        ([], {}, Retention(DEFAULT_MS, None)),
        ([{"log.retention.hours": "168"}], {}, Retention(168 * HOUR_MS, None)),
        ([{"log.retention.hours": 1, "log.retention.minutes": 5}], {}, Retention(300_000, None)),
        ([{"log.retention.minutes": 5, "log.retention.ms": 7}], {}, Retention(7, None)),
        ([{"log.retention.ms": 7}], {"retention.ms": "-1"}, Retention(None, None)),
        ([{"log.retention.ms": -1}, {"log.retention.ms": 9}], {}, Retention(9, None)),
        ([{"log.retention.bytes": 100}], {"retention.bytes": 50}, Retention(DEFAULT_MS, 50)),
        ([{"log.retention.ms": 7}], {"cleanup.policy": "compact"}, Retention(None, None)),
        ([{"log.cleanup.policy": "compact", "log.retention.ms": 7}], {}, Retention(None, None)),
        ([{"log.cleanup.policy": "compact"}], {"cleanup.policy": "delete"}, Retention()),
        ([{}, {"log.message.timestamp.type": "LogAppendTime"}], {}, Retention(DEFAULT_MS, None, True)),
        ([{"log.message.timestamp.type": "LogAppendTime"}], {"message.timestamp.type": "CreateTime"}, Retention()),
    ],
)
def test_retention_takes_the_topic_s_else_the_finest_unit_of_any_broker(
    brokers: list[dict[str, Any]], topic: dict[str, Any], expected: Retention
) -> None:
    assert retention_of(brokers, topic) == expected


def test_retention_longer_than_the_run_can_have_deleted_nothing() -> None:
    assert Retention(168 * HOUR_MS).expiry(**RUN) is None
    assert Retention(59_000).expiry(**RUN) == Expiry(59_000_000_000 - SLACK_NS, None, 200)


def test_retention_by_age_counts_from_how_far_a_clock_was_ahead() -> None:
    assert Retention(HOUR_MS).expiry(**{**RUN, "ahead_ms": HOUR_MS - 30_000.0}) == Expiry(
        30_000_000_000 - SLACK_NS, None, 200
    )
    assert Retention(HOUR_MS).expiry(**{**RUN, "ahead_ms": 2.0 * HOUR_MS}) == Expiry(0, None, 200)


def test_retention_by_age_counts_clocks_that_were_behind_where_they_stamp_records() -> None:
    behind = {**RUN, "behind_ms": float(HOUR_MS)}
    assert Retention(HOUR_MS).expiry(**behind) is None
    assert Retention(HOUR_MS, append_time=True).expiry(**behind) == Expiry(0, None, 200)


def test_retention_by_size_alone_takes_nothing_for_its_age() -> None:
    assert Retention(None, 1_000).expiry(**RUN) == Expiry(None, 1_000, 200)
    assert Retention(168 * HOUR_MS, 1_000).expiry(**RUN) == Expiry(None, 1_000, 200)
    assert Retention(59_000, 1_000).expiry(**RUN) == Expiry(59_000_000_000 - SLACK_NS, 1_000, 200)


def test_retention_that_is_off_can_have_deleted_nothing() -> None:
    assert Retention(None, None).expiry(**RUN) is None


@pytest.mark.parametrize(
    ("params", "ahead_s", "behind_s"),
    [
        ({"offset_s": 7.0}, 7.0, 0.0),
        ({"offset_s": -7.0}, 0.0, 7.0),
        ({"delta_s": -3.0, "period_s": 1.0}, 3.0, 3.0),
        ({"rate": 3.0}, 20.0, 0.0),
        ({"rate": 0.5}, 0.0, 5.0),
        ({}, 0.0, 0.0),
    ],
)
def test_clock_fault_sets_a_clock_ahead_or_behind(
    tmp_path: Path, params: dict[str, float], ahead_s: float, behind_s: float
) -> None:
    fault = {"kind": "nemesis", "fault": "clock-step", "time_ns": 1, "params_json": json.dumps(params)}
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(fault) + "\n" + json.dumps({"kind": "harness", "time_ns": 10_000_000_000}) + "\n")
    assert span_of(path, clocks=True) == (10_000_000_000, ahead_s, behind_s)
    assert span_of(path, clocks=False) == (10_000_000_000, 0.0, 0.0)


@pytest.mark.parametrize(
    ("said", "ahead_s"),
    [
        ({"fault": "time-travel", "effects": ["skews-clock"]}, 7.0),
        ({"fault": "clock-step", "effects": []}, 0.0),
        # What an older history does not say may be anything that accounts for what is missing.
        ({"fault": "kill"}, 7.0),
    ],
)
def test_clock_fault_is_known_by_its_effect(tmp_path: Path, said: dict[str, object], ahead_s: float) -> None:
    path = tmp_path / "history.jsonl"
    line = {"kind": "nemesis", "time_ns": 5, "params_json": json.dumps({"offset_s": 7.0}), **said}
    path.write_text(json.dumps(line) + "\n")
    assert span_of(path, clocks=True) == (5, ahead_s, 0.0)


@pytest.mark.parametrize(
    ("brokers", "topic", "expected_ms"),
    [
        ([], {}, TOMBSTONES_MS),
        ([{}, {"log.cleaner.delete.retention.ms": "5000"}], {}, 5000),
        ([{"log.cleaner.delete.retention.ms": "5000"}], {"delete.retention.ms": 20_000}, 20_000),
    ],
)
def test_tombstones_stay_as_long_as_the_topic_says_or_else_the_brokers(
    brokers: list[dict[str, object]], topic: dict[str, object], expected_ms: int
) -> None:
    assert tombstones_kept_ms(brokers, topic) == expected_ms


@pytest.mark.parametrize(
    ("brokers", "topic", "expected"),
    [
        ([], {}, False),
        ([{"log.cleanup.policy": "delete"}], {"cleanup.policy": "compact,delete"}, True),
        ([{}, {"log.cleanup.policy": "compact,delete"}], {}, True),
        ([{"log.cleanup.policy": "compact"}], {"cleanup.policy": "delete"}, False),
    ],
)
def test_topic_is_compacted_by_its_own_policy_or_else_by_any_broker_s(
    brokers: list[dict[str, object]], topic: dict[str, object], expected: bool
) -> None:
    assert is_compacted(brokers, topic) is expected


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ([{"min.insync.replicas": 2}], True),
        ([{}, {"log.retention.bytes": 100}], False),
        ([{"log.retention.minutes": 5}], False),
        ([{"log.cleanup.policy": "compact"}], False),
    ],
)
def test_topic_without_settings_keeps_all_where_no_broker_says_when_records_go(
    brokers: list[dict[str, object]], expected: bool
) -> None:
    assert keeps_all(brokers) is expected


def test_request_can_have_deleted_what_retention_cannot() -> None:
    assert Retention(None, None).expiry(**RUN, requested=True) == Expiry(None, None, 200, requested=True)
    assert Retention(59_000).expiry(**RUN, requested=True) == Expiry(59_000_000_000 - SLACK_NS, None, 200, True)


@pytest.mark.parametrize(
    ("system", "brokers", "beside_ms"),
    [
        ("highwater", [{"log.flush.start.offset.checkpoint.interval.ms": "90000"}], 0),
        ("kafka", [], 60_000),
        ("kafka", [{"log.flush.start.offset.checkpoint.interval.ms": "1000"}], 1000),
        ("kafka", [{"log.flush.start.offset.checkpoint.interval.ms": "1000"}, {}], 60_000),
        ("of-another-package", [{}], 60_000),
    ],
)
def test_log_start_is_written_down_at_the_longest_interval_of_any_broker(
    system: str, brokers: list[dict[str, object]], beside_ms: int
) -> None:
    assert start_written_ns(system, brokers) == START_WRITTEN_NS + beside_ms * 1_000_000
