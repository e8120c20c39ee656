"""Until when a loss may be attributed to an unclean election, and which losses may."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.black_box.facts import ack_epochs
from checkers.evidence.event_log_gaps import whole_logs
from checkers.evidence.timeline import build_timeline, epochs_table
from checkers.evidence.touched_files import NOTHING_TOUCHED
from checkers.evidence.unclean_elections import (
    RESPONSE_NS,
    WALL_SLACK_NS,
    Unclean,
    UncleanElection,
    attributable,
    epoch_interval,
    last_until,
    unclean_of,
)
from checkers.evidence.znodes import znode_tables
from checkers.history import schema
from checkers.history.load import load_history
from checkers.white_box.leadership_rules import leadership_rules
from checkers.white_box.lives import replica_lives
from checkers.white_box.restart_rules import restart_rules
from tests.support.histories import Story, write_history
from tests.support.judging import pyspark_sockets
from tests.support.run_info import run_info

pytestmark = pytest.mark.spark

MS = 1_000_000
S = 1_000 * MS


def _states(spark: SparkSession, folder: Path) -> DataFrame:
    """Two partitions, led by 1 alone; by 2 under epoch 3, from outside the ISR, at 5 s; and by 3 as it should be."""
    versions = [(0, 1, 1, [1]), (4_000, -1, 2, [1]), (5_000, 2, 3, [2]), (6_000, 2, 3, [2, 3]), (9_000, 3, 4, [3])]
    path = folder / "znodes.jsonl"
    with path.open("w") as file:
        for zxid, (number, (at, (time_ms, leader, epoch, isr))) in enumerate(
            ((number, version) for number in (0, 1) for version in enumerate(versions)), 1
        ):
            data = {"leader": leader, "leader_epoch": epoch, "controller_epoch": 1, "isr": isr}
            row = {"zxid": zxid, "position": 0, "time_ms": time_ms, "session": 7, "version": at, "node": "zk1"}
            row |= {"op": "set" if at else "create", "data": json.dumps(data)}
            file.write(json.dumps({**row, "path": f"/brokers/topics/hw/partitions/{number}/state"}) + "\n")
    return znode_tables(spark.read.schema(schema.ZNODE).json(path.as_uri())).states


def _logs(spark: SparkSession, folder: Path, lines: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The event log of broker 1."""
    path = folder / "events.jsonl"
    common = {"node": "n1", "b": 1, "i": "a", "p": "hw-0"}
    path.write_text("".join(json.dumps({**common, "s": s, **line}) + "\n" for s, line in enumerate(lines)))
    return spark.read.schema(schema.EVENTS).json(path.as_uri())


def test_election_ends_with_what_was_last_done_by_a_leader_from_before_it(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        {"e": "append", "role": "leader", "le": 1, "base": 0, "last": 0, "t_ns": 2 * S},
        # Deposed, and it has not heard of it.
        {"e": "ack", "le": 1, "base": 1, "last": 1, "acks": -1, "t_ns": 7 * S},
        # A follower of that epoch, and a leader of the new one.
        {"e": "append", "role": "follower", "le": 1, "base": 1, "last": 1, "t_ns": 8 * S},
        {"e": "hw", "role": "leader", "le": 3, "hw": 1, "t_ns": 20 * S},
    ]
    with pyspark_sockets():
        timeline = build_timeline(_logs(spark, tmp_path, lines))
        states = _states(spark, tmp_path)
        found = unclean_of(states, timeline, 0, lambda: {1})
        untold = unclean_of(states, timeline, 0, lambda: {2, 3})
    began_ns = 5 * S - WALL_SLACK_NS
    assert found == {
        "hw-0": [UncleanElection(3, began_ns, 7 * S + RESPONSE_NS)],
        # Nobody did anything there, and everybody's log is there to say so.
        "hw-1": [UncleanElection(3, began_ns, 5 * S + RESPONSE_NS)],
    }
    # Who led before it may have done so later than its log, which lacks something, tells.
    assert untold == {p: [UncleanElection(3, began_ns, None)] for p in found}


