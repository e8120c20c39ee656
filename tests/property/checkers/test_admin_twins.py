"""Checkers of administration against plain twins that try every order, on small histories, in two Spark passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.admin.families import administration
from checkers.history.faults import faults_of
from checkers.history.load import load_history
from checkers.verdicts.jobs import collect_families
from tests.support.admin_twins import (
    NODES,
    config_not_linearizable,
    ends_of,
    history_of,
    partitions_not_linearizable,
    partitions_went_back,
)
from tests.support.histories import Story, merged, on_own_nodes, write_history
from tests.support.judging import pyspark_sockets
from tests.support.twins import Op, operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2", "V4")]

LIVES = 160


STORIES = {f"life{seed}": history_of(Random(seed), f"life{seed}") for seed in range(LIVES)}
on_own_nodes(STORIES, NODES)
OPERATIONS: dict[str, list[Op]] = {topic: operations(story.lines) for topic, story in STORIES.items()}
TWINS: dict[str, Callable[[Sequence[Op], Story, bool], bool]] = {
    "config-not-linearizable": lambda ops, _story, one_server: config_not_linearizable(ops, one_server),
    "partitions-went-back": lambda ops, story, _: partitions_went_back(ops, ends_of(story)),
    "partitions-not-linearizable": lambda ops, story, _: partitions_not_linearizable(ops, ends_of(story)),
}
JUDGED = (
    ("config-not-linearizable", True),
    ("config-not-linearizable", False),
    ("partitions-went-back", True),
    ("partitions-not-linearizable", True),
)
"""Checkers, and whether ZooKeeper is one server, which is nothing to those of partitions."""


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, set[tuple[str, str]]]:
    """Whether ZooKeeper is one server → (topic, checker) of each that found something."""
    folder = tmp_path_factory.mktemp("administrators")
    lines = merged({topic: story.lines for topic, story in STORIES.items()})
    faults = faults_of([{"error": None, **line} for line in lines if line["kind"] == "nemesis"])
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "history.jsonl", lines), folder / "parquet")
        assert not health.problems, health.problems
        rows = {
            one_server: collect_families(administration(history, faults, one_server=one_server), witnesses=1000)
            for one_server in (True, False)
        }
    return {
        one_server: {(str(row.p), row.checker) for row in mine if row.kind == "invalid"}
        for one_server, mine in rows.items()
    }


@pytest.mark.parametrize(("checker", "one_server"), JUDGED)
def test_checker_of_administration_finds_what_its_twin_finds(
    found: dict[bool, set[tuple[str, str]]], checker: str, one_server: bool
) -> None:
    expected = {topic for topic, story in STORIES.items() if TWINS[checker](OPERATIONS[topic], story, one_server)}
    assert {topic for topic, name in found[one_server] if name == checker} == expected
    # An oracle that always says the same would agree with anything.
    assert 5 <= len(expected) <= LIVES / 2
