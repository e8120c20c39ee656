"""A topic's log settings: topic override, then broker default, then Kafka's."""

from __future__ import annotations

import pytest

from broker.log.config import LogConfig


def test_config_without_anything_is_kafkas() -> None:
    config = LogConfig.parse({}, {})
    assert (config.segment_bytes, config.index_interval_bytes) == (1073741824, 4096)
    assert (config.segment_ms, config.retention_ms, config.retention_bytes) == (604800000, 604800000, -1)
    assert config.deletes
    assert not config.compacts


def test_config_topic_override_beats_broker_default() -> None:
    config = LogConfig.parse({"segment.bytes": "100"}, {"segment.bytes": "200", "flush.messages": "1"})
    assert (config.segment_bytes, config.flush_messages) == (100, 1)


def test_config_settings_of_other_parts_are_ignored() -> None:
    assert LogConfig.parse({"min.insync.replicas": "2"}, {}) == LogConfig.parse({}, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "1k"),
        ("segment.bytes", "13"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "shred"),
        ("message.timestamp.type", "Now"),
    ],
)
def test_config_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        LogConfig.parse({name: value}, {})