def test_election_that_nobody_led_on_beside_ends_at_once(spark: SparkSession, tmp_path: Path) -> None:
    lines = [{"e": "visible", "le": 1, "kind": "fetch", "upto": 1, "hw": 1, "t_ns": 2 * S}]
    with pyspark_sockets():
        timeline = build_timeline(_logs(spark, tmp_path, lines))
        found = unclean_of(_states(spark, tmp_path), timeline, 0, lambda: {1, 2})
    assert found["hw-0"][0].until_ns == 5 * S + RESPONSE_NS


START = {"e": "start", "p": None, "t_ns": 1}
REGISTERED = {"e": "registered", "p": None, "be": 11, "t_ns": 2}
ACK = {"e": "ack", "le": 1, "base": 0, "last": 0, "acks": -1, "t_ns": 3}
LATER = {"e": "flush", "upto": 0, "t_ns": 99_000_000}

WHOLE: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "as-it-was": ([START, REGISTERED, ACK, LATER], True),
    "nothing": ([], False),
    "hole": ([START, REGISTERED, ACK, {**LATER, "s": 4}], False),
    "no-beginning": ([REGISTERED, ACK, LATER], False),
    "a-life-less": ([START, {**REGISTERED, "be": 12}, ACK, LATER], False),
    "an-answer-less": ([START, REGISTERED, {**ACK, "base": 1}, LATER], False),
}


@pytest.mark.parametrize("name", WHOLE)
def test_event_log_is_whole_where_all_that_others_saw_is_in_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    lines, whole = WHOLE[name]
    story = Story()
    story.send(1, 0, process=1)
    with pyspark_sockets():
        history, _ = load_history(spark, write_history(tmp_path / "history.jsonl", story.lines), tmp_path / "parquet")
        events = _logs(spark, tmp_path, lines)
        lives = spark.range(1).select(F.lit(1).alias("b"), F.lit(11).cast("bigint").alias("czxid"))
        assert whole_logs(history, events, build_timeline(events), lives) == ({1} if whole else set())


