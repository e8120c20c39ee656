"""What an unclean election of a coordinators' topic takes back of groups and transactions, and until when it can have.

The bad golden histories of groups, each with such an election before what is lost had been there, in between, and after
it was missed; and with one of the topic that the group reads. Those of transactions with one before it shows, and
after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from checkers.allowances.allowances import (
    UNCLEAN_OFFSETS,
    UNCLEAN_TRANSACTIONS,
    excuse_rows,
    excuse_unclean,
    reason_for,
)
from checkers.black_box.facts import build_facts
from checkers.evidence.unclean_elections import Unclean, UncleanElection
from checkers.groups.families import of_groups
from checkers.history.load import load_history
from checkers.history.schema import FINDING, LEADER_CHANGE, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from checkers.transactions.families import transactions
from checkers.transactions.whole import whole_checks
from checkers.verdicts.catalogue import BY_NAME
from checkers.verdicts.verdict import Row as JudgedRow
from tests.golden.make import read as golden
from tests.support.histories import OUT, Story, merged, write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("R9")]

OFTEN_BACK = [
    ("commit-lost", "bad"),
    ("commit-lost", "bad-late"),
    ("commit-lost", "bad-late-instance"),
    ("offset-regression", "bad"),
    ("offset-regression", "bad-next-coordinator"),
    ("offset-regression", "bad-none"),
    ("offset-not-linearizable", "bad"),
    ("offset-not-linearizable", "bad-drained"),
    ("generation", "bad"),
    ("generation", "bad-zombie"),
    ("fenced-commit", "bad"),
    ("fenced-commit", "bad-instance"),
    ("overlapping-owners", "bad"),
    ("static-member", "bad"),
    ("static-member", "bad-share"),
    ("transaction-offsets", "bad-forgotten"),
    ("transaction-offsets", "bad-shown"),
    ("exactly-once", "bad"),
]
SOME: Unclean = {"elsewhere-0": [UncleanElection(1, 0, None)]}
NEVER_BACK = [
    ("offset-regression", "bad-invented"),
    ("overlapping-owners", "bad-named-alike"),
    ("commit-ahead", "bad"),
    ("transaction-offsets", "bad"),
    ("exactly-once", "bad-missing"),
]
"""An offset that nobody committed, one id for two, an output that is missing: no older state of a group explains it."""

Lines = list[dict[str, Any]]
Rows = Mapping[tuple[str, str], list[Row]]
UNDONE = [
    ("aborted-transaction-read", "bad"),
    ("precommitted-read", "bad"),
    ("torn-transaction", "bad"),
    ("torn-transaction", "bad-unanswered"),
    ("committed-lost", "bad"),
    ("last-stable-offset", "bad-open"),
    ("hanging-transaction", "bad"),
    ("hanging-transaction", "bad-offsets"),
    ("transaction-offsets", "bad-forgotten"),
    ("transaction-offsets", "bad-shown"),
    ("exactly-once", "bad"),
    ("fenced-producer", "bad"),
    ("fenced-producer", "bad-given-twice"),
]
NEVER_UNDONE = [
    ("last-stable-offset", "bad"),
    ("transaction-offsets", "bad"),
    ("exactly-once", "bad-missing"),
    ("torn-transaction", "bad-lost"),
    ("fenced-producer", "bad-shared"),
]
"""A leader's own offsets, an offset that no transaction sent, an output and a record that are nowhere, one producer id
for two transactional ids: no older state of a transaction explains it.
"""


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """(checker, case) → what its rules find."""
    folder = tmp_path_factory.mktemp("groups")
    wanted = [*OFTEN_BACK, *NEVER_BACK, *UNDONE, *NEVER_UNDONE]
    cases = {f"{anomaly}-{name}": _lines(anomaly, name) for anomaly, name in wanted}
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "h.jsonl", merged(cases)), folder / "parquet")
        assert not health.problems
        facts = build_facts(history, spark.createDataFrame([], LEADER_CHANGE), expiry=None, unclean=SOME)
        families = [family for build in {**of_groups(history), **transactions(facts)}.values() for family in build()]
        frames = [family.findings for family in families if family.findings is not None]
        rows = reduce(DataFrame.unionByName, frames).collect()
    return {
        (anomaly, name): [row for row in rows if row.checker == anomaly and _topic(row.p) == f"{anomaly}-{name}"]
        for anomaly, name in wanted
    }


def _lines(anomaly: str, name: str) -> Lines:
    """Of a golden history, or of one like it."""
    if (anomaly, name) == ("torn-transaction", "bad-lost"):
        return _lost(golden(anomaly, "bad").history)
    if (anomaly, name) == ("fenced-producer", "bad-shared"):
        return _shared(golden(anomaly, "ok").history)
    return golden(anomaly, name).history


def _lost(lines: Lines) -> Lines:
    """What no poll under read_committed returns, no other one does either."""
    polls = [line for line in lines if line["f"] == "poll" and line["type"] == "ok"]
    shown = {record["value"] for poll in polls if lines[poll["invoke"]]["isolation"] == 1 for record in poll["records"]}
    for poll in polls:
        poll["records"] = [record for record in poll["records"] if record["value"] in shown]
    return lines


def _shared(lines: Lines) -> Lines:
    """Two transactional ids get one producer id and epoch."""
    given = [line for line in lines if line["f"] == "init_producer" and line["type"] == "ok"]
    first = given[0]
    other = next(one for one in given if _asked(lines, one) != _asked(lines, first))
    other.update(producer_id=first["producer_id"], producer_epoch=first["producer_epoch"])
    return lines


def _asked(lines: Lines, answer: dict[str, Any]) -> str:
    return str(lines[answer["invoke"]]["transactional_id"])


def _topic(p: str) -> str:
    """Whose history it is: that of its topic, or of the topic that its processors write to."""
    return p.rpartition("-")[0].removesuffix(OUT)


def _kinds(spark: SparkSession, rows: list[Row], elections: Sequence[Unclean]) -> list[set[str]]:
    """Of these findings, after each of the elections."""
    assert rows, "the golden history shows it"
    with pyspark_sockets():
        frame = spark.createDataFrame([row.asDict() for row in rows], FINDING)
        after = [excuse_unclean(one)(frame).select("kind", F.lit(nth)) for nth, one in enumerate(elections)]
        excused = reduce(DataFrame.unionAll, after).collect()
    return [{kind for kind, of in excused if of == nth} for nth in range(len(elections))]


def _election(from_ns: int, until_ns: int | None, p: str = f"{OFFSETS_TOPIC}-3") -> Unclean:
    return {p: [UncleanElection(1, from_ns, until_ns)]}


@pytest.mark.parametrize(("anomaly", "name"), OFTEN_BACK)
def test_older_state_of_a_group_is_allowed_where_such_an_election_came_in_between(
    spark: SparkSession, found: Rows, anomaly: str, name: str
) -> None:
    rules = UNCLEAN_OFFSETS.checkers[anomaly]
    rows = [row for row in found[anomaly, name] if not rules or row.rule in rules]
    there, missed = min(row.from_ns for row in rows), max(row.to_ns for row in rows)
    last_there, first_missed = max(row.from_ns for row in rows), min(row.to_ns for row in rows)
    in_between = [_election(first_missed, last_there), _election(first_missed, None)]
    # It had come before anything of this was there, or comes only now; or it is another topic's.
    too_soon, too_late = _election(0, there - 1), _election(missed + 1, None)
    of_another = _election(first_missed, None, "other-0")
    kinds = _kinds(spark, rows, [*in_between, too_soon, too_late, of_another])
    assert kinds == [{"allowed"}, {"allowed"}, {"invalid"}, {"invalid"}, {"invalid"}]
    assert OFFSETS_TOPIC in reason_for(
        anomaly, acks_one=False, retention=False, unclean=True, rules={row.rule for row in rows}
    )


@pytest.mark.parametrize("name", ["bad-late", "bad-late-instance"])
def test_commit_comes_late_where_such_an_election_took_what_fences_it(
    spark: SparkSession, found: Rows, name: str
) -> None:
    rows = found["commit-lost", name]
    lines = golden("commit-lost", name).history
    newer = max(line["time_ns"] for line in lines if line.get("offsets") == [{"p": rows[0].p, "offset": 4}])
    fenced = max(line["time_ns"] for line in lines if line["f"] == "sync" and line["type"] == "ok")
    assert fenced < newer
    elections = [_election(newer - 1, newer - 1), _election(newer - 1, fenced - 1)]
    assert _kinds(spark, rows, elections) == [{"allowed"}, {"invalid"}]


@pytest.mark.parametrize(("anomaly", "name"), NEVER_BACK)
def test_what_no_older_state_of_a_group_explains_stands(
    spark: SparkSession, found: Rows, anomaly: str, name: str
) -> None:
    assert _kinds(spark, found[anomaly, name], [_election(0, None)]) == [{"invalid"}]


AT_NS = 10**15


def _moved(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same finding, which shows at AT_NS."""
    by_ns = 0 if row["to_ns"] is None else AT_NS - row["to_ns"]
    return {**row, **{name: None if row[name] is None else row[name] + by_ns for name in ("from_ns", "to_ns")}}


