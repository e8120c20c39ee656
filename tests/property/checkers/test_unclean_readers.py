"""What an unclean election of a partition costs whoever reads and processes it: positions beyond the new end, inputs
and outputs that are gone, markers that nobody writes once more. The same without one, or before it, stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from checkers.allowances.allowances import UNDECIDED, excuse_unclean
from checkers.black_box.facts import build_facts
from checkers.black_box.polls import poll_checks
from checkers.compaction.keys import key_checks
from checkers.evidence.unclean_elections import Unclean, UncleanElection
from checkers.history.load import load_history
from checkers.history.schema import FINDING, LEADER_CHANGE, OFFSETS_TOPIC
from checkers.transactions.inputs import input_checks
from checkers.transactions.reads import read_checks
from checkers.transactions.stable import stable_checks
from tests.golden.make import read as golden
from tests.support.application_stories import Application
from tests.support.compaction_stories import OF_SENTINELS, Compacted
from tests.support.histories import OUT, TICK_NS, Story, merged, write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("R9")]

AT_MS = 500
BEFORE_ALL, BETWEEN = UncleanElection(3, 0, 1), UncleanElection(3, AT_MS * TICK_NS, (AT_MS + 50) * TICK_NS)
AFTER_ALL = UncleanElection(3, 10**15, None)


def _processed(story: Story) -> None:
    """Input 1 at offset 0, of which output 11 was made."""
    p = f"{story.topic}-0"
    of_it: dict[str, Any] = {"txn": 5, "transactional_id": "t", "process": 1}
    story.send(1, 0, process=2)
    story.poll(0, [(0, 1)], isolation=1, process=3)
    story.send(11, 0, topic=f"{story.topic}{OUT}", sources=[1], **of_it)
    story.coordinate("txn_offsets", group="g", offsets=[{"p": p, "offset": 1}], **of_it)
    story.coordinate("end_txn", commit=True, **of_it)


def _ended(story: Story, outputs: list[tuple[int, int]]) -> None:
    """After AT_MS: what is left of the outputs, and how far the group came."""
    p, out = f"{story.topic}-0", f"{story.topic}{OUT}"
    story.now = max(story.now, AT_MS + 200)
    story.poll(0, outputs, isolation=1, topic=out, process=4, consumer="out", phase="drain-n1")
    story.drained(len(outputs), topic=out, isolation=1, phase="drain-n1")
    answer = {"offsets": [{"p": p, "offset": 1}]}
    story.coordinate("fetch_offsets", group="g", partitions=[p], answer=answer, process=5, phase="final")


def _output_is_gone(story: Story) -> None:
    _processed(story)
    _ended(story, [])


def _input_is_another(story: Story) -> None:
    """Behind what the group had processed already."""
    _processed(story)
    story.now = AT_MS + 100
    story.send(9, outcome="info", process=6)
    story.poll(0, [(0, 9)], isolation=1, process=7, consumer="later")
    _ended(story, [(0, 11)])


def _goes_back(story: Story) -> None:
    application = Application(story, "at-least-once")
    application.poll("a", 0, [1, 2, 3, 4])
    story.now = AT_MS + 100
    application.poll("a", 2, [3, 4])


def _keys_go(story: Story) -> None:
    """Of key 1 the newer value is gone with it, and of key 7 all."""
    log = Compacted(story)
    old = log.send(1)
    log.send(1)
    log.send(7)
    story.now = AT_MS + 100
    log.records = [old]
    log.read([old, log.send(2), log.send(OF_SENTINELS)])


def _key_goes_later(story: Story) -> None:
    """Key 7 was written once more since, below where it had stood, and read; then it is gone."""
    log = Compacted(story)
    old = log.send(1)
    for key in (1, 1, 7):
        log.send(key)
    story.now = AT_MS + 100
    log.records = [old]
    new = log.send(7)
    story.poll(0, [(0, old.value), (1, new.value)], epoch=3, process=8, consumer="main")
    others = [log.send(2), log.send(2), log.send(OF_SENTINELS)]
    log.read([old, *others[1:]])


STORIES: Mapping[str, Callable[[Story], None]] = {
    "output": _output_is_gone,
    "input": _input_is_another,
    "back": _goes_back,
    "old": _keys_go,
    "last": _keys_go,
    "later": _key_goes_later,
}
STORED = {"hanging": ("hanging-transaction", "bad"), "aborted": ("aborted-transaction-read", "bad")}
CHECKERS = {
    "output": "exactly-once",
    "input": "exactly-once",
    "back": "nonmonotonic-poll",
    "old": "old-value",
    "last": "last-value",
    "later": "last-value",
    **{name: anomaly for name, (anomaly, _) in STORED.items()},
}


def _unclean(topic: str, election: UncleanElection) -> Unclean:
    """Of the partition that matters."""
    return {f"{topic}{OUT}-0" if topic.startswith("output") else f"{topic}-0": [election]}


def _elections(name: str) -> Mapping[str, UncleanElection | None]:
    """How the copies of a case are called, and which election each has."""
    # What hangs may have begun at any time; a golden history has no gap for an election to come in between.
    between = BETWEEN if name in STORIES else UncleanElection(3, 0, None)
    too_soon = {} if name in ("hanging", "input") else {"soon": BEFORE_ALL}
    return {"none": None, "between": between, "late": AFTER_ALL, **too_soon}


COPIES = [(name, how) for name in CHECKERS for how in _elections(name)]


@pytest.fixture(scope="module")
def kinds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], set[str]]:
    """(case, election) → kinds of what its checker finds."""
    folder = tmp_path_factory.mktemp("readers")
    histories = {}
    unclean: dict[str, Sequence[UncleanElection]] = {f"{OFFSETS_TOPIC}-7": [AFTER_ALL]}
    for name, how in COPIES:
        topic, election = f"{name}-{how}", _elections(name)[how]
        if name in STORIES:
            story = Story(topic)
            STORIES[name](story)
            histories[topic] = story.lines
        else:
            histories[topic] = golden(*STORED[name]).history
        unclean |= {} if election is None else _unclean(topic, election)
    with pyspark_sockets():
        path = write_history(folder / "h.jsonl", merged(histories))
        history, health = load_history(spark, path, folder / "parquet")
        assert not health.problems
        facts = build_facts(history, spark.createDataFrame([], LEADER_CHANGE), expiry=None, unclean=unclean)
        families = [checks(facts) for checks in (input_checks, stable_checks, read_checks, poll_checks)]
        families.append(key_checks(facts, tombstones_ns=10**15))
        frames = [family.findings for family in families if family.findings is not None]
        rows = excuse_unclean(unclean)(reduce(DataFrame.unionByName, frames)).collect()
    return {
        (name, how): {row.kind for row in rows if row.checker == CHECKERS[name] and row.p == f"{name}-{how}-0"}
        for name, how in COPIES
    }


@pytest.mark.parametrize(("name", "how"), COPIES)
def test_reader_is_excused_by_an_unclean_election_that_came_in_between(
    kinds: Mapping[tuple[str, str], set[str]], name: str, how: str
) -> None:
    assert kinds[name, how] == ({"allowed"} if how == "between" and name != "later" else {"invalid"})


@pytest.mark.parametrize(
    ("checker", "rule", "of", "kind"),
    [
        ("open-transaction", "two", "t-0", "allowed"),
        ("open-transaction", "two", "other-0", "invalid"),
        ("open-transaction", "torn", "t-0", "invalid"),
        ("hanging-transaction", "", "t-0", "allowed"),
        ("hanging-transaction", UNDECIDED, "t-0", "invalid"),
        ("hanging-transaction", UNDECIDED, f"{OFFSETS_TOPIC}-3", "allowed"),
        ("hanging-transaction", "", f"{OFFSETS_TOPIC}-3", "invalid"),
    ],
)
def test_lost_marker_explains_what_only_a_marker_ends(
    spark: SparkSession, checker: str, rule: str, of: str, kind: str
) -> None:
    """of: the partition that saw the election. What is found is told at the end of the run, or at no time."""
    at_ns = 10**12 if checker == "hanging-transaction" else None
    row = dict.fromkeys(FINDING.names) | {"checker": checker, "rule": rule, "p": "t-0", "kind": "invalid", "ops": []}
    frame = spark.createDataFrame([{**row, "detail": "", "from_ns": at_ns, "to_ns": at_ns}], FINDING)
    with pyspark_sockets():
        excused = excuse_unclean({of: [UncleanElection(3, 0, 10**6)]})(frame).collect()
    assert [one.kind for one in excused] == [kind]
