"""Records that were cut, thinned or bent where no single rule looks: each must show, and as what it is.

All in one Spark pass; every case begins as the life of a model that keeps every rule.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.verdicts.verdict import CheckResult
from tests.support.judging import Case, case_of, judge_cases
from tests.support.model_cluster import random_life

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

Rows = list[dict[str, Any]]
Judged = dict[str, dict[str, CheckResult]]


def _leader_forgets_its_end(case: Case) -> None:
    """The event log of whoever answered the last send ends before that."""
    acks = [event for event in case.tables["events"] if event["e"] == "ack"]
    last = acks[-1]
    case.tables["events"] = [
        event for event in case.tables["events"] if event["b"] != last["b"] or event["m"] < acks[-3]["m"]
    ]
    copied = next(line for line in case.history if line["f"] == "evidence")
    case.history.append({**copied, "index": len(case.history), "node": last["node"]})


def _leader_forgets_fetches(case: Case) -> None:
    """The first incarnation of a broker that followers fetched from ends early, by a whole number of lines."""
    first = next(event for event in case.tables["events"] if event["e"] == "fetch_received")
    mine = [event for event in case.tables["events"] if event["i"] == first["i"]]
    fetches = [event["s"] for event in mine if event["e"] == "fetch_received"]
    case.tables["events"] = [
        event for event in case.tables["events"] if event["i"] != first["i"] or event["s"] < fetches[-1]
    ]


def _min_isr_taken_for_one(case: Case) -> None:
    """A leader alone answers acks=all, and says that one is enough."""
    ack = next(event for event in case.tables["events"] if event["e"] == "ack")
    ack["min_isr"], ack["isr"] = 1, [ack["b"]]
    for event in case.tables["events"]:
        if (
            event["e"] == "become_leader"
            and event["i"] == ack["i"]
            and event["p"] == ack["p"]
            and event["m"] < ack["m"]
        ):
            event["isr"] = [ack["b"]]
    case.tables["events"] = [event for event in case.tables["events"] if event["e"] != "isr_commit"]


def _prefix_deleted(case: Case) -> None:
    """Every drain begins above what was read before, as the broker says that its log does."""
    for line in case.history:
        if not line["phase"].startswith("drain"):
            continue
        if line["f"] == "drain-complete":
            line["start"] = 3
        elif line["f"] == "poll" and line["type"] == "invoke":
            line["position"] = max(3, line["position"])
        elif line["f"] == "poll":
            line["log_start"] = 3
            line["records"] = [record for record in line["records"] if record["offset"] >= 3]


def _replica_short(case: Case) -> None:
    """A member of the ISR lacks its last batch, and its own log and checkpoint know of no more."""
    node = case.tables["batches"][-1]["node"]
    mine = [row for row in case.tables["batches"] if row["node"] == node]
    last = mine[-1]
    case.tables["batches"].remove(last)
    for row in case.tables["checkpoints"]:
        if row["node"] == node and row["kind"] == "high-watermark":
            row["offset"] = last["base"]


def _transactions_cut_off(case: Case) -> None:
    """ZooKeeper's log ends before the last versions that brokers acted by."""
    states = [row for row in case.tables["znodes"] if row["path"].endswith("/state")]
    case.tables["znodes"] = [row for row in case.tables["znodes"] if row["zxid"] < states[-1]["zxid"]]


def _isr_of_its_own(case: Case) -> None:
    """A broker takes a role by another ISR than the version that it names."""
    roles = [event for event in case.tables["events"] if event["e"] == "become_follower"]
    roles[0]["isr"] = roles[0]["isr"][:1]


def _follows_another(case: Case) -> None:
    """A broker takes the follower's role under another leader than the version that it names."""
    role = next(event for event in case.tables["events"] if event["e"] == "become_follower")
    role["leader"] = next(broker for broker in role["replicas"] if broker not in (role["b"], role["leader"]))