def test_response_is_of_the_epoch_of_the_broker_that_got_the_request(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.send(1, 0, process=1, node="n1", invoked=1, completed=9)
    # Deposed, and it has not heard of it: it acknowledges another record at that offset.
    lines = [{**ACK, "le": 3, "t_ns": 5 * MS}, {**ACK, "node": "n2", "b": 2, "le": 1, "t_ns": 4 * MS}]
    with pyspark_sockets():
        history, _ = load_history(spark, write_history(tmp_path / "history.jsonl", story.lines), tmp_path / "parquet")
        found = [row.ack_epoch for row in ack_epochs(history, _logs(spark, tmp_path, lines)).collect()]
    assert found == [3]


HW = {"e": "hw", "role": "follower", "le": 2, "hw": 5, "t_ns": S}
FOLLOWED = {"e": "become_follower", "le": 2, "leo": 0, "hw": 0, "t_ns": S}
HEARD = {"e": "become_follower", "le": 3, "leo": 5, "hw": 5, "t_ns": 6 * S}
OPENED = {"e": "recovered", "leo": 3, "hw": 3, "i": "z", "t_ns": 9 * S}

FORGOTTEN: dict[str, tuple[list[dict[str, Any]], bool]] = {
    # The kill came between the cut and its line.
    "heard": ([FOLLOWED, HW, HEARD, OPENED], True),
    "cut": ([HW, {**HEARD, "e": "truncate", "from_leo": 5, "to": 5}, {**HW, "le": 3}, OPENED], False),
    "unheard": ([FOLLOWED, HW, OPENED], False),
    "nothing": ([HW, OPENED], False),
}


@pytest.fixture(scope="module")
def forgotten(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[bool]]:
    """Case → whether each of its findings is attributable."""
    with pyspark_sockets():
        events = _logs(spark, tmp_path_factory.mktemp("forgotten"), _beside_each_other(FORGOTTEN))
        found = restart_rules(evidence := _evidence(spark, events, {}), replica_lives(evidence)).findings
        assert found is not None
        return _told(found, {case: [UncleanElection(3, 5 * S, None)] for case in FORGOTTEN})


@pytest.mark.parametrize("name", FORGOTTEN)
def test_end_forgotten_over_a_restart_is_attributed_to_an_election_that_the_broker_knew(
    forgotten: Mapping[str, list[bool]], name: str
) -> None:
    assert forgotten[name] == [FORGOTTEN[name][1]]


def _beside_each_other(cases: Mapping[str, tuple[list[dict[str, Any]], Any]]) -> list[dict[str, Any]]:
    """Lines of all cases, each of a partition with its name, and of brokers of its own."""
    found = []
    for nth, (case, (lines, _)) in enumerate(cases.items()):
        for s, line in enumerate(lines):
            broker = 10 * nth + line.get("b", 1)
            p = None if "p" in line else case
            found.append({**line, "s": s, "b": broker, "node": f"n{broker}", "p": p})
    return found


def _evidence(spark: SparkSession, events: DataFrame, unclean: Unclean) -> Any:
    timeline = build_timeline(events)
    return SimpleNamespace(
        info=run_info(partitions=tuple(unclean)),
        unclean=unclean,
        events=events,
        timeline=timeline,
        epochs=epochs_table(timeline),
        touched=NOTHING_TOUCHED,
        znodes=SimpleNamespace(states=spark.range(0).select(F.lit("").alias("p"), F.lit(1).alias("generation"))),
    )


def _told(findings: DataFrame, unclean: Unclean) -> Mapping[str, list[bool]]:
    """Partition → whether each of its findings is attributable to one of these elections."""
    columns = {name: F.col(name) for name in ("lost_epoch", "missed_epoch", "from_ns", "to_ns")}
    rows = findings.select("p", attributable(unclean, **columns).alias("attributable")).collect()
    return {p: [row.attributable for row in rows if row.p == p] for p in unclean}


BY_EPOCH = {"e": "start", "p": None, "truncation": "leader-epoch", "t_ns": 1}
LED = {"b": 2, "i": "x", "role": "leader", "e": "hw", "hw": 5, "t_ns": S}
APPENDED = {"e": "append", "role": "follower", "base": 0, "last": 4, "t_ns": S}
CUT = {"e": "truncate", "from_leo": 5, "to": 3, "hw": 0, "in_isr": False, "reason": "diverging-epoch", "t_ns": 900 * S}

CUTS: dict[str, tuple[list[dict[str, Any]], list[bool]]] = {
    # It comes back long after the election, in whose epoch what it had is missing.
    "before": ([{**LED, "le": 2}, {**APPENDED, "le": 2}, {**CUT, "le": 3}], [True]),
    "known": ([{**APPENDED, "le": 2}, {**HW, "le": 2}, {**CUT, "le": 3, "hw": 5}], [True]),
    "since": ([{**LED, "le": 3}, {**APPENDED, "le": 3}, {**CUT, "le": 4}], [False]),
    "known-since": ([{**APPENDED, "le": 2}, {**HW, "le": 3}, {**CUT, "le": 4, "hw": 5}], [False]),
    "within": ([{**LED, "le": 2}, {**APPENDED, "le": 2}, {**CUT, "le": 2}], [False]),
    # What it takes for its watermark may be that of before the election.
    "stored": ([{**APPENDED, "le": 4}, {**CUT, "le": 4, "hw": 5}], []),
    "unexposed": ([{**LED, "le": 2, "hw": 3}, {**APPENDED, "le": 2}, {**CUT, "le": 3}], []),
    # Whoever followed an older epoch may have another log than that leader's.
    "other": ([{**LED, "le": 2}, {**APPENDED, "le": 1}, {**CUT, "le": 2}], []),
}


@pytest.fixture(scope="module")
def cuts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[bool]]:
    """Case → whether each of its findings is attributable."""
    unclean = {case: [UncleanElection(3, 5 * S, 7 * S)] for case in CUTS}
    cases = {case: ([BY_EPOCH, *lines], expected) for case, (lines, expected) in CUTS.items()}
    with pyspark_sockets():
        events = _logs(spark, tmp_path_factory.mktemp("cuts"), _beside_each_other(cases))
        evidence = _evidence(spark, events, unclean)
        found = leadership_rules(evidence, replica_lives(evidence)).findings
        assert found is not None
        return _told(found.where(F.col("checker") == "truncation"), unclean)


