"""What an unclean election took back hides nothing of the same kind that came about since.

In each story something high was lost by the election, something lower was told after it, and what is judged lies below
both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from checkers.allowances.allowances import excuse_unclean
from checkers.black_box.deletions import deletion_checks
from checkers.black_box.facts import build_facts
from checkers.evidence.unclean_elections import Unclean, UncleanElection
from checkers.groups.families import of_groups
from checkers.history.load import load_history
from checkers.history.schema import LEADER_CHANGE, OFFSETS_TOPIC
from checkers.transactions.inputs import input_checks
from tests.support.group_stories import Group
from tests.support.histories import TICK_NS, Story, merged, write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("R9")]

EPOCH = 3
ELECTION = UncleanElection(EPOCH, 500 * TICK_NS, 550 * TICK_NS)
"""Told before tick 500 is what it may have taken; told after 550 is what it cannot have."""


def _later(story: Story) -> None:
    story.now = 600


def _generation(story: Story, since: int) -> None:
    group = Group(story)
    group.enters("a", 9)
    _later(story)
    group.enters("b", since)
    group.join("c", 4)


def _fenced(story: Story, since: int) -> None:
    group = Group(story)
    group.enters("a", 9)
    _later(story)
    group.enters("b", since)
    group.commit("a", 4, 1)


def _owners(story: Story, since: int) -> None:
    """The generation's number is given out again; then two members own the partition in it."""
    group = Group(story)
    group.enters("a", 4)
    _later(story)
    group.enters("b", 4)
    if since > 4:
        group.enters("c", 4)


def _owners_before(story: Story, since: int) -> None:
    """Two owned it before."""
    group = Group(story)
    group.enters("a", 4)
    if since > 4:
        group.enters("b", 4)
    _later(story)
    group.enters("c", 4)


def _shares(story: Story, since: int) -> None:
    """In the generation whose number is given out again a member is given one share, and another."""
    group = Group(story)
    group.enters("a", 4, (0, 1))
    _later(story)
    group.enters("a", 4)
    if since > 4:
        group.sync("a", 4, (0, 2))


def _return(story: Story, since: int) -> None:
    """An instance comes back within its session, and is answered with a later generation than it had last."""
    group = Group(story)
    group.enters("i-1", 9 if since > 4 else 3, instance="i")
    _later(story)
    if since > 4:
        group.enters("i-1", 3, instance="i", again=True)
    group.join("i-2", 4, instance="i")


def _committed(story: Story, txn: int, offset: int) -> None:
    of_it: dict[str, Any] = {"txn": txn, "transactional_id": "t", "process": 1}
    offsets = [{"p": f"{story.topic}-0", "offset": offset}]
    story.coordinate("txn_offsets", group="g", offsets=offsets, **of_it)
    story.coordinate("end_txn", commit=True, **of_it)


def _forgotten(story: Story, since: int) -> None:
    _committed(story, 1, 9)
    _committed(story, 2, 4)
    _later(story)
    _committed(story, 3, since)
    p = f"{story.topic}-0"
    answer = {"offsets": [{"p": p, "offset": 4}]}
    story.coordinate("fetch_offsets", group="g", partitions=[p], answer=answer, process=2)


def _shown(story: Story, since: int) -> None:
    story.delete(9)
    _later(story)
    story.delete(since)
    story.list_offsets(4, timestamp=-2, epoch=4)


def _start(story: Story, since: int) -> None:
    story.list_offsets(9, timestamp=-2, epoch=0)
    _later(story)
    story.list_offsets(since, timestamp=-2, epoch=EPOCH)
    story.list_offsets(4, timestamp=-2, epoch=4)


STORIES: Mapping[str, tuple[str, str, Callable[[Story, int], None]]] = {
    "generations": ("generation", "", _generation),
    "fences": ("fenced-commit", "", _fenced),
    "owners": ("overlapping-owners", "given", _owners),
    "ownersbefore": ("overlapping-owners", "given", _owners_before),
    "shares": ("static-member", "share", _shares),
    "returns": ("static-member", "return", _return),
    "commits": ("transaction-offsets", "back", _forgotten),
    "deletions": ("deleted-records", "shown", _shown),
    "starts": ("deleted-records", "forgot", _start),
}
SINCE = {"hidden": 5, "lost": 4}
"""What was told since the election: above what is judged, or just that."""


@pytest.fixture(scope="module")
def kinds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """Topic → kinds of what its story's rule finds."""
    folder = tmp_path_factory.mktemp("hidden")
    stories = {f"{name}-{how}": Story(f"{name}-{how}") for name in STORIES for how in SINCE}
    for name, (_, _, tell) in STORIES.items():
        for how, since in SINCE.items():
            tell(stories[f"{name}-{how}"], since)
    unclean: Unclean = {p: [ELECTION] for p in (f"{OFFSETS_TOPIC}-3", *(f"{topic}-0" for topic in stories))}
    lines = merged({topic: story.lines for topic, story in stories.items()})
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "h.jsonl", lines), folder / "parquet")
        assert not health.problems
        facts = build_facts(history, spark.createDataFrame([], LEADER_CHANGE), expiry=None, unclean=unclean)
        families = [family for build in of_groups(history).values() for family in build()]
        families += [deletion_checks(facts), input_checks(facts)]
        frames = [family.findings for family in families if family.findings is not None]
        rows = excuse_unclean(unclean)(reduce(DataFrame.unionByName, frames)).collect()
    return {
        topic: {
            row.kind
            for row in rows
            if (row.checker, row.rule or "") == STORIES[topic.partition("-")[0]][:2] and row.p == f"{topic}-0"
        }
        for topic in stories
    }


@pytest.mark.parametrize("name", STORIES)
def test_what_was_lost_by_an_election_hides_nothing_that_was_not(kinds: Mapping[str, set[str]], name: str) -> None:
    assert "invalid" in kinds[f"{name}-hidden"]
    assert kinds[f"{name}-lost"] == {"allowed"}
