"""What a configuration excuses, and where it stops: acks=1, acks=0, retention, unclean elections, work around faults.

Each setting has one Spark pass; every history is a partition of its own.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.allowances.expiry import expiry_of
from checkers.coverage.queries import around_faults, load_gaps, work_in
from checkers.coverage.recovery import QuietWindow, Work
from checkers.history.load import load_history
from checkers.history.retention import SLACK_NS, Expiry, Retention
from checkers.verdicts.verdict import CheckResult
from tests.golden.make import read as golden
from tests.support.histories import TICK_NS, Story, write_history
from tests.support.judging import Case, case_of, invalid, judge_cases, pyspark_sockets
from tests.support.model_cluster import ModelCluster
from tests.unit.checkers.coverage.test_incidents import INFO

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("R9")]

Judged = dict[str, dict[str, CheckResult]]


# -- acks=1: allowed only where the leader changed after the send began --------------------------------------------


def _lost_send(story: Story, *, node: str = "n1") -> None:
    """One read record, and one sent with acks=1 that a poll passes over."""
    story.send(1, 0, process=1)
    story.send(2, 1, acks=1, process=2, node=node)
    story.send(3, 2, process=3)
    story.poll(0, [(0, 1), (2, 3)], process=20)


def _led(story: Story, leader: str, epoch: int, phase: str = "main") -> None:
    story.harness("leadership", topic=story.topic, partition=0, leader=leader, epoch=epoch, isr=[1, 2], phase=phase)


def _never_changed(story: Story) -> None:
    _led(story, "n1", 0)
    _lost_send(story)
    # A new epoch alone: a dead follower left the ISR.
    _led(story, "n1", 1)


def _changed_before(story: Story) -> None:
    _led(story, "n2", 0)
    _led(story, "n1", 1)
    _lost_send(story)


def _changed_by_the_rotation(story: Story) -> None:
    _led(story, "n1", 0)
    _lost_send(story)
    _led(story, "n2", 1, phase="drain-n2")
    story.poll(0, [(0, 1), (2, 3)], process=21, phase="drain-n2", epoch=1, consumer="d")


def _changed_after(story: Story) -> None:
    _led(story, "n1", 0)
    _lost_send(story)
    _led(story, "n2", 1)


def _answered_by_the_deposed(story: Story) -> None:
    _led(story, "n1", 0)
    _led(story, "n2", 1)
    _lost_send(story, node="n1")


ACKS_ONE: dict[str, tuple[Callable[[Story], None], str]] = {
    "never": (_never_changed, "invalid"),
    "before": (_changed_before, "invalid"),
    "rotation": (_changed_by_the_rotation, "invalid"),
    "after": (_changed_after, "valid"),
    "deposed": (_answered_by_the_deposed, "valid"),
}


# -- acks=0 is acknowledged by nobody ------------------------------------------------------------------------------


def _acks_zero(story: Story) -> None:
    story.send(1, 0, process=1)
    story.send([2, 3], acks=0, process=2)
    story.send(4, acks=0, process=2)
    story.poll(0, [(0, 1), (1, 4)], process=20)


# -- what an unclean election takes --------------------------------------------------------------------------------


def _unclean_life(topic: str, first_broker: int, lost: int = 2) -> ModelCluster:
    """A broker from outside the ISR is elected in the middle, and what only the others had is gone. lost: records."""
    model = ModelCluster(Random(7), topic, first_broker=first_broker, min_isr=1)
    first, second, third = model.brokers
    (p,) = model.partitions
    for _ in range(3):
        model.send()
    model.kill(third)
    for _ in range(lost):
        model.send()
    model.poll(0, process=50_000)
    model.kill(second)
    model.kill(first)
    # `third` comes back alone, and its log ends where it died.
    p.isr = [third]
    model.start(third, 1)
    model.poll(0, process=50_000)
    model.send()
    model.poll(0, process=50_000)
    return model


def _finished(model: ModelCluster) -> Case:
    """The others return, and later one of them is elected as it should be."""
    first, second, third = model.brokers
    model.start(first, 3)
    model.start(second, 2)
    # Nobody has led under an epoch from before the unclean election for long.
    model.story.now += 3_000
    for _ in range(4):
        model.send()
    model.poll(0, process=50_000)
    model.kill(third)
    model.send()
    model.start(third, 4)
    model.finish()
    return case_of(model)


def _as_it_went(_: Case) -> None:
    pass


def _bytes_differ(case: Case) -> None:
    case.tables["batches"][0]["digest"] = "other"


def _isr_empty(case: Case) -> None:
    row = [row for row in case.tables["znodes"] if row["path"].endswith("/state")][-1]
    row["data"] = json.dumps({**json.loads(row["data"]), "isr": []})


def _lost_before(case: Case) -> None:
    """A record vanished between two polls that were both over before any broker died."""
    polls = [line for line in case.history if line["f"] == "poll" and line["type"] == "ok"]
    early = copy.deepcopy([line for line in case.history[: polls[0]["index"] + 1] if line["f"] == "poll"])
    sent = next(line for line in case.history if line["f"] == "send" and line["type"] == "ok")
    at_ns = sent["time_ns"]
    value = case.history[sent["invoke"]]["values"][0]
    for nth, records in enumerate(([{"offset": 0, "value": value, "epoch": 0, "intact": True}], [])):
        index = len(case.history)
        asked, answer = copy.deepcopy(early[-2]), copy.deepcopy(early[-1])
        asked |= {"index": index, "time_ns": at_ns + 10 + 10 * nth, "process": 60_000 + nth, "consumer": f"e{nth}"}
        answer |= {"index": index + 1, "invoke": index, "time_ns": at_ns + 15 + 10 * nth, "process": 60_000 + nth}
        answer |= {"records": records, "next_position": 1, "hw": 1, "lso": 1}
        case.history += [asked, answer]


LATER = 5
"""An offset that only records written since the election have."""


def _never_read_later(case: Case) -> None:
    """A record of the new leader's is acknowledged, and every poll passes over it."""
    _not_returned(case, lambda line: True)


