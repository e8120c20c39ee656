from __future__ import annotations

import pytest

from broker.tools.client.errors import ToolError
from broker.tools.client.fetcher import fetch_settings, in_turn
from broker.tools.client.properties import Properties
from broker.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from broker.wire.list_offsets_timestamps import EARLIEST, LATEST

ALL = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_every_partition_comes_first_in_some_turn_and_topics_stay_together() -> None:
    first = set()
    for turn in range(12):
        order = in_turn(ALL, turn)
        assert sorted(order) == ALL
        topics = [topic for topic, _ in order]
        assert topics in (["a"] * 3 + ["b"] * 2, ["b"] * 2 + ["a"] * 3)
        first.add(order[0])
    assert first == set(ALL)
    assert in_turn([], 3) == []


def test_settings_of_a_fetch_have_kafkas_defaults() -> None:
    settings = fetch_settings(Properties({}))
    assert settings == (READ_UNCOMMITTED, LATEST, 0.5, 1, 52_428_800, 1_048_576, True, 30.0, 0.1)
    chosen = Properties({"auto.offset.reset": "earliest", "isolation.level": "read_committed", "check.crcs": "false"})
    assert fetch_settings(chosen)[:2] == (READ_COMMITTED, EARLIEST)
    assert not fetch_settings(chosen).check_crcs
    assert fetch_settings(Properties({"auto.offset.reset": "none"})).reset is None


@pytest.mark.parametrize("setting", ["auto.offset.reset=first", "isolation.level=committed", "fetch.max.bytes=0"])
def test_wrong_settings_are_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ToolError, match=setting):
        fetch_settings(Properties({name: value}))