@pytest.mark.parametrize("name", CUTS)
def test_cut_of_a_replica_is_attributed_to_an_election_by_the_epochs_of_what_it_had(
    cuts: Mapping[str, list[bool]], name: str
) -> None:
    assert cuts[name] == CUTS[name][1]


TWO = {"p": [UncleanElection(3, 50, 70), UncleanElection(6, 500, 700)], "endless": [UncleanElection(3, 50, None)]}

# Partition, epoch of what is lost, when it was there, when not any more: attributable?
# And the epoch in which it was missed, if known.
LOSSES: list[tuple[str | int | bool | None, ...]] = [
    ("p", 2, 10, 60, True),
    ("p", 2, 10, 40, False),
    ("p", 2, 10, None, True),
    # Written under the new leader's epoch: by the next one, or by none.
    ("p", 3, 60, 100, False),
    ("p", 5, 60, 600, True),
    ("p", 6, 600, 900, False),
    # An epoch is stronger than a time: a deposed leader's record, however late it was shown.
    ("p", 2, 90, 100, True),
    ("p", None, 60, 100, True),
    ("p", None, 71, 100, False),
    ("p", None, 71, 600, True),
    ("p", None, 701, 900, False),
    ("p", None, None, 100, True),
    ("endless", None, 10_000, 20_000, True),
    ("endless", 3, 10_000, 20_000, False),
    ("other", 2, 10, 60, False),
    # Missed by a leader from before the election, or by it.
    ("p", 1, 10, 60, False, 2),
    ("p", 2, 10, 60, True, 3),
    ("p", 3, 60, 600, False, 5),
    ("p", 3, 60, 600, True, 6),
    ("p", None, 60, 100, False, 2),
]


def test_loss_is_attributed_to_an_election_between_what_was_written_and_what_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "losses.jsonl"
    names = ("p", "epoch", "from_ns", "to_ns", "attributable", "missed")
    rows = [dict(zip(names, row, strict=False)) for row in LOSSES]
    path.write_text("".join(json.dumps({"n": n, **row}) + "\n" for n, row in enumerate(rows)))
    columns = {"lost_epoch": F.col("epoch"), "missed_epoch": F.col("missed")}
    columns |= {"from_ns": F.col("from_ns"), "to_ns": F.col("to_ns")}
    with pyspark_sockets():
        losses = spark.read.schema("n int, p string, epoch int, from_ns bigint, to_ns bigint, missed int").json(
            path.as_uri()
        )
        told = losses.select(
            "n",
            attributable(TWO, **columns).alias("attributable"),
            attributable({}, **columns).alias("never"),
            epoch_interval(TWO, F.coalesce("epoch", F.lit(9))).alias("epoch_interval"),
            last_until(TWO).alias("until"),
        )
        found = {row.n: row for row in told.collect()}
    assert [found[n].attributable for n in range(len(LOSSES))] == [row[4] for row in LOSSES]
    assert not any(row.never for row in found.values())
    assert [found[n].epoch_interval for n in (0, 3, 4, 5, 12, 14)] == [0, 1, 1, 2, 1, 0]
    assert [found[n].until for n in (0, 12, 14)] == [700, None, None]
