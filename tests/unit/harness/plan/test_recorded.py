"""What a run.json says of its plan."""

from __future__ import annotations

from typing import Any

import pytest

from harness.plan.recorded import is_compacted


@pytest.mark.parametrize(
    ("run", "compacted"),
    [
        ({}, False),
        ({"topic": {"config": {"cleanup.policy": "compact"}}}, True),
        ({"topic": {"config": {"cleanup.policy": "compact,delete"}}}, True),
        ({"topic": {"config": {"cleanup.policy": "delete"}}}, False),
        ({"topic": {"config": None}, "system": {"settings": {"log.cleanup.policy": "compact"}}}, True),
        ({"system": {"settings": {}, "broker": {"2": {"log.cleanup.policy": "compact"}}}}, True),
        (
            {
                "topic": {"config": {"cleanup.policy": "delete"}},
                "system": {"settings": {"log.cleanup.policy": "compact"}},
            },
            False,
        ),
        ({"topic": [], "system": "imported"}, False),
    ],
)
def test_compacted_by_the_topic_or_where_it_says_nothing_by_a_broker(run: dict[str, Any], compacted: bool) -> None:
    assert is_compacted(run) is compacted