BEFORE = {f"{TRANSACTIONS_TOPIC}-4": [UncleanElection(1, AT_NS, None)]}
OVER = {f"{TRANSACTIONS_TOPIC}-4": [UncleanElection(1, 0, 1)]}
LATER = {f"{TRANSACTIONS_TOPIC}-4": [UncleanElection(1, AT_NS + 1, None)]}
OF_OTHERS = {f"{topic}-4": [UncleanElection(1, 0, None)] for topic in ("other", f"{TRANSACTIONS_TOPIC}-of-another")}
Kinds = Mapping[tuple[str, str, str], set[str]]


@pytest.fixture(scope="module")
def undone(spark: SparkSession, found: Rows) -> dict[str, Kinds]:
    """Election → (checker, case, rule) → kinds: of all that golden histories show, and of a finding of each checker of
    the catalogue, and of each rule by files, that says no time.
    """
    rows = [(key, _moved(row.asDict())) for key in (*UNDONE, *NEVER_UNDONE) for row in found[key]]
    blank = dict.fromkeys(FINDING.names) | {"kind": "invalid", "rule": "", "p": "t-0", "detail": "", "ops": []}
    rows += [((name, "any"), {**blank, "checker": name, "rule": "another"}) for name in BY_NAME]
    by_files = UNCLEAN_TRANSACTIONS.checkers["open-transaction"]
    rows += [(("open-transaction", "any"), {**blank, "checker": "open-transaction", "rule": one}) for one in by_files]
    elections = {"before": BEFORE, "over": OVER, "later": LATER, "of others": OF_OTHERS}
    kinds: dict[str, dict[tuple[str, str, str], set[str]]] = {name: {} for name in elections}
    # The case travels where nothing looks at it.
    frame = spark.createDataFrame([{**row, "evidence": case} for (_, case), row in rows], FINDING)
    with pyspark_sockets():
        for name, unclean in elections.items():
            for row in excuse_unclean(unclean)(frame).collect():
                kinds[name].setdefault((row.checker, row.evidence, row.rule), set()).add(row.kind)
    return dict(kinds)


