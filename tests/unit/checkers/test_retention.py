"""Retention excuses a loss only where it could have fired."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.retention import DEFAULT_MS, Retention, retention_of

HOUR_MS = 3_600_000
RUN: dict[str, Any] = {"run_ms": 60_000.0, "ahead_ms": 0.0, "log_bytes": 1_000_000}


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
    ],
)
def test_retention_takes_the_topic_s_else_the_finest_unit_of_any_broker(
    brokers: list[dict[str, Any]], topic: dict[str, Any], expected: Retention
) -> None:
    assert retention_of(brokers, topic) == expected


def test_retention_longer_than_the_run_cannot_fire() -> None:
    assert not Retention(168 * HOUR_MS).can_fire(**RUN)
    assert Retention(59_000).can_fire(**RUN)


def test_retention_by_age_can_fire_where_a_clock_was_set_ahead() -> None:
    assert Retention(HOUR_MS).can_fire(**{**RUN, "ahead_ms": HOUR_MS})


def test_retention_by_size_cannot_fire_on_a_smaller_log() -> None:
    assert not Retention(None, 1_000_001).can_fire(**RUN)
    assert Retention(None, 1_000_000).can_fire(**RUN)


def test_retention_that_is_off_cannot_fire() -> None:
    assert not Retention(None, None).can_fire(**RUN)
