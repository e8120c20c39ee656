"""Lookups by time against their plain twin: lives of a log that keeps the rules, and damage to them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from checkers.verdicts.verdict import CheckResult
from tests.support import lookup_twins as twins
from tests.support.histories import Story
from tests.support.judging import Case, invalid
from tests.support.twins import operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

VALID, DAMAGED, STEPS = 8, 40, 50

Lines = list[dict[str, Any]]
Judged = dict[str, dict[str, CheckResult]]


def life(rng: Random, topic: str) -> Story:
    """One leader after the other; clients' clocks differ by a little, so that times do not quite rise with offsets."""
    story = Story(topic)
    stamps: list[int] = []
    values: list[int] = []
    epoch = 0

    def poll(at: int, end: int) -> None:
        """Each run of records of one epoch as a poll of its own, which the story stamps with the epoch that asks."""
        story.poll(at, [(one, values[one]) for one in range(at, end)], hw=len(values), epoch=epoch, process=10)

    for step in range(STEPS):
        what = rng.random()
        if what < 0.35 or len(values) < 4:
            several = [10 * step + nth + 1 for nth in range(rng.randint(1, 3))]
            stamp = 1000 + 20 * step + rng.randint(-30, 30)
            story.send(several, len(values), process=rng.randint(0, 3), timestamp=stamp)
            values += several
            stamps += [stamp] * len(several)
        elif what < 0.55:
            at = rng.randint(0, len(values) - 1)
            poll(at, min(len(values), at + rng.randint(1, 6)))
        elif what < 0.95:
            wanted = rng.choice(stamps) + rng.randint(-25, 25)
            first = next((one for one, stamp in enumerate(stamps) if stamp >= wanted), -1)
            found = stamps[first] if first >= 0 else -1
            story.list_offsets(
                first, timestamp=wanted, found=found, epoch=epoch, isolation=int(step % 5 == 0), process=11
            )
        else:
            poll(0, len(values))
            epoch += 1
    poll(0, len(values))
    story.list_offsets(0, timestamp=0, found=stamps[0], epoch=epoch, process=11)
    return story


def _lookup(rng: Random, lines: Lines) -> Any:
    return rng.choice([line for line in lines if line["type"] == "ok" and "timestamp_answered" in line])


def _further(rng: Random, lines: Lines) -> None:
    _lookup(rng, lines)["offset"] += rng.randint(1, 6)


def _nearer(rng: Random, lines: Lines) -> None:
    line = _lookup(rng, lines)
    line["offset"] = max(0, line["offset"] - rng.randint(1, 6))


def _none(rng: Random, lines: Lines) -> None:
    _lookup(rng, lines).update(offset=-1, timestamp_answered=-1)


def _another_time(rng: Random, lines: Lines) -> None:
    _lookup(rng, lines)["timestamp_answered"] += rng.choice((-40, -1, 1, 40))


def _asked_otherwise(rng: Random, lines: Lines) -> None:
    line = lines[_lookup(rng, lines)["invoke"]]
    line["timestamp"] = max(0, line["timestamp"] + rng.choice((-60, -20, 20, 60)))


def _of_a_deposed_leader(rng: Random, lines: Lines) -> None:
    line = _lookup(rng, lines)
    line.update(offset=-1, timestamp_answered=-1)
    lines[line["invoke"]]["leader_epoch"] = rng.choice((-1, 0))


def _sent_with_another_time(rng: Random, lines: Lines) -> None:
    rng.choice([one for one in lines if one["type"] == "invoke" and one["f"] == "send"])["timestamp"] += 50


DAMAGE: tuple[Callable[[Random, Lines], None], ...] = (
    _further,
    _nearer,
    _none,
    _another_time,
    _asked_otherwise,
    _of_a_deposed_leader,
    _sent_with_another_time,
)


def _cases() -> dict[str, Case]:
    cases = {f"lookups{seed}": Case(life(Random(seed), f"lookups{seed}").lines) for seed in range(VALID)}
    for seed in range(DAMAGED):
        rng = Random(3000 + seed)
        lines = copy.deepcopy(life(rng, f"wrong-lookups{seed}").lines)
        DAMAGE[seed % len(DAMAGE)](rng, lines)
        cases[f"wrong-lookups{seed}"] = Case(lines)
    return cases


CASES = _cases()


@pytest.mark.parametrize("topic", [topic for topic in CASES if topic.startswith("lookups")])
def test_right_lookups_are_valid_in_every_respect(judged: Judged, topic: str) -> None:
    results = judged[topic]
    assert not invalid(results), {name: results[name].reasons for name in invalid(results)}
    assert results["wrong-lookup"].verdict == "valid"


@pytest.mark.parametrize("topic", CASES)
def test_lookups_are_judged_as_their_twin_judges_them(judged: Judged, topic: str) -> None:
    expected = bool(twins.wrong_lookup(operations(CASES[topic].history)))
    assert ("wrong-lookup" in invalid(judged[topic])) == expected, judged[topic]["wrong-lookup"].reasons


def test_lives_keep_the_rules_and_damage_shows_each_of_them() -> None:
    every = {topic: operations(case.history) for topic, case in CASES.items()}
    assert not [topic for topic, ops in every.items() if topic.startswith("lookups") and twins.wrong_lookup(ops)]
    damaged = [ops for topic, ops in every.items() if topic.startswith("wrong-lookups")]
    assert any(twins.of_the_answer(ops) and not twins.passed_over(ops) for ops in damaged)
    assert any(twins.passed_over(ops) and not twins.of_the_answer(ops) for ops in damaged)
    assert any(not twins.wrong_lookup(ops) for ops in damaged)
