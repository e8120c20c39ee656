from __future__ import annotations

import pytest

from broker.config.check import problems


def test_sound_settings_have_no_problem() -> None:
    assert problems([{"min.insync.replicas": "2", "log.dirs": "/x"}], {"retention.ms": "-1"}) == []
    assert problems([], {}) == []


@pytest.mark.parametrize(
    ("brokers", "topic", "found"),
    [
        (
            [{}, {"min.insync.replica": "2"}],
            {},
            ("broker", 1, "min.insync.replica", "no setting of a broker", "min.insync.replicas"),
        ),
        ([{"qqq": "2"}], {}, ("broker", 0, "qqq", "no setting of a broker", None)),
        (
            [{"log.segment.bytes": "1k"}],
            {},
            (
                "broker",
                0,
                "log.segment.bytes",
                "Invalid value 1k for configuration log.segment.bytes: Not a number of type INT",
                None,
            ),
        ),
        ([], {"segment.byte": "1"}, ("topic", 0, "segment.byte", "no setting of a topic", "segment.bytes")),
        # A broker's name for it is none of a topic's.
        ([], {"log.segment.bytes": "1"}, ("topic", 0, "log.segment.bytes", "no setting of a topic", "segment.bytes")),
        (
            [],
            {"cleanup.policy": "remove"},
            (
                "topic",
                0,
                "cleanup.policy",
                "Invalid value remove for configuration cleanup.policy: String must be one of: compact, delete",
                None,
            ),
        ),
    ],
)
def test_wrong_setting_is_named(
    brokers: list[dict[str, str]], topic: dict[str, str], found: tuple[str, int, str, str, str | None]
) -> None:
    (one,) = problems(brokers, topic)
    assert (one["scope"], one["index"], one["name"], one["problem"], one["like"]) == found


def test_contradiction_of_sound_settings_is_nobodys_in_particular() -> None:
    (one,) = problems([{"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"}], {})
    assert one["name"] is None
    assert "is above group.max.session.timeout.ms=8" in str(one["problem"])
    (one,) = problems([{"log.cleaner.max.compaction.lag.ms": "5"}], {"min.compaction.lag.ms": "6"})
    assert (one["scope"], one["name"]) == ("topic", None)


def test_every_wrong_setting_is_found() -> None:
    found = problems([{"a": "1"}, {"b": "1"}], {"c": "1"})
    assert [(one["scope"], one["index"], one["name"]) for one in found] == [
        ("broker", 0, "a"),
        ("broker", 1, "b"),
        ("topic", 0, "c"),
    ]