def _read_and_gone_later(case: Case) -> None:
    """A record of the new leader's is read, and gone at the drain."""
    _not_returned(case, lambda line: line["phase"].startswith("drain"))


def _not_returned(case: Case, by: Callable[[dict[str, Any]], bool]) -> None:
    for line in case.history:
        if line["f"] == "poll" and line["type"] == "ok" and by(line):
            line["records"] = [record for record in line["records"] if record["offset"] != LATER]


def _short_leader_later(case: Case) -> None:
    """A later leader, from the ISR, lacks a record that the one before it had exposed."""
    taken = [event for event in case.tables["events"] if event["e"] == "become_leader"]
    assert taken[-1]["le"] > taken[-2]["le"] > 0
    taken[-1].update(leo=LATER, hw=LATER, epoch_start=LATER)


def _member_short_later(case: Case) -> None:
    """A member of the ISR lacks what was acknowledged last, and its own log and checkpoint know of no more."""
    node = case.tables["batches"][-1]["node"]
    last = [row for row in case.tables["batches"] if row["node"] == node][-1]
    case.tables["batches"].remove(last)
    for row in case.tables["checkpoints"]:
        if row["node"] == node and row["kind"] == "high-watermark":
            row["offset"] = last["base"]


def _forgotten_unheard(case: Case) -> None:
    """A broker lost what it knew to be committed before it could hear of the new leader: no leader told it to cut."""
    opened = next(event for event in case.tables["events"] if event["e"] == "recovered")
    mine = [event for event in case.tables["events"] if event["b"] == opened["b"] and event["i"] != opened["i"]]
    known = max(event["hw"] for event in mine if "hw" in event)
    opened.update(leo=known - 1, hw=known - 1)


def _sent_back_later(case: Case) -> None:
    """The new leader gives a record an offset below one that it had given before."""
    sends = [line for line in case.history if line["f"] == "send" and line["type"] == "ok"]
    one, other = [line for line in sends if line["base_offset"] in (LATER, LATER + 1)][-2:]
    assert (one["base_offset"], other["base_offset"]) == (LATER, LATER + 1)
    one["base_offset"], other["base_offset"] = LATER + 1, LATER
    values = {LATER: case.history[other["invoke"]]["values"][0], LATER + 1: case.history[one["invoke"]]["values"][0]}
    for line in case.history:
        for record in line.get("records", ()):
            record["value"] = values.get(record["offset"], record["value"])


