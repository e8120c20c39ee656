"""Last stable offsets above what is open: who tells them, of which records, and what an unclean election excuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from checkers.allowances.allowances import OPEN, excuse_unclean
from checkers.black_box.facts import build_facts
from checkers.evidence.unclean_elections import UncleanElection
from checkers.history.load import load_history
from checkers.history.schema import LEADER_CHANGE
from checkers.transactions.stable import stable_checks
from tests.support.histories import Story, merged, write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2", "R9")]

SENT, ASKED = 10, 100
"""Ticks: when records 0 and 1 of the transaction are acknowledged, and when its commit, or abort, is asked for."""
Tell = Callable[[Story], object]


def _told(s: Story, offset: int, invoked: int = 50, **how: Any) -> None:
    """By ListOffsets under read_committed."""
    s.list_offsets(offset, isolation=1, process=5, invoked=invoked, completed=how.pop("completed", invoked + 1), **how)


RIGHT: dict[str, Tell] = {
    "at-its-offset": lambda s: _told(s, 0),
    "asked-before-it-was-there": lambda s: _told(s, 2, invoked=SENT),
    "answered-once-it-was-asked": lambda s: _told(s, 3, completed=ASKED),
    "end-for-all-readers": lambda s: s.list_offsets(2, process=5, invoked=50, completed=51),
}
WRONG: dict[str, Tell] = {
    "by-list-offsets": lambda s: _told(s, 1),
    "by-another-leader": lambda s: _told(s, 2, epoch=1, node="n2"),
    "by-a-poll": lambda s: s.poll(0, [(0, 1), (1, 2)], lso=2, process=5, invoked=50, completed=51),
    "to-who-passes-over-it": lambda s: s.poll(0, next_position=2, isolation=1, process=5, invoked=50, completed=51),
}
PARTED: dict[str, Tell] = {"by-who-was-elected-unclean": lambda s: _told(s, 2, epoch=3, node="n2")}


def _story(tell: Tell, *, commit: bool = True) -> list[dict[str, Any]]:
    story = Story()
    of_it: dict[str, Any] = {"txn": 1, "transactional_id": "t", "producer_id": 9, "producer_epoch": 0, "process": 1}
    story.send([1, 2], 0, sequence=0, invoked=SENT - 1, completed=SENT, **of_it)
    tell(story)
    story.poll(0, [(0, 1), (1, 2)], lso=0, process=3, invoked=60, completed=61)
    end = story.invoke("end_txn", at=ASKED, commit=commit, **of_it)
    story.lines[end] |= {"topic": None, "partition": None}
    story.complete(end, at=ASKED + 1)
    return story.lines


CASES = {name: _story(tell) for name, tell in {**RIGHT, **WRONG, **PARTED}.items()} | {
    "aborted": _story(WRONG["by-list-offsets"], commit=False)
}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Case → kinds of what is found of records that are open."""
    folder = tmp_path_factory.mktemp("open")
    # The records were written in epoch 0; what came between that and the answer of epoch 1 is no unclean election.
    unclean = {f"{case}-0": [UncleanElection(3, 40_000_000, None)] for case in CASES}
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "h.jsonl", merged(CASES)), folder / "parquet")
        assert not health.problems
        facts = build_facts(history, spark.createDataFrame([], LEADER_CHANGE), expiry=None, unclean=unclean)
        rows = stable_checks(facts).findings
        assert rows is not None
        judged = excuse_unclean(unclean)(rows).where(F.col("rule") == OPEN).collect()
    return {case: {row.kind for row in judged if row.p == f"{case}-0"} for case in CASES}


@pytest.mark.parametrize("case", WRONG)
def test_stable_offset_above_a_record_whose_commit_nobody_asked_for_is_found(
    found: dict[str, set[str]], case: str
) -> None:
    assert found[case] == {"invalid"}


@pytest.mark.parametrize("case", [*RIGHT, "aborted"])
def test_stable_offset_of_what_may_be_decided_or_may_not_be_there_yet_is_legal(
    found: dict[str, set[str]], case: str
) -> None:
    assert found[case] == set()


@pytest.mark.parametrize("case", PARTED)
def test_stable_offset_above_a_record_that_an_unclean_election_took_is_allowed(
    found: dict[str, set[str]], case: str
) -> None:
    assert found[case] == {"allowed"}
