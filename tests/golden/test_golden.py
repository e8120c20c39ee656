"""Stored histories, at least three per anomaly: legal and close to it, showing it, lacking what a verdict needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.history.retention import Expiry
from checkers.verdicts.catalogue import ALL
from checkers.verdicts.verdict import CheckResult
from tests.golden import make
from tests.golden.admin import ADMIN
from tests.golden.applications import APPLICATIONS
from tests.golden.black import BLACK_BOX
from tests.golden.black_deletions import INTERRUPTIONS
from tests.golden.compaction import COMPACTION
from tests.golden.cycles import ALLOWED, CYCLES, PERMITTED
from tests.golden.groups import GROUPS
from tests.golden.limits import RETENTION_MS
from tests.golden.topics import TOPICS
from tests.golden.transactions import TRANSACTIONS
from tests.golden.white import STARTS, WHITE_BOX
from tests.support.histories import TICK_NS
from tests.support.judging import invalid, judge_cases

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2", "V3")]

NAMES = make.names()
EXPECTED = {"ok": "valid", "bad": "invalid", "unknown": "unknown"}

# Never invalid: what they find, or fail to see, makes a run unknown.
UNKNOWN_AT_WORST = {"event-log", "unseen", "final-drain"}
# Never invalid nor unknown for what they find: the figure that their bad history has, and how many ms it is.
MEASURED = {"staleness": ("worst_ms", 994.0), "availability": ("worst_ms", 1038.0)}

# Never invalid: what they find is allowed, and counted.
NEVER_WRONG = {*MEASURED, *PERMITTED}

# What else a bad history necessarily shows. An empty set: exactly the anomaly itself.
COMPANY: dict[str, set[str]] = {
    "nonmonotonic-send/bad": {"real-time-order"},
    "nonmonotonic-send/bad-far-below": {"real-time-order"},
    # By the lines before its log was longer.
    "leader-completeness/bad": {"offset-order"},
    # It goes on to fetch from where its log ended.
    "offset-order/bad-role-shorter": {"hw-within-isr"},
    # The follower took the higher mark while its leader had it.
    "hw-monotone": {"offset-order"},
    # Who leads, ZooKeeper says.
    "one-leader-per-epoch/bad": {"isr-znode"},
    # Its leader acted by an ISR that ZooKeeper does not have.
    "hw-within-isr/bad-proposed": {"isr-znode"},
    "hw-within-isr/bad-alone-in-zookeeper": {"isr-znode"},
    # What its leader had proposed was an ISR with itself.
    "isr-znode/bad": {"live-isr"},
    # The follower went on as if it had not cut its log.
    "truncation/bad": {"hw-within-isr"},
    "truncation/bad-cut-as-opened": {"hw-within-isr"},
    "log-contiguous": {"log-matching"},
    "log-matching/bad-lacking": {"log-contiguous"},
    # Where it was acknowledged the second time.
    "duplicate/bad-resent": {"resend-offset"},
    # No log reaches there, and an end is told as if it did.
    "int-nonmonotonic-poll/bad-far-beyond": {
        *("inconsistent-offset", "duplicate", "hole", "read-above-hw", "nonmonotonic-end"),
    },
    "confluent-repeat/bad-begun-late": {"vanished-read", "hole"},
    # Passed over by a poll of the drain.
    "final-drain/bad-gone": {"vanished-read", "hole"},
    # Where it was, nothing is.
    "lost-write/bad": {"hole"},
    "lost-write/bad-passed-over": {"hole"},
    "lost-write/bad-in-a-life": {"hole"},
    "duplicate/bad-next-life": {"inconsistent-offset"},
    "lost-write/bad-follower": {"hole"},
    "lost-write/bad-committed-later": {"hole"},
    "lost-write/bad-committed-by-follower": {"hole"},
    "vanished-read/bad": {"hole"},
    "int-poll-skip/bad": {"hole"},
    # In one poll, and between two; of another consumer, within one.
    "poll-skip/bad-jumped": {"vanished-read"},
    "vanished-read/bad-jumped": {"hole"},
    "torn-batch/bad-one-ack": {"hole"},
    "torn-batch/bad-hole": {"hole"},
    # Each is shown what the other had not committed.
    "g1c/bad": {"precommitted-read", "last-stable-offset"},
    # So did the last stable offset of that answer.
    "precommitted-read": {"last-stable-offset"},
    # Where it was, another one is.
    "lost-write/bad-committed": {"inconsistent-offset"},
}

# What files hold, whenever it came there.
BY_FILES_ALONE = {"log-contiguous", "epoch-cache", "producer-sequence", "open-transaction"}

# How a broker got its place in the ISR.
SAID = {
    "bad": "entered the ISR, though it was not registered (for 10000 ms)",
    "bad-elected": "an election left broker",
    "bad-grown": "put broker",
    "bad-unproposed": "had proposed no such ISR",
}

Judged = dict[str, dict[str, CheckResult]]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    cases = {f"{anomaly}-{case}": make.read(anomaly, case) for anomaly, case in NAMES}
    expiry = Expiry(age_ns=RETENTION_MS * TICK_NS, requested=True)
    # Cycles may be closed by what was over before what: no case of theirs is beside another one.
    in_turn = {f"{anomaly}-{case}" for anomaly, case in NAMES if anomaly in CYCLES}
    return judge_cases(
        spark,
        tmp_path_factory.mktemp("golden"),
        cases,
        expiry=expiry,
        transactions=True,
        interruptions=INTERRUPTIONS,
        in_turn=in_turn,
    )


@pytest.mark.parametrize(("anomaly", "case"), NAMES)
def test_golden_history_has_its_verdict(judged: Judged, anomaly: str, case: str) -> None:
    result = judged[f"{anomaly}-{case}"][anomaly]
    expected = EXPECTED[case.partition("-")[0]]
    if expected == "invalid" and anomaly in UNKNOWN_AT_WORST:
        expected = "unknown"
    if expected == "invalid" and anomaly in NEVER_WRONG:
        expected = "valid"
    assert result.verdict == expected, (result.reasons, result.counts)
    assert bool(result.reasons) == (expected != "valid")


@pytest.mark.parametrize(("anomaly", "case"), NAMES)
def test_golden_history_shows_nothing_else(judged: Judged, anomaly: str, case: str) -> None:
    results = judged[f"{anomaly}-{case}"]
    found = invalid(results)
    if anomaly not in {*TRANSACTIONS, *CYCLES}:
        # Of a history without transactions their checkers have no verdict.
        found -= TRANSACTIONS.keys()
    bad = case.startswith("bad") and anomaly not in {*UNKNOWN_AT_WORST, *NEVER_WRONG}
    expected = COMPANY.get(f"{anomaly}/{case}", set()) | ({anomaly, *COMPANY.get(anomaly, set())} if bad else set())
    assert found == expected, {name: results[name].reasons for name in found ^ expected}


def test_fault_of_a_story_touches_no_node_of_another_one() -> None:
    """Where lives of processes count, which such a fault parts, whosesoever it is."""
    by_lives = {"follower-went-back", *ADMIN}
    targets: dict[str, set[str]] = {}
    nodes: dict[str, set[str]] = {}
    for anomaly, case in NAMES:
        for line in make.read(anomaly, case).history:
            if line["kind"] == "nemesis" and anomaly in by_lives:
                targets.setdefault(f"{anomaly}/{case}", set()).update(line["targets"])
            elif line.get("node") is not None:
                nodes.setdefault(line["node"], set()).add(f"{anomaly}/{case}")
    assert {anomaly.partition("/")[0] for anomaly in targets} == {"follower-went-back", "partitions-went-back"}
    assert {name: sharing for name, own in targets.items() if (sharing := {n for n in own if nodes[n] != {name}})} == {}


@pytest.mark.parametrize("anomaly", MEASURED)
def test_golden_measure_is_what_the_history_shows(judged: Judged, anomaly: str) -> None:
    name, milliseconds = MEASURED[anomaly]
    assert judged[f"{anomaly}-bad"][anomaly].measures[name] == pytest.approx(milliseconds)
    assert judged[f"{anomaly}-ok"][anomaly].measures.get(name, 0.0) < 20


@pytest.mark.parametrize("anomaly", sorted({anomaly for anomaly, _ in NAMES} - UNKNOWN_AT_WORST - set(MEASURED)))
def test_golden_witness_names_what_it_proves(judged: Judged, anomaly: str) -> None:
    result = judged[f"{anomaly}-bad"][anomaly]
    assert result.witnesses
    assert all(witness.detail for witness in result.witnesses)
    if anomaly in {*BLACK_BOX, *TRANSACTIONS, *CYCLES, *APPLICATIONS, *COMPACTION, *ADMIN, *TOPICS}:
        assert all(witness.ops for witness in result.witnesses)


@pytest.mark.parametrize("anomaly", sorted({*WHITE_BOX} - UNKNOWN_AT_WORST - BY_FILES_ALONE))
def test_golden_finding_of_brokers_says_when_it_was_complete(judged: Judged, anomaly: str) -> None:
    cases = [case for name, case in NAMES if name == anomaly and case.startswith("bad")]
    found = [row for case in cases for row in judged[f"{anomaly}-{case}"][anomaly].witnesses if row.kind == "invalid"]
    assert len(found) >= len(cases)
    assert all(row.from_ns is not None and row.to_ns is not None and row.from_ns <= row.to_ns for row in found), found


@pytest.mark.parametrize("case", ["bad-earlier-life", "bad-later-life"])
def test_golden_value_of_another_life_names_that_one_and_its_send(judged: Judged, case: str) -> None:
    witnesses = judged[f"fabricated-value-{case}"]["fabricated-value"].witnesses
    found = [row for row in witnesses if "nobody sent" not in row.detail]
    assert found
    for row in found:
        told = re.search(r"which was sent to (\S+) and not to that one, was read at (\S+) offset", row.detail)
        assert told is not None, row.detail
        there, here = told.groups()
        assert here == row.p != there
        assert here.partition("~")[0] == there.partition("~")[0]
        assert len(row.ops) == 2


@pytest.mark.parametrize("case", SAID)
def test_golden_isr_that_grew_is_judged_by_how_it_did(judged: Judged, case: str) -> None:
    result = judged[f"live-isr-{case}"]["live-isr"]
    assert all(SAID[case] in witness.detail for witness in result.witnesses), result.witnesses


def test_golden_election_of_the_longest_log_is_counted_as_allowed(judged: Judged) -> None:
    result = judged["isr-znode-ok-longest-log"]["isr-znode"]
    assert result.counts["allowed"] == 1
    assert [(row.kind, row.rule) for row in result.witnesses] == [("allowed", "longest-log")]
    assert "but had the longest log" in result.witnesses[0].detail


@pytest.mark.parametrize("case", ["ok-unwritten", "ok-not-alive", "ok-files-changed"])
def test_golden_deletion_that_a_broker_may_have_forgotten_is_counted_as_allowed(judged: Judged, case: str) -> None:
    result = judged[f"deleted-records-{case}"]["deleted-records"]
    assert [(row.kind, row.rule) for row in result.witnesses] == [("allowed", "shown")]


@pytest.mark.parametrize(("case", "found"), [("bad-called-another", 2), ("bad-acks", 1)])
def test_golden_answer_is_judged_by_the_acks_that_its_client_asked_for(judged: Judged, case: str, found: int) -> None:
    witnesses = judged[f"ack-committed-{case}"]["ack-committed"].witnesses
    assert len(witnesses) == found
    assert any("said to be one with acks=1; its client had sent that with acks=-1" in row.detail for row in witnesses)
    early = [row for row in witnesses if "the high watermark had not passed it" in row.detail]
    assert len(early) == found - 1


@pytest.mark.parametrize(("anomaly", "case"), [name for name in NAMES if name[0] in CYCLES])
def test_golden_cycles_are_counted(judged: Judged, anomaly: str, case: str) -> None:
    results = judged[f"{anomaly}-{case}"]
    counted = {name: results[name].counts.get("allowed", 0) for name in CYCLES}
    assert counted == dict.fromkeys(CYCLES, 0) | {anomaly: ALLOWED.get((anomaly, case), 0)}
    assert all(row.cycle for name in CYCLES for row in results[name].witnesses)


def test_golden_histories_cover_every_checker() -> None:
    every = (BLACK_BOX, GROUPS, WHITE_BOX, STARTS, TRANSACTIONS, CYCLES, APPLICATIONS, COMPACTION, ADMIN, TOPICS)
    assert {spec.name for spec in ALL} == {name for kind in every for name in kind}


def test_golden_files_are_what_make_builds() -> None:
    built = {(anomaly, name): case for anomaly, name, case in make.build()}
    for (anomaly, name), case in built.items():
        stored = make.read(anomaly, name)
        assert stored.history == [make.known(line) for line in case.history], (anomaly, name)
        for table, rows in case.tables.items():
            assert stored.tables[table] == [make.known(row) for row in rows], (anomaly, name, table)
    assert {path.name for path in Path(make.ROOT).iterdir() if path.is_dir()} - {"__pycache__"} == {
        anomaly for anomaly, _ in built
    }
