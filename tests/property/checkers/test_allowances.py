"""What a configuration excuses, and where it stops: acks=1, acks=0, retention, unclean elections.

Each setting has one Spark pass; every history is a partition of its own.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.allowances.expiry import expiry_of
from checkers.history.retention import SLACK_NS, Expiry, Retention
from checkers.verdicts.verdict import CheckResult
from tests.golden.make import read as golden
from tests.property.checkers.acks_stories import ACKS_ONE, acks_zero
from tests.property.checkers.retention_stories import (
    AGE_MS,
    HEAD_OF_A_REPLICA,
    HEADS,
    REFUSED,
    expired,
    head_gone,
    head_gone_with_copies,
    head_gone_with_markers,
)
from tests.property.checkers.unclean_losses import UNCLEAN, finished, unclean_life
from tests.support.histories import TICK_NS, Story
from tests.support.judging import Case, invalid, judge_cases, pyspark_sockets
from tests.unit.checkers.coverage.test_incidents import INFO

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("R9")]

Judged = dict[str, dict[str, CheckResult]]


def _told(tell: Callable[[Story], None], topic: str) -> Case:
    story = Story(topic)
    tell(story)
    return Case(story.lines)


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    cases = {f"acks1-{name}": _told(tell, f"acks1-{name}") for name, (tell, _) in ACKS_ONE.items()}
    cases["acks0"] = _told(acks_zero, "acks0")
    cases["expired"] = _told(expired, "expired")
    cases[HEAD_OF_A_REPLICA] = golden("log-matching", "ok-head-expired")
    cases |= {name: _told(tell, name) for name, tell in REFUSED.items()}
    return judge_cases(spark, tmp_path_factory.mktemp("plain"), cases)


@pytest.fixture(scope="module")
def lenient(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """The same, and more, where unclean elections and retention are on."""
    cases = {name: _told(tell, name) for name, tell in HEADS.items()}
    cases |= {name: _told(tell, name) for name, tell in REFUSED.items()}
    for number, (name, (damage, _)) in enumerate(UNCLEAN.items()):
        case = copy.deepcopy(finished(unclean_life(name, 10 * number + 11, 9 if name == "short-leader-hidden" else 2)))
        damage(case)
        cases[name] = case
    return judge_cases(
        spark, tmp_path_factory.mktemp("lenient"), cases, unclean=True, expiry=Expiry(age_ns=AGE_MS * TICK_NS)
    )


@pytest.mark.parametrize("name", ACKS_ONE)
def test_acks_one_loss_is_allowed_only_where_the_leader_changed_since(plain: Judged, name: str) -> None:
    results = plain[f"acks1-{name}"]
    result = results["lost-write"]
    assert result.verdict == ACKS_ONE[name][1], result.reasons
    assert invalid(results) == ({"lost-write", "inconsistent-offset"} if result.verdict == "invalid" else set())
    assert result.counts.get("allowed", 0) == (1 if result.verdict == "valid" else 0)


def test_acks_zero_is_acknowledged_by_nobody_and_counted(plain: Judged) -> None:
    counts = plain["acks0"]["lost-write"].counts
    assert (counts["acknowledged"], counts["unacknowledged_sends"], counts["unacknowledged_unread"]) == (1, 3, 2)
    assert plain["acks0"]["availability"].counts["acknowledged"] == 1


def test_head_lost_without_retention_is_invalid_in_every_respect(plain: Judged) -> None:
    results = plain["expired"]
    assert results["lost-write"].verdict == "invalid"
    assert results["vanished-read"].verdict == "invalid"
    assert results["final-drain"].verdict == "unknown"
    assert any("was acknowledged below its start" in row.detail for row in results["final-drain"].witnesses)


def test_head_of_one_replica_is_missing_there_without_retention(plain: Judged) -> None:
    results = plain[HEAD_OF_A_REPLICA]
    assert invalid(results) == {"log-matching", "log-start"}
    assert results["log-matching"].counts["found"] == 2
    assert results["log-start"].counts["found"] == 1


def test_head_deleted_by_retention_is_allowed_and_counted(lenient: Judged) -> None:
    results = lenient["expired"]
    assert {name: results[name].verdict for name in ("lost-write", "vanished-read", "final-drain")} == {
        "lost-write": "valid",
        "vanished-read": "valid",
        "final-drain": "valid",
    }
    assert results["lost-write"].counts["allowed"] == 1
    assert results["vanished-read"].counts["allowed"] == 1


@pytest.mark.parametrize(("name", "allowed"), [("young", 0), ("both", 1)])
def test_head_too_young_for_retention_is_lost_whatever_else_was_deleted(
    lenient: Judged, name: str, allowed: int
) -> None:
    results = lenient[name]
    for checker in ("lost-write", "vanished-read"):
        counts = results[checker].counts
        assert results[checker].verdict == "invalid"
        assert (counts["found"], counts.get("allowed", 0)) == (1, allowed)
        assert "retention cannot have deleted it by then" in results[checker].reasons[0]
    assert results["final-drain"].verdict == "unknown"
    assert results["final-drain"].counts["gone"] == 1


def test_head_is_deleted_for_its_log_s_size_only_where_that_much_lies_above_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every record is 100 bytes at most, and 300 are left where there are more."""
    cases = {
        "enough": _told(lambda story: head_gone(story, old=2, young=0), "enough"),
        "little": _told(lambda story: head_gone(story, old=2, young=0, left=1), "little"),
        "none": _told(lambda story: head_gone(story, old=2, young=0, left=0), "none"),
        # Markers take room too, and nobody knows how many there are.
        "markers": _told(head_gone_with_markers, "markers"),
        # So do records that a real client sends again by itself.
        "copies": _told(head_gone_with_copies, "copies"),
    }
    judged = judge_cases(spark, tmp_path, cases, expiry=Expiry(size_bytes=300, record_bytes=100))
    found = {
        name: [
            (results[checker].verdict, results[checker].counts.get("allowed", 0))
            for checker in ("vanished-read", "lost-write", "final-drain")
        ]
        for name, results in judged.items()
    }
    assert found == {
        "enough": [("valid", 1), ("valid", 1), ("valid", 0)],
        "little": [("valid", 1), ("invalid", 0), ("unknown", 0)],
        "none": [("invalid", 0), ("invalid", 0), ("unknown", 0)],
        "markers": [("valid", 0), ("valid", 1), ("unknown", 0)],
        "copies": [("valid", 0), ("valid", 1), ("unknown", 0)],
    }


