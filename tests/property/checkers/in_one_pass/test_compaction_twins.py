"""Checkers of compaction against their plain twins: cleaners that err and cleaners that do not."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from checkers.verdicts.verdict import CheckResult
from tests.support.compaction_stories import OF_SENTINELS, Compacted
from tests.support.compaction_twins import last_value, old_value
from tests.support.histories import Story
from tests.support.judging import Case, invalid

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

LIVES = 60
TWINS = {"last-value": last_value, "old-value": old_value}
Judged = dict[str, dict[str, CheckResult]]
Lines = list[dict[str, Any]]


def _life(seed: int) -> Lines:
    """Sends and readings of what a cleaner left; of an odd seed one that removes any records now and then."""
    rng = Random(seed)
    topic = Compacted(Story(f"compacted{seed}"))
    for _ in range(rng.randint(2, 3)):
        for _ in range(rng.randint(3, 8)):
            acked = rng.random() < 0.8
            topic.send(
                rng.randint(1, 3),
                tombstone=rng.random() < 0.3,
                acked=acked,
                written=acked or rng.random() < 0.5,
            )
        topic.send(OF_SENTINELS)
        left = topic.cleaned(lambda _one: rng.random() < 0.6)
        older = {one.offset for one in left if any(other.offset < one.offset for other in left if other.key == one.key)}
        # A tombstone goes once nothing older of its key is left.
        left = [one for one in left if not one.tombstone or one.offset in older or rng.random() < 0.5]
        if seed % 2:
            left = [one for one in left if one.key == OF_SENTINELS or rng.random() < 0.85]
        topic.read(left, complete=rng.random() < 0.9)
    return topic.story.lines


HISTORIES = {f"compacted{seed}": _life(seed) for seed in range(LIVES)}
CASES = {topic: Case(lines) for topic, lines in HISTORIES.items()}


@pytest.fixture(scope="module")
def found(judged: Judged) -> dict[str, dict[str, int]]:
    """Topic → checker → how many anomalies."""
    for topic in HISTORIES:
        # What a cleaner takes, rightly or not, is found by nobody else.
        assert invalid(judged[topic]) <= TWINS.keys(), (topic, invalid(judged[topic]))
    return {topic: {name: judged[topic][name].counts["found"] for name in TWINS} for topic in HISTORIES}


@pytest.mark.parametrize("topic", HISTORIES)
def test_reading_of_a_compacted_log_is_judged_as_by_the_twins(found: dict[str, dict[str, int]], topic: str) -> None:
    assert found[topic] == {name: len(twin(HISTORIES[topic])) for name, twin in TWINS.items()}


@pytest.mark.parametrize("topic", [f"compacted{seed}" for seed in range(0, LIVES, 2)])
def test_cleaner_that_keeps_the_rules_is_found_nothing_of(found: dict[str, dict[str, int]], topic: str) -> None:
    assert found[topic] == dict.fromkeys(TWINS, 0)


@pytest.mark.parametrize("name", TWINS)
def test_damage_shows_each_anomaly_somewhere(name: str) -> None:
    assert any(TWINS[name](lines) for lines in HISTORIES.values())