@pytest.mark.parametrize(("anomaly", "name"), UNDONE)
def test_older_state_of_a_transaction_is_allowed_once_such_an_election_came(
    undone: dict[str, Kinds], anomaly: str, name: str
) -> None:
    of_checker = UNCLEAN_TRANSACTIONS.checkers[anomaly]
    shown = {rule for checker, case, rule in undone["before"] if (checker, case) == (anomaly, name)}
    rules = shown & of_checker if of_checker else shown
    assert rules, "the golden history shows it"
    for rule in rules:
        key = (anomaly, name, rule)
        assert undone["before"][key] == {"allowed"}
        assert undone["later"][key] == undone["of others"][key] == {"invalid"}
        # That an epoch was given out before is what has to have been lost; else nothing says when that was stored.
        assert undone["over"][key] == {"invalid" if rule == "given" else "allowed"}
        assert TRANSACTIONS_TOPIC in reason_for(anomaly, acks_one=False, retention=False, unclean=True, rules={rule})


@pytest.mark.parametrize(("anomaly", "name"), NEVER_UNDONE)
def test_what_no_older_state_of_a_transaction_explains_stands(
    undone: dict[str, Kinds], anomaly: str, name: str
) -> None:
    keys = [key for key in undone["before"] if key[:2] == (anomaly, name)]
    assert keys
    assert all(undone["before"][key] == {"invalid"} for key in keys)