def _leads_unelected(case: Case) -> None:
    """A broker leads by a version in which another does."""
    role = next(event for event in case.tables["events"] if event["e"] == "become_follower")
    role.update(e="become_leader", epoch_start=role["leo"])


def _commits_of_another(case: Case) -> None:
    """Who takes an ISR for committed is not the leader of that version, whose line it would be."""
    commit = next(event for event in case.tables["events"] if event["e"] == "isr_commit")
    other = next(
        event
        for event in case.tables["events"]
        if event["e"] in ("become_leader", "become_follower") and event["b"] != commit["b"]
    )
    commit.update({name: other[name] for name in ("b", "i", "node")}, s=10_000)


def _set_otherwise(case: Case) -> None:
    """A broker says that it cuts its log to its watermark, for which it would be forgiven."""
    case.truncation = "leader-epoch"
    start = next(event for event in case.tables["events"] if event["e"] == "start")
    start["truncation"] = "high-watermark"


def _set_so(case: Case) -> None:
    """A broker that was set to cut its log to its watermark, and says so."""
    for event in case.tables["events"]:
        if event["e"] == "start":
            event["truncation"] = "high-watermark"
    case.truncation = "high-watermark"


def _answer_cannot_be_read(case: Case) -> None:
    poll = next(line for line in case.history if line["f"] == "poll" and line["type"] == "ok")
    for field in ("next_position", "hw", "lso", "log_start", "records"):
        poll.pop(field)
    poll.update(type="info", error="malformed")


CASES: dict[str, tuple[Callable[[Case], None], str, str, str]] = {
    "forgotten-end": (_leader_forgets_its_end, "event-log", "unknown", "no event log has that `ack`"),
    "forgotten-fetches": (_leader_forgets_fetches, "event-log", "unknown", "that its event log does not have"),
    "min-isr-one": (_min_isr_taken_for_one, "ack-committed", "invalid", "min ISR 2: the ISR was below its minimum"),
    "prefix-deleted": (_prefix_deleted, "vanished-read", "invalid", "a response gave 3 as the log start"),
    "replica-short": (_replica_short, "log-matching", "invalid", "acks=all was acknowledged for all below"),
    "transactions-cut": (_transactions_cut_off, "isr-znode", "unknown", "ZooKeeper's log has no such version"),
    "isr-of-its-own": (_isr_of_its_own, "isr-znode", "invalid", "acted by version"),
    "unreadable-answer": (_answer_cannot_be_read, "fabricated-value", "invalid", "responded to a poll of"),
    "follows-another": (_follows_another, "isr-znode", "invalid", "with leader"),
    "leads-unelected": (_leads_unelected, "isr-znode", "invalid", "(become_leader) with leader"),
    "set-otherwise": (
        _set_otherwise,
        "event-log",
        "unknown",
        "cuts its logs by high-watermark, and was set to leader-e",
    ),
    "commits-of-another": (_commits_of_another, "isr-znode", "invalid", "(isr_commit) with leader"),
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    cases: dict[str, Case] = {}
    for number, (topic, (damage, *_)) in enumerate(CASES.items()):
        case = copy.deepcopy(case_of(random_life(Random(40 + number), topic, first_broker=10 * number + 1)))
        damage(case)
        cases[topic] = case
    cases["set-so"] = copy.deepcopy(case_of(random_life(Random(39), "set-so", first_broker=901)))
    _set_so(cases["set-so"])
    return judge_cases(spark, tmp_path_factory.mktemp("hidden"), cases)


@pytest.mark.parametrize("topic", CASES)
def test_hidden_damage_shows_as_what_it_is(judged: Judged, topic: str) -> None:
    _, checker, verdict, told = CASES[topic]
    result = judged[topic][checker]
    assert result.verdict == verdict, (result.reasons, result.counts)
    assert any(told in row.detail for row in result.witnesses), [row.detail for row in result.witnesses]


def test_broker_may_cut_its_log_as_it_was_set_to(judged: Judged) -> None:
    assert judged["set-so"]["event-log"].verdict == "valid", judged["set-so"]["event-log"].reasons
