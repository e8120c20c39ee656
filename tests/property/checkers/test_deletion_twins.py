"""Deletions on request against their plain twins: lives of a log that keeps the rules, and damage to them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.history.faults import Interruption
from checkers.history.retention import Expiry
from checkers.verdicts.verdict import CheckResult
from tests.support import deletion_twins as twins
from tests.support.histories import TICK_NS, Story
from tests.support.judging import Case, invalid, judge_cases
from tests.support.twins import operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2", "R9")]

VALID, DAMAGED, STEPS = 8, 80, 60
STOPPED = [
    Interruption(100_000 * TICK_NS, 101_000 * TICK_NS, frozenset({"n1"})),
    Interruption(102_500 * TICK_NS, 103_000 * TICK_NS, frozenset({"n2"})),
    Interruption(106_000 * TICK_NS, 106_100 * TICK_NS, frozenset({"n3"}), forgets=True),
    Interruption(500_000 * TICK_NS, 500_500 * TICK_NS, None),
    Interruption(600_000 * TICK_NS, 612_000 * TICK_NS, frozenset({"n1", "n2"}), gone=frozenset({"n2"})),
]
"""Brokers are down, the second within two seconds of the first; then files of one are changed. Lives that begin late
are about that time, or about a cut of links, or while two stand still, one of which counts as dead; the others long
before.
"""

Lines = list[dict[str, Any]]
Judged = dict[str, dict[str, CheckResult]]


def life(rng: Random, topic: str, *, begins: int = 0) -> Story:
    """One leader after the other, which all know what was deleted; what is asked for is answered after a while.

    begins: in ticks; a life that begins late takes longer.
    """
    story = Story(topic)
    story.now = begins
    log: list[int] = []
    start = epoch = 0
    for step in range(STEPS):
        story.now += rng.randint(0, 400 if begins else 5)
        leader = f"n{1 + epoch % 3}"
        what = rng.random()
        if what < 0.35 or len(log) < 3:
            values = [10 * step + nth + 1 for nth in range(rng.randint(1, 3))]
            story.send(values, len(log), process=rng.randint(0, 3))
            log += values
        elif what < 0.60:
            at = rng.randint(start, len(log))
            some = [(offset, log[offset]) for offset in range(at, min(len(log), at + rng.randint(0, 4)))]
            story.poll(at, some, hw=len(log), log_start=start, epoch=epoch, process=10, consumer="c10", node=leader)
        elif what < 0.70:
            story.list_offsets(start, timestamp=-2, epoch=epoch, process=11, node=leader)
        elif what < 0.76:
            story.delete(1000, outcome="fail", error="OFFSET_OUT_OF_RANGE", process=12)
        elif what < 0.89:
            before = rng.randint(0, len(log))
            start = max(start, before)
            if rng.random() < 0.7:
                story.delete(before, low=start, process=12, node=leader)
            else:
                story.delete(before, outcome="info", error="REQUEST_TIMED_OUT", process=12, node=leader)
        else:
            epoch += 1
    leader = f"n{1 + epoch % 3}"
    story.send(999, len(log), process=0)
    log.append(999)
    story.delete(1000, outcome="fail", error="OFFSET_OUT_OF_RANGE", process=12)
    story.delete(start, process=12, node=leader)
    rest = [(offset, log[offset]) for offset in range(start, len(log))]
    story.poll(start, rest, log_start=start, epoch=epoch, process=20, consumer="c20", node=leader)
    return story


def _of(rng: Random, lines: Lines, f: str, good: Callable[[dict[str, Any]], bool] = lambda _line: True) -> Any:
    able = [line for line in lines if line.get("f") == f and line["type"] == "ok" and good(line)]
    return rng.choice(able) if able else None


def _start_falls(rng: Random, lines: Lines) -> None:
    line = _of(rng, lines, "poll", lambda one: one["log_start"] > 0)
    if line:
        line["log_start"] -= rng.randint(1, line["log_start"])


def _start_rises(rng: Random, lines: Lines) -> None:
    line = _of(rng, lines, "poll")
    line["log_start"] += rng.randint(1, 9)


def _earliest_moves(rng: Random, lines: Lines) -> None:
    able = [one for one in lines if one["type"] == "ok" and one.get("f") == "list_offsets"]
    if able:
        line = rng.choice(able)
        line["offset"] = max(0, line["offset"] + rng.choice((-3, -1, 1, 3)))


def _poll_from_below(rng: Random, lines: Lines) -> None:
    line = _of(rng, lines, "poll", lambda one: lines[one["invoke"]]["position"] > 0)
    if line:
        lines[line["invoke"]]["position"] -= rng.randint(1, lines[line["invoke"]]["position"])


def _asked_for_less(rng: Random, lines: Lines) -> None:
    line = _of(rng, lines, "delete_records", lambda one: lines[one["invoke"]]["before"] > 0)
    if line:
        lines[line["invoke"]]["before"] = rng.randint(0, lines[line["invoke"]]["before"])


def _asked_for_more(rng: Random, lines: Lines) -> None:
    line = _of(rng, lines, "delete_records")
    lines[line["invoke"]]["before"] += rng.choice((1, 3, 500))


def _low_watermark_below(rng: Random, lines: Lines) -> None:
    line = _of(rng, lines, "delete_records")
    line["low_watermark"] -= rng.randint(0, 3)


def _deletion_refused(rng: Random, lines: Lines) -> None:
    line = _of(rng, lines, "delete_records")
    line.pop("low_watermark")
    line.update(type="fail", error="OFFSET_OUT_OF_RANGE")


def _earlier_epoch_begins_later(rng: Random, lines: Lines) -> None:
    """What nobody had deleted, told by a broker that leads again later."""
    line = _of(rng, lines, "poll", lambda one: lines[one["invoke"]]["leader_epoch"] <= 2)
    if line:
        line["log_start"] += rng.randint(1, 40)


def _real_client(rng: Random, lines: Lines) -> None:
    """Whom it asked nobody knows."""
    line = _of(rng, lines, "poll", lambda one: lines[one["invoke"]]["position"] > 0)
    if line:
        asked = lines[line["invoke"]]
        asked.update(reader="confluent", leader_epoch=-1, client_position=asked["position"])
        line["log_start"] = -1
        for record in line["records"][:1]:
            record["offset"] -= rng.randint(1, record["offset"] or 1)


DAMAGE: tuple[Callable[[Random, Lines], None], ...] = (
    _start_falls,
    _start_rises,
    _earliest_moves,
    _poll_from_below,
    _asked_for_less,
    _asked_for_more,
    _low_watermark_below,
    _deletion_refused,
    _earlier_epoch_begins_later,
    _real_client,
)


def _cases() -> dict[str, Case]:
    cases = {}
    for seed in range(VALID):
        begins = (0, 598_000, 97_000, 492_000)[seed % 4]
        cases[f"valid{seed}"] = Case(life(Random(seed), f"valid{seed}", begins=begins).lines)
    for seed in range(DAMAGED):
        rng = Random(2000 + seed)
        begins = (0, 97_000, 97_000, 492_000, 598_000)[seed // len(DAMAGE) % 5]
        lines = copy.deepcopy(life(rng, f"damaged{seed}", begins=begins).lines)
        DAMAGE[seed % len(DAMAGE)](rng, lines)
        cases[f"damaged{seed}"] = Case(lines)
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("deletions")
    return judge_cases(spark, folder, CASES, expiry=Expiry(requested=True), interruptions=STOPPED)


@pytest.mark.parametrize("topic", [topic for topic in CASES if topic.startswith("valid")])
def test_life_with_deletions_is_valid_in_every_respect(judged: Judged, topic: str) -> None:
    results = judged[topic]
    assert not invalid(results), {name: results[name].reasons for name in invalid(results)}


@pytest.mark.parametrize("topic", CASES)
def test_deletions_are_judged_as_their_twins_judge_them(judged: Judged, topic: str) -> None:
    ops = operations(CASES[topic].history)
    expected = {
        "deleted-records": bool(twins.deleted_records(ops, STOPPED)),
        "lost-write": bool(twins.lost_write(ops)),
    }
    assert {name: name in invalid(judged[topic]) for name in expected} == expected


def test_damage_shows_every_rule_somewhere_and_an_interruption_excuses_some() -> None:
    every = [operations(case.history) for case in CASES.values()]
    assert any(twins.shown(ops, STOPPED) for ops in every)
    assert any(twins.shown(ops, []) and not twins.shown(ops, STOPPED) for ops in every)
    assert any(twins.forgot(ops, STOPPED) for ops in every)
    assert any(twins.forgot(ops, []) and not twins.forgot(ops, STOPPED) for ops in every)
    assert any(twins.back(ops) for ops in every)
    assert any(twins.answers(ops) for ops in every)
    assert any(twins.lost_write(ops) for ops in every)