MINUTE_NS = 60 * 10**9


@pytest.mark.parametrize(("ahead_min", "age_min"), [(6, 9), (4, None), (-6, None), (20, 0)])
def test_retention_can_fire_in_a_run_that_is_shorter_where_a_host_s_clock_is_ahead(
    spark: SparkSession, tmp_path: Path, ahead_min: int, age_min: int | None
) -> None:
    """A run of 10 minutes, retention of 15, and a node whose own event log shows its clock; no fault moved any."""
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps({"time_ns": 10 * MINUTE_NS}) + "\n")
    origin = 1_800_000_000 * 10**9
    clocks = [(origin + t * MINUTE_NS + ahead_min * MINUTE_NS, t * MINUTE_NS) for t in range(10)]
    steady = [(origin + t * MINUTE_NS, t * MINUTE_NS) for t in range(10)]
    info = replace(INFO, origin_wall_ns=origin, retention=Retention(15 * 60_000))
    with pyspark_sockets():
        found = expiry_of(path, info, spark.createDataFrame([*steady, *clocks], "w bigint, t_ns bigint"))
        nothing = expiry_of(path, info, spark.createDataFrame([], "w bigint, t_ns bigint"))
    slack = 0 if age_min == 0 else SLACK_NS
    age_ns = None if age_min is None else age_min * MINUTE_NS - slack
    assert found == (None if age_ns is None else Expiry(age_ns, None, info.record_bytes))
    assert nothing is None


@pytest.mark.parametrize("name", REFUSED)
def test_refused_read_is_no_matter_of_retention_where_that_cannot_fire(plain: Judged, name: str) -> None:
    assert plain[name]["refused-read"].verdict == "invalid"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_read_is_allowed_where_its_leader_s_log_may_have_begun_above(lenient: Judged, name: str) -> None:
    result = lenient[name]["refused-read"]
    # What that leader said itself, and later, and nothing else; and what was too young.
    expected = (1, 0) if name in ("refused-above", "refused-young") else (0, 1)
    assert (result.counts["found"], result.counts.get("allowed", 0)) == expected
    assert result.verdict != ("invalid" if expected[1] else "valid")


@pytest.mark.parametrize("name", UNCLEAN)
def test_unclean_election_excuses_its_losses_and_nothing_else(lenient: Judged, name: str) -> None:
    results = lenient[name]
    found = {checker: result.reasons for checker, result in results.items() if result.verdict == "invalid"}
    assert found.keys() == UNCLEAN[name][1], found
    assert results["isr-znode"].counts["allowed"] == 1
    assert results["lost-write"].counts.get("allowed", 0) + results["vanished-read"].counts.get("allowed", 0) > 0