def test_no_other_checker_and_no_other_rule_is_excused_by_it(undone: dict[str, Kinds]) -> None:
    whole = {name for name, rules in UNCLEAN_TRANSACTIONS.checkers.items() if not rules}
    assert whole == {"aborted-transaction-read", "precommitted-read", "hanging-transaction"}
    kinds = {name: undone["before"][name, "any", "another"] for name in BY_NAME}
    assert {name for name, kind in kinds.items() if kind == {"allowed"}} == whole
    assert {name for name, kind in kinds.items() if kind == {"invalid"}} == set(BY_NAME) - whole


@pytest.mark.parametrize("rule", ["two", "torn", "parted"])
def test_what_files_say_of_transactions_shows_in_the_end(undone: dict[str, Kinds], rule: str) -> None:
    key = ("open-transaction", "any", rule)
    assert undone["before"][key] == undone["later"][key] == undone["over"][key] == {"allowed"}
    assert undone["of others"][key] == {"invalid"}


def test_circle_of_reads_is_allowed_once_such_an_election_came() -> None:
    rows = [JudgedRow("g1c", "invalid", "t-0", 1, from_ns=1, to_ns=AT_NS, rule="reads-strict")]
    rows += [
        JudgedRow("g2", "invalid", "t-0", 1, to_ns=AT_NS, rule="reads-strict"),
        JudgedRow("g1c", "unknown", None, 1),
    ]
    assert [row.kind for row in excuse_rows(BEFORE, rows)] == ["allowed", "invalid", "unknown"]
    for unclean in (LATER, OF_OTHERS, {}):
        assert excuse_rows(unclean, rows) == rows


@pytest.mark.parametrize("anomaly", ["torn-transaction", "committed-lost"])
def test_record_is_missing_from_when_a_poll_passed_over_it(spark: SparkSession, found: Rows, anomaly: str) -> None:
    lines = golden(anomaly, "bad").history
    (row,) = found[anomaly, "bad"]
    passed = [
        line["time_ns"]
        for line in lines
        if line["f"] == "poll" and line["type"] == "ok" and lines[line["invoke"]]["isolation"] == 1
        if f"{line['topic']}-{line['partition']}" == row.p
        if lines[line["invoke"]]["position"] <= row.offset < line["next_position"]
    ]
    (acked_ns,) = [
        line["time_ns"]
        for line in lines
        if line["f"] == "send" and line["type"] == "ok" and row.value % 1_000_000 in lines[line["invoke"]]["values"]
    ]
    assert row.to_ns in passed
    assert row.to_ns > acked_ns
    # So its own partition may have lost it, once it was acknowledged.
    elections = [{row.p: [UncleanElection(5, at_ns + 1, None)]} for at_ns in (acked_ns, row.to_ns)]
    assert _kinds(spark, [row], elections) == [{"allowed"}, {"invalid"}]


def _over_two_partitions(story: Story) -> None:
    """Of one transaction 1 is lost on hw-0; on hw-1 read_committed passes over 2, which is in the log, and shows 3."""
    for sequence, (value, partition) in enumerate(((1, 0), (2, 1), (3, 1))):
        of_it: dict[str, Any] = {"txn": 50, "transactional_id": "t", "producer_id": 9, "producer_epoch": 0}
        story.send(value, max(0, sequence - 1), partition=partition, process=1, sequence=sequence, **of_it)
    story.coordinate("end_txn", process=1, txn=50, transactional_id="t", commit=True)
    story.poll(0, [(0, 1)], process=2)
    story.poll(0, [(0, 2), (1, 3)], process=2, partition=1)
    story.poll(0, [(0, 8)], process=2, isolation=1, epoch=3, invoked=600, completed=601)
    story.poll(0, [(1, 3)], process=2, isolation=1, partition=1, invoked=610, completed=611)


def test_value_that_an_election_took_hides_none_that_it_did_not(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    _over_two_partitions(story)
    unclean: Unclean = {"hw-0": [UncleanElection(3, 500_000_000, None)]}
    with pyspark_sockets():
        history, _ = load_history(spark, write_history(tmp_path / "h.jsonl", story.lines), tmp_path / "parquet")
        facts = build_facts(history, spark.createDataFrame([], LEADER_CHANGE), expiry=None, unclean=unclean)
        rows = whole_checks(facts).findings
        assert rows is not None
        (row,) = excuse_unclean(unclean)(rows).where(F.col("checker") == "torn-transaction").collect()
    assert (row.kind, row.p, row.value) == ("invalid", "hw-1", 2)
