"""What an unclean election of the offsets topic takes back of groups, and until when it can have.

The bad golden histories of groups, each with such an election before what is lost had been there, in between, and after
it was missed; and with one of the topic that the group reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from checkers.allowances.allowances import UNCLEAN_OFFSETS, excuse_unclean, reason_for
from checkers.black_box.facts import build_facts
from checkers.evidence.unclean_elections import Unclean, UncleanElection
from checkers.groups.families import of_groups
from checkers.history.load import load_history
from checkers.history.schema import FINDING, OFFSETS_TOPIC
from checkers.transactions.families import transactions
from tests.golden.make import read as golden
from tests.support.histories import OUT, merged, write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("R9")]

OFTEN_BACK = [
    ("commit-lost", "bad"),
    ("offset-regression", "bad"),
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
    ("exactly-once", "bad"),
]
CHANGES = "p string, changed_ns bigint, leader string"
NEVER_BACK = [
    ("offset-regression", "bad-invented"),
    ("overlapping-owners", "bad-named-alike"),
    ("commit-ahead", "bad"),
    ("transaction-offsets", "bad"),
    ("exactly-once", "bad-missing"),
]
"""An offset that nobody committed, one id for two, an output that is missing: no older state of a group explains it."""


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], list[Row]]:
    """(checker, case) → what its rules find."""
    folder = tmp_path_factory.mktemp("groups")
    cases = {f"{anomaly}-{name}": golden(anomaly, name).history for anomaly, name in OFTEN_BACK + NEVER_BACK}
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "h.jsonl", merged(cases)), folder / "parquet")
        assert not health.problems
        of_transactions = transactions(build_facts(history, spark.createDataFrame([], CHANGES), expiry=None))
        families = [family for build in {**of_groups(history), **of_transactions}.values() for family in build()]
        frames = [family.findings for family in families if family.findings is not None]
        rows = reduce(DataFrame.unionByName, frames).collect()
    return {
        (anomaly, name): [row for row in rows if row.checker == anomaly and _topic(row.p) == f"{anomaly}-{name}"]
        for anomaly, name in OFTEN_BACK + NEVER_BACK
    }


def _topic(p: str) -> str:
    """Whose history it is: that of its topic, or of the topic that its processors write to."""
    return p.rpartition("-")[0].removesuffix(OUT)


def _kinds(spark: SparkSession, rows: list[Row], unclean: Unclean) -> set[str]:
    assert rows, "the golden history shows it"
    with pyspark_sockets():
        excused = excuse_unclean(unclean)(spark.createDataFrame([row.asDict() for row in rows], FINDING)).collect()
    return {row.kind for row in excused}


def _election(from_ns: int, until_ns: int | None, p: str = f"{OFFSETS_TOPIC}-3") -> Unclean:
    return {p: [UncleanElection(1, from_ns, until_ns)]}


@pytest.mark.parametrize(("anomaly", "name"), OFTEN_BACK)
def test_older_state_of_a_group_is_allowed_where_such_an_election_came_in_between(
    spark: SparkSession, found: Mapping[tuple[str, str], list[Row]], anomaly: str, name: str
) -> None:
    rules = UNCLEAN_OFFSETS.checkers[anomaly]
    rows = [row for row in found[anomaly, name] if not rules or row.rule in rules]
    there, missed = min(row.from_ns for row in rows), max(row.to_ns for row in rows)
    last_there, first_missed = max(row.from_ns for row in rows), min(row.to_ns for row in rows)
    assert _kinds(spark, rows, _election(first_missed, last_there)) == {"allowed"}
    assert _kinds(spark, rows, _election(first_missed, None)) == {"allowed"}
    # It had come before anything of this was there, or comes only now; or it is another topic's.
    assert _kinds(spark, rows, _election(0, there - 1)) == {"invalid"}
    assert _kinds(spark, rows, _election(missed + 1, None)) == {"invalid"}
    assert _kinds(spark, rows, _election(first_missed, None, "other-0")) == {"invalid"}
    assert OFFSETS_TOPIC in reason_for(
        anomaly, acks_one=False, retention=False, unclean=True, rules={row.rule for row in rows}
    )


@pytest.mark.parametrize(("anomaly", "name"), NEVER_BACK)
def test_what_no_older_state_of_a_group_explains_stands(
    spark: SparkSession, found: Mapping[tuple[str, str], list[Row]], anomaly: str, name: str
) -> None:
    assert _kinds(spark, found[anomaly, name], _election(0, None)) == {"invalid"}
