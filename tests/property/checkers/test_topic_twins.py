"""Checkers of topics that are made anew against plain twins, on small histories, in one Spark pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from checkers.history.faults import faults_of
from checkers.history.load import load_history
from checkers.topics.families import remade_topics
from checkers.verdicts.jobs import collect_families
from tests.support.admin_twins import Ends, ends_of
from tests.support.histories import apart, merged, on_own_nodes, write_history
from tests.support.judging import pyspark_sockets
from tests.support.topic_stories import NODES
from tests.support.topic_twins import (
    deleted_topic_read,
    history_of,
    lost_topic,
    read_in_two_lives,
    sends,
    topic_id_again,
)
from tests.support.twins import Op, operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2", "V4")]

LIVES = 160


STORIES = {f"life{seed}": history_of(Random(seed), f"life{seed}") for seed in range(LIVES)}
on_own_nodes(STORIES, NODES)
OPERATIONS: dict[str, list[Op]] = {topic: operations(story.lines) for topic, story in STORIES.items()}
TWINS: dict[str, Callable[[Sequence[Op], Ends], bool]] = {
    "duplicate": lambda ops, _: read_in_two_lives(ops),
    "deleted-topic-read": lambda ops, _: deleted_topic_read(ops),
    "lost-topic": lost_topic,
    "topic-id-again": topic_id_again,
}
Sent = tuple[str, int, str, str, int | None]
"""(topic, value, life, outcome, offset)"""


class Judged(NamedTuple):
    """What was found of each topic, and what its sends became."""

    found: set[tuple[str, str]]
    sent: set[Sent]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("topics")
    lines = merged({topic: story.lines for topic, story in STORIES.items()})
    faults = faults_of([{"error": None, **line} for line in lines if line["kind"] == "nemesis"])
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "history.jsonl", lines), folder / "parquet")
        assert not health.problems, health.problems
        rows = collect_families(remade_topics(history, faults, over_when_answered=True), witnesses=1000)
        sent: set[Sent] = set()
        for row in history.sends.select("p", "value", "outcome", "offset").collect():
            topic, _, life = row.p.partition("~")
            sent.add((topic, row.value, life.rpartition("-")[0], row.outcome, row.offset))
    return Judged({(str(row.p), row.checker) for row in rows if row.kind == "invalid"}, sent)


@pytest.mark.parametrize("checker", sorted(TWINS))
def test_checker_of_topics_finds_what_its_twin_finds(judged: Judged, checker: str) -> None:
    expected = {topic for topic, story in STORIES.items() if TWINS[checker](OPERATIONS[topic], ends_of(story))}
    assert {topic.partition("~")[0] for topic, name in judged.found if name == checker} == expected
    # An oracle that always says the same would agree with anything.
    assert 3 <= len(expected) <= LIVES / 2


def test_sends_are_of_the_lives_that_they_may_have_gone_to(judged: Judged) -> None:
    expected = {
        (topic, apart([value], nth)[0], life, outcome, offset)
        for nth, topic in enumerate(STORIES)
        for value, life, outcome, offset in sends(OPERATIONS[topic])
    }
    assert judged.sent == expected
    several = len(expected) - len({(topic, value) for topic, value, *_ in expected})
    assert several >= 4
    assert sum(offset is not None for *_, offset in expected) > LIVES
