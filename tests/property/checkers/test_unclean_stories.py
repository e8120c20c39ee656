"""What clients saw around an unclean election: which of it is attributable to that, and what is not, by epochs and by
time.

No event log tells of these: what is not known by a leader epoch is known by its time, or not at all. Every story is a
topic of its own; its partition is led by broker 1 until broker 2 is elected from outside the ISR under EPOCH.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.verdicts.verdict import CheckResult
from tests.property.checkers.unclean_applications import APPLICATIONS
from tests.property.checkers.unclean_producers import PRODUCERS
from tests.property.checkers.unclean_wholes import MANY, WHOLES
from tests.support.histories import Story
from tests.support.judging import Case, invalid, judge_cases

pytestmark = pytest.mark.spark

EPOCH = 3
AT_MS = 500
"""Of the election. What was over at 100 came before it, what began at 600 after."""

OLD = [(0, 1), (1, 2), (2, 3)]
NEW = [(0, 1), (1, 2), (2, 9)]


def _znodes(topic: str, number: int) -> list[dict[str, Any]]:
    """The states of its partition, and who has a replica; the first time, that the two brokers are there."""
    common = {"node": "zk1", "position": 0, "session": 7}
    first = 10 * number + 11
    assigned = json.dumps({"version": 3, "partitions": {"0": [1, 2]}})
    topic_row = {**common, "zxid": first, "time_ms": 0, "op": "create", "version": 0, "data": assigned}
    rows = [{**topic_row, "path": f"/brokers/topics/{topic}"}]
    if number == 0:
        rows += [{**topic_row, "zxid": broker, "path": f"/brokers/ids/{broker}"} for broker in (1, 2)]
    for version, (time_ms, leader, epoch, isr) in enumerate([(0, 1, 0, [1]), (AT_MS, 2, EPOCH, [2])]):
        state = {"leader": leader, "leader_epoch": epoch, "controller_epoch": 1, "isr": isr}
        row = {**common, "zxid": first + 1 + version, "time_ms": time_ms, "version": version}
        row |= {"op": "set" if version else "create", "data": json.dumps(state)}
        rows.append({**row, "path": f"/brokers/topics/{topic}/partitions/0/state"})
    return rows


def _sent(story: Story, count: int = 3) -> None:
    for nth in range(count):
        story.send(nth + 1, nth, process=nth, invoked=2 * nth + 1, completed=2 * nth + 2)


def _took(story: Story, value: int, at: int) -> None:
    """A send whose answer was lost."""
    story.send(value, outcome="info", process=value, invoked=at, completed=at + 1)


def _read(story: Story, at: int, records: list[tuple[int, int]], epoch: int, *written: int, **fields: Any) -> None:
    """written: leader epochs of the first records, where they are not that of the answer."""
    story.poll(
        records[0][0], records, epoch=epoch, invoked=at, completed=at + 1, process=20, consumer=f"c{at}", **fields
    )
    for record, own in zip(story.lines[-1]["records"], written, strict=False):
        record["epoch"] = own


def _replaced(story: Story) -> None:
    _sent(story, 4)
    _read(story, 20, [*OLD, (3, 4)], 0)
    _took(story, 9, 550)
    _read(story, 600, NEW, EPOCH, 0, 0)


def _conflict_was_complete(story: Story) -> None:
    """By a reader that tells of no epoch, and that reads the second value again after the election."""
    _sent(story)
    _took(story, 9, 10)
    for at, records in ((20, OLD), (30, NEW), (600, NEW)):
        _read(story, at, records, -1, reader="confluent")


def _same_writer(story: Story) -> None:
    """One leader wrote both."""
    _sent(story)
    _read(story, 20, OLD, 0)
    _took(story, 9, 550)
    _read(story, 600, NEW, EPOCH, 0, 0, 0)


def _replaced_once_it_had_survived(story: Story) -> None:
    _sent(story)
    _read(story, 20, OLD, 0)
    _read(story, 600, OLD, EPOCH, 0, 0, 0)
    _took(story, 9, 650)
    _read(story, 700, NEW, 4, 0, 0)


def _passed_over_once_it_had_survived(story: Story) -> None:
    _sent(story)
    _read(story, 20, OLD, 0)
    _read(story, 600, OLD, EPOCH, 0, 0, 0)
    _read(story, 700, [OLD[0], OLD[2]], 4, 0, 0)


def _drained_once_it_had_survived(story: Story) -> None:
    _sent(story)
    _read(story, 20, OLD, 0)
    _read(story, 600, OLD, EPOCH, 0, 0, 0)
    _read(story, 700, [OLD[0], OLD[2]], 4, 0, 0, phase="drain-0")
    story.drained(3)


def _newer_passed_over(story: Story) -> None:
    """What stood there before the election was lost by it; what stood there since was not."""
    _sent(story)
    _read(story, 20, OLD, 0)
    _took(story, 9, 550)
    _read(story, 600, NEW, EPOCH, 0, 0)
    _took(story, 10, 650)
    _read(story, 700, [*OLD[:2], (3, 10)], 4, 0, 0)


def _three_values(story: Story) -> None:
    _sent(story)
    _read(story, 20, OLD, 0)
    _took(story, 9, 550)
    _read(story, 600, NEW, EPOCH, 0, 0)
    _took(story, 11, 550)
    story.poll(0, [*OLD[:2], (2, 11)], epoch=EPOCH, invoked=600, completed=602, process=21, consumer="c1")


def _newer_below_start(story: Story) -> None:
    _sent(story)
    _read(story, 20, OLD, 0)
    _took(story, 9, 550)
    _read(story, 600, NEW, EPOCH, 0, 0)
    _took(story, 10, 650)
    _read(story, 700, [(3, 10)], 4, log_start=3)


def _lost_below_start(story: Story) -> None:
    _sent(story)
    _read(story, 20, OLD, 0)
    _took(story, 10, 650)
    _read(story, 700, [(3, 10)], 4, log_start=3)


def _start_was_told(story: Story) -> None:
    _sent(story)
    _read(story, 20, OLD, -1, reader="confluent")
    for at in (30, 700):
        _read(story, at, [(2, 3)], -1, log_start=2, reader="confluent")


def _sent_before_and_taken_after(story: Story) -> None:
    _sent(story, 4)
    story.send(9, 2, process=9, invoked=300, completed=600)


def _below_what_had_survived(story: Story) -> None:
    _sent(story, 4)
    _read(story, 20, [*OLD, (3, 4)], 0)
    _read(story, 600, [(3, 4)], EPOCH, 0)
    _took(story, 9, 650)
    _read(story, 700, NEW, 4, 0, 0)


def _deposed_leader_reads_on(story: Story) -> None:
    """It has what the new leader has not, and shows it to whoever asks."""
    _sent(story)
    _read(story, 20, OLD, 0)
    _took(story, 9, 550)
    _read(story, 600, NEW, EPOCH, 0, 0)
    _read(story, 700, OLD, 0)


def _uncommitted_comes_back(story: Story) -> None:
    """acks=1: the next leader had not got it, and the one that was elected unclean had."""
    _sent(story, 2)
    story.send([3, 4], 2, acks=1, process=3, invoked=5, completed=6)
    _took(story, 9, 10)
    _read(story, 20, NEW, 1, 0, 0)
    _read(story, 600, [*OLD, (3, 4)], EPOCH, 0, 0, 0, 0)


def _refused(story: Story, at: int, position: int, epoch: int) -> None:
    story.poll(
        position,
        epoch=epoch,
        outcome="fail",
        error="OFFSET_OUT_OF_RANGE",
        invoked=at,
        completed=at + 1,
        process=22,
        consumer=f"r{at}",
    )


def _refused_once_it_was_lost(story: Story) -> None:
    _sent(story, 4)
    _read(story, 20, [*OLD, (3, 4)], 0)
    _refused(story, 600, 4, EPOCH)


def _refused_once_it_had_survived(story: Story) -> None:
    """The leader before had shown more, and its successor as much as was asked for."""
    _sent(story, 4)
    _read(story, 20, [*OLD, (3, 4)], 0)
    _read(story, 600, OLD, EPOCH, 0, 0, 0)
    _refused(story, 700, 3, 4)


def _end_back_with_what_was_lost(story: Story) -> None:
    _sent(story, 4)
    _read(story, 20, [*OLD, (3, 4)], 0)
    story.list_offsets(3, epoch=EPOCH, invoked=600, completed=601, process=22)


def _end_back_with_what_had_survived(story: Story) -> None:
    _end_back_with_what_was_lost(story)
    story.list_offsets(2, epoch=4, invoked=700, completed=701, process=22)


STORIES: dict[str, tuple[Callable[[Story], None], set[str]]] = {
    "replaced": (_replaced, set()),
    "conflict-was-complete": (_conflict_was_complete, {"inconsistent-offset", "vanished-read"}),
    "same-writer": (_same_writer, {"inconsistent-offset", "real-time-order"}),
    "replaced-later": (
        _replaced_once_it_had_survived,
        {"inconsistent-offset", "vanished-read", "real-time-order"},
    ),
    "passed-over-later": (_passed_over_once_it_had_survived, {"vanished-read", "hole"}),
    "drained-later": (_drained_once_it_had_survived, {"vanished-read", "hole"}),
    "newer-passed-over": (_newer_passed_over, {"vanished-read", "hole"}),
    "three-values": (_three_values, {"inconsistent-offset"}),
    "newer-below-start": (_newer_below_start, {"vanished-read"}),
    "lost-below-start": (_lost_below_start, set()),
    "start-was-told": (_start_was_told, {"vanished-read"}),
    "sent-before": (_sent_before_and_taken_after, set()),
    "below-later": (_below_what_had_survived, {"real-time-order"}),
    "deposed-leader": (_deposed_leader_reads_on, set()),
    "comes-back": (_uncommitted_comes_back, set()),
    "refused": (_refused_once_it_was_lost, set()),
    "refused-later": (_refused_once_it_had_survived, {"refused-read"}),
    "end-back": (_end_back_with_what_was_lost, set()),
    "end-back-later": (_end_back_with_what_had_survived, {"nonmonotonic-end"}),
    **WHOLES,
    **PRODUCERS,
    **APPLICATIONS,
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, CheckResult]]:
    cases = {}
    for number, (name, (tell, _)) in enumerate(STORIES.items()):
        story = Story(name)
        tell(story)
        cases[name] = Case(story.lines, {"znodes": _znodes(name, number)})
    return judge_cases(spark, tmp_path_factory.mktemp("stories"), cases, unclean=True)


@pytest.mark.parametrize("name", STORIES)
def test_story_around_an_unclean_election_is_judged_by_what_that_can_have_cost(
    judged: dict[str, dict[str, CheckResult]], name: str
) -> None:
    results = judged[name]
    assert invalid(results) == STORIES[name][1], {c: result.reasons for c, result in results.items() if result.reasons}
    assert results["isr-znode"].counts["allowed"] == 1


@pytest.mark.parametrize(
    ("name", "checker"),
    [
        ("refused", "refused-read"),
        ("end-back", "nonmonotonic-end"),
        ("torn", "torn-batch"),
        ("reversed-again", "int-nonmonotonic-send"),
        ("told", "real-time-order"),
        ("one-ack", "lost-write"),
        ("producer-lower", "producer-order"),
        ("producer-refused", "producer-order"),
        ("producer-once-more", "resend-offset"),
        ("producer-once-more", "duplicate"),
        ("application-replaced", "at-least-once"),
        ("application-again", "at-most-once"),
    ],
)
def test_end_that_an_unclean_election_took_back_is_counted_as_allowed(
    judged: dict[str, dict[str, CheckResult]], name: str, checker: str
) -> None:
    assert judged[name][checker].counts["allowed"] == 1


def test_record_that_survived_an_unclean_election_is_gone_by_no_allowance(
    judged: dict[str, dict[str, CheckResult]],
) -> None:
    counts = judged["drained-later"]["final-drain"].counts
    assert (counts.get("gone"), counts.get("allowed_gone")) == (1, None)


def test_conflict_stands_by_the_two_values_that_no_election_parts(
    judged: dict[str, dict[str, CheckResult]],
) -> None:
    (row,) = judged["three-values"]["inconsistent-offset"].witnesses
    assert "holds both value" in row.detail
    assert row.detail.split(" and value ")[0].endswith("9")
    assert row.detail.endswith("11")


def test_loss_that_nothing_allows_is_found_behind_many_that_are_allowed(
    judged: dict[str, dict[str, CheckResult]],
) -> None:
    counts = judged["vanished-behind-many"]["vanished-read"].counts
    assert (counts["found"], counts["allowed"]) == (1, MANY)