UNCLEAN: dict[str, tuple[Callable[[Case], None], set[str]]] = {
    "as-it-went": (_as_it_went, set()),
    "bytes-differ": (_bytes_differ, {"log-matching"}),
    "isr-empty": (_isr_empty, {"isr-znode"}),
    "lost-before": (_lost_before, {"vanished-read"}),
    "lost-later": (_never_read_later, {"lost-write"}),
    "gone-later": (_read_and_gone_later, {"vanished-read"}),
    "short-leader-later": (_short_leader_later, {"leader-completeness"}),
    # More had been exposed before the unclean election than since.
    "short-leader-hidden": (_short_leader_later, {"leader-completeness"}),
    "short-member-later": (_member_short_later, {"log-matching"}),
    "sent-back-later": (_sent_back_later, {"real-time-order"}),
    "forgotten-unheard": (_forgotten_unheard, {"truncation"}),
}


# -- retention -----------------------------------------------------------------------------------------------------


AGE_MS = 50


def _head_gone(story: Story, old: int, young: int, left: int = 2) -> None:
    """The log starts for every reader above so many records that were sent long ago, and so many that were sent just
    now. Of either the first was read once, the second never.
    """
    end = old + young + left
    for nth in range(end):
        if nth == old:
            story.now += AGE_MS
        story.send(nth + 1, nth, process=nth)
        if nth in (0, old) and nth < old + young:
            story.poll(nth, [(nth, nth + 1)], process=20)
    story.send(end + 1, end, process=end, sentinel=True, phase="final")
    start = old + young
    for reader in ("wire", "confluent"):
        story.poll(
            start,
            [(nth, nth + 1) for nth in range(start, end + 1)],
            log_start=start,
            reader=reader,
            consumer=reader,
            phase="drain-0",
            process=900 + len(reader),
            epoch=5,
        )
        story.drained(end + 1, start=start, reader=reader)


def _expired(story: Story) -> None:
    _head_gone(story, old=2, young=0)


HEAD_OF_A_REPLICA = "log-matching-ok-head-expired"
"""A golden history: one replica's log starts later, long after its records were sent."""

HEADS: dict[str, Callable[[Story], None]] = {
    "expired": _expired,
    "young": lambda story: _head_gone(story, old=0, young=2),
    "both": lambda story: _head_gone(story, old=2, young=2),
}


def _refused_at(story: Story, age_ms: int = AGE_MS) -> None:
    """Offset 1 was shown, and the next leader refuses a poll at it so long after it was sent."""
    for nth in range(4):
        story.send(nth + 1, nth, process=nth)
    story.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4)], process=20)
    story.now += age_ms
    story.poll(1, outcome="fail", error="OFFSET_OUT_OF_RANGE", epoch=1, process=21, consumer="c1")


def _refused_above_the_start(story: Story) -> None:
    """That leader says later that its log begins there."""
    _refused_at(story)
    story.list_offsets(1, epoch=1, timestamp=-2, process=22)


def _refused_below_the_start(story: Story) -> None:
    """Its log begins above; the leader before, and the one after, know of less that was deleted."""
    _refused_at(story)
    story.list_offsets(2, epoch=1, timestamp=-2, process=22)
    story.list_offsets(0, epoch=0, timestamp=-2, process=23)
    story.list_offsets(1, epoch=2, timestamp=-2, process=24)


def _refused_after_it_had_said_so(story: Story) -> None:
    """What it deleted, it deleted in between."""
    story.list_offsets(0, epoch=1, timestamp=-2, process=22)
    _refused_at(story)


def _refused_too_young(story: Story) -> None:
    """Nothing of it can have been deleted yet, though that leader's log begins above later."""
    _refused_at(story, AGE_MS // 2)
    story.now += AGE_MS
    story.list_offsets(2, epoch=1, timestamp=-2, process=22)


REFUSED: dict[str, Callable[[Story], None]] = {
    "refused": _refused_at,
    "refused-young": _refused_too_young,
    "refused-above": _refused_above_the_start,
    "refused-below": _refused_below_the_start,
    "refused-between": _refused_after_it_had_said_so,
}


def _told(tell: Callable[[Story], None], topic: str) -> Case:
    story = Story(topic)
    tell(story)
    return Case(story.lines)


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    cases = {f"acks1-{name}": _told(tell, f"acks1-{name}") for name, (tell, _) in ACKS_ONE.items()}
    cases["acks0"] = _told(_acks_zero, "acks0")
    cases["expired"] = _told(_expired, "expired")
    cases[HEAD_OF_A_REPLICA] = golden("log-matching", "ok-head-expired")
    cases |= {name: _told(tell, name) for name, tell in REFUSED.items()}
    return judge_cases(spark, tmp_path_factory.mktemp("plain"), cases)


@pytest.fixture(scope="module")
def lenient(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """The same, and more, where unclean elections and retention are on."""
    cases = {name: _told(tell, name) for name, tell in HEADS.items()}
    cases |= {name: _told(tell, name) for name, tell in REFUSED.items()}
    for number, (name, (damage, _)) in enumerate(UNCLEAN.items()):
        case = copy.deepcopy(
            _finished(_unclean_life(name, 10 * number + 11, 9 if name == "short-leader-hidden" else 2))
        )
        damage(case)
        cases[name] = case
    return judge_cases(
        spark, tmp_path_factory.mktemp("lenient"), cases, unclean=True, expiry=Expiry(age_ns=AGE_MS * TICK_NS)
    )


@pytest.mark.parametrize("name", ACKS_ONE)
def test_acks_one_loss_is_allowed_only_where_the_leader_changed_since(plain: Judged, name: str) -> None:
    result = plain[f"acks1-{name}"]["lost-write"]
    assert result.verdict == ACKS_ONE[name][1], result.reasons
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
    assert invalid(results) == {"log-matching"}
    assert results["log-matching"].counts["found"] == 2


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
        "enough": _told(lambda story: _head_gone(story, old=2, young=0), "enough"),
        "little": _told(lambda story: _head_gone(story, old=2, young=0, left=1), "little"),
        "none": _told(lambda story: _head_gone(story, old=2, young=0, left=0), "none"),
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


# -- work around a fault -------------------------------------------------------------------------------------------


def test_work_while_a_fault_is_taken_back_is_none_under_it(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.send(1, 0, process=1, invoked=1, completed=2)
    story.poll(0, [(0, 1)], process=20, invoked=3, completed=4)
    story.nemesis("start", "isolate", 1, at=20, began_ns=10_000_000)
    story.nemesis("stop", "isolate", 1, at=60, began_ns=40_000_000)
    # While it was applied, and while it was taken back.
    story.send(2, 1, process=2, invoked=11, completed=15)
    story.send(3, 2, process=3, invoked=41, completed=50)
    story.send(4, acks=0, process=4, invoked=25, completed=26)
    story.poll(0, [(0, 1)], process=20, invoked=25, completed=26)
    story.send(5, 3, process=5, invoked=61, completed=62)
    # As older histories have it: their lines' own times.
    story.nemesis("start", "kill", 2, at=70)
    story.send(6, 4, process=6, invoked=75, completed=76)
    story.nemesis("stop", "kill", 2, at=80)
    with pyspark_sockets():
        history, health = load_history(spark, write_history(tmp_path / "history.jsonl", story.lines), tmp_path / "p")
        assert not health.problems
        around = {one.fault_id: one for one in around_faults(history)}
    one: Any = around[1]
    assert (one.w_before, one.w_during, one.w_after, one.w_tried) == (True, False, True, True)
    assert (one.r_before, one.r_during, one.r_after) == (True, True, False)
    assert around[2].w_during


def test_partition_that_only_sentinels_and_drains_reached_is_a_gap_of_the_load(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story()
    # Served: hw-0. Read only: hw-1. Written only, and read to its end: hw-2. Dead until the heal: hw-3.
    story.send(1, 0, process=1)
    story.poll(0, [(0, 1)], process=20)
    story.poll(0, [(0, 2)], partition=1, process=20)
    story.send(3, 0, partition=2, process=1)
    story.poll(1, [], partition=2, process=20)
    story.send(4, outcome="info", partition=3, process=2)
    story.send(5, outcome="fail", partition=3, process=3)
    story.send(6, 0, partition=3, process=4, sentinel=True)
    story.send(7, 1, partition=3, process=4, phase="final", sentinel=True)
    story.poll(0, [(0, 6), (1, 7)], partition=3, process=21, phase="drain-current")
    story.poll(0, [(0, 3)], partition=2, process=21, phase="drain-n1")
    # Nobody acknowledges acks=0: it is the polls that show it.
    story.send(8, acks=0, partition=4, process=5)
    story.poll(0, [(0, 8)], partition=4, process=20)
    with pyspark_sockets():
        history, health = load_history(spark, write_history(tmp_path / "history.jsonl", story.lines), tmp_path / "p")
        assert not health.problems
        assert load_gaps(history, [f"{story.topic}-{number}" for number in range(5)]) == [
            f"no acknowledged write to {story.topic}-1, {story.topic}-3 in the main phase of the load",
            f"no poll that returned a record of {story.topic}-2, {story.topic}-3 in the main phase of the load",
        ]
        assert load_gaps(history, [f"{story.topic}-0"]) == []


def _through_a_fault(story: Story) -> None:
    """Both partitions are served before and during fault 1, which ends at 60 ms."""
    for partition in (0, 1):
        story.send(10 * partition + 1, 0, partition=partition, process=1 + partition)
        story.poll(0, [(0, 10 * partition + 1)], partition=partition, process=20 + partition)
    story.nemesis("start", "isolate", 1, at=30)
    for partition in (0, 1):
        story.send(10 * partition + 2, 1, partition=partition, process=1 + partition)
        story.poll(1, [(1, 10 * partition + 2)], partition=partition, process=20 + partition)
    story.nemesis("stop", "isolate", 1, at=60)


def _healed(story: Story, partitions: tuple[int, ...] = (0, 1)) -> None:
    """The run's own hand: a sentinel that gets in, and drains that read everything."""
    story.harness("phase", phase="heal")
    for partition in partitions:
        story.send(10 * partition + 9, 2, partition=partition, process=8, phase="final", sentinel=True)
        story.poll(0, [(0, 10 * partition + 1)], partition=partition, process=30, phase="drain-current")


AFTER = QuietWindow(1, 60 * TICK_NS, None)


def _work(
    spark: SparkSession, folder: Path, story: Story, *, scripted: bool = False, window: QuietWindow = AFTER
) -> tuple[Any, dict[str, Work]]:
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "history.jsonl", story.lines), folder / "p")
        assert not health.problems
        (around,) = around_faults(history, scripted=scripted)
        assert load_gaps(history, [f"{story.topic}-0", f"{story.topic}-1"]) == [], "served, at some time in the load"
        others = [QuietWindow(7, 0, TICK_NS), QuietWindow(8, 10**12, None)]
        work = work_in(history, [others[0], window, others[1]])
        assert work[others[1]] == {}
        return around, work[window]


def test_partition_that_was_dead_from_a_fault_on_is_not_served_by_the_heal(spark: SparkSession, tmp_path: Path) -> None:
    """One early write is not enough, nor are a sentinel and a drain; the other partition's work is its own."""
    story = Story()
    _through_a_fault(story)
    story.send(3, 2, process=1)
    story.poll(2, [(2, 3)], process=20)
    story.send(13, outcome="info", partition=1, process=2)
    story.send(14, outcome="fail", partition=1, process=3)
    story.poll(2, outcome="info", partition=1, process=21)
    _healed(story, (1,))
    around, since = _work(spark, tmp_path, story)
    assert (around.w_after, around.r_after) == (True, True)
    assert since == {
        f"{story.topic}-0": Work(1, 1, wrote=True, read=True),
        f"{story.topic}-1": Work(2, 1, wrote=False, read=False),
    }


def test_work_that_began_under_the_last_fault_is_none_after_it(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    _through_a_fault(story)
    story.send(3, 2, process=1, invoked=59, completed=62)
    # An empty answer is one. acks=0 is acknowledged by nobody.
    story.poll(3, [], process=20, invoked=61, completed=62)
    story.send(4, acks=0, process=3, invoked=63, completed=64)
    _, since = _work(spark, tmp_path, story)
    assert since == {f"{story.topic}-0": Work(1, 1, wrote=False, read=True)}


def test_work_that_was_done_later_is_none_of_a_calm(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    _through_a_fault(story)
    story.send(3, 2, process=1, invoked=61, completed=80)
    story.poll(2, [(2, 3)], process=20, invoked=62, completed=79)
    story.send(4, 3, process=2, invoked=80, completed=81)
    _, since = _work(spark, tmp_path, story, window=QuietWindow(1, 60 * TICK_NS, 80 * TICK_NS))
    assert since == {f"{story.topic}-0": Work(1, 1, wrote=False, read=True)}


@pytest.mark.parametrize("scripted", [False, True])
def test_sentinels_and_drains_are_work_after_a_fault_of_a_script_only(
    spark: SparkSession, tmp_path: Path, scripted: bool
) -> None:
    story = Story()
    _through_a_fault(story)
    _healed(story)
    around, since = _work(spark, tmp_path, story, scripted=scripted)
    assert (around.w_after, around.r_after) == (scripted, scripted)
    assert (around.w_before, around.w_during, around.r_before, around.r_during) == (True, True, True, True)
    assert since == {}
