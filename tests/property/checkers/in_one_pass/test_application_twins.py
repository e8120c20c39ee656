"""Checkers of applications against their plain twins, on lives of members that err."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from checkers.verdicts.verdict import CheckResult
from tests.support.application_stories import Application
from tests.support.application_twins import never_processed, processed_twice
from tests.support.histories import Story
from tests.support.judging import Case

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

LIVES = 60
Judged = dict[str, dict[str, CheckResult]]
TWINS = {"at-most-once": processed_twice, "at-least-once": never_processed}


def _life(seed: int) -> tuple[str, list[dict[str, Any]]]:
    """An application that keeps its promise, unless the seed is odd: then members now and then begin where they should
    not.
    """
    rng, promise = Random(seed), ("at-most-once", "at-least-once")[seed // 2 % 2]
    story = Story(f"application{seed}")
    application = Application(story, promise)
    count = rng.randint(6, 12)
    for nth in range(count):
        acked = rng.random() < 0.8
        story.send(nth + 1, nth if acked else None, process=nth, outcome="ok" if acked else "info")
    if rng.random() < 0.7:
        # A reader of no group, who shows what is there of what was not acknowledged.
        story.poll(0, [(nth, nth + 1) for nth in range(count)], process=900, consumer="reader")
    committed = 0
    while committed < count:
        member = rng.choice("abc")
        position = committed
        if seed % 2 and rng.random() < 0.3:
            position = max(0, min(count - 1, committed + rng.choice((-2, -1, 1))))
        end = min(count, position + rng.randint(1, 3))
        values = list(range(position + 1, end + 1))
        application.poll(member, position, values)
        outcome = "info" if end < count and rng.random() < 0.3 else "ok"
        took_effect = outcome == "ok" or rng.random() < 0.5
        if promise == "at-least-once":
            application.process(member, values)
        application.commit(member, end, outcome)
        if promise == "at-most-once" and outcome == "ok":
            application.process(member, values + values[:1] if seed % 2 and rng.random() < 0.1 else values)
        committed = max(committed, end) if took_effect else committed
    if rng.random() < 0.9:
        application.drained(count)
    else:
        application.undrained(committed)
    return promise, story.lines


HISTORIES = {f"application{seed}": _life(seed) for seed in range(LIVES)}
CASES = {topic: Case(lines) for topic, (_, lines) in HISTORIES.items()}


@pytest.fixture(scope="module")
def found(judged: Judged) -> dict[str, dict[str, set[int]]]:
    """Topic → checker → values, as in the history before all were merged."""
    return {
        topic: {
            name: {row.value % 1_000_000 for row in judged[topic][name].witnesses if row.value is not None}
            for name in TWINS
        }
        for topic in HISTORIES
    }


@pytest.mark.parametrize("topic", HISTORIES)
def test_promise_is_broken_by_what_its_twin_finds(found: dict[str, dict[str, set[int]]], topic: str) -> None:
    promise, lines = HISTORIES[topic]
    expected = TWINS[promise](lines)
    # A checker shows ten witnesses.
    assert found[topic][promise] == expected or (len(expected) > 10 and found[topic][promise] < expected)
    assert not any(values for name, values in found[topic].items() if name != promise)


@pytest.mark.parametrize("promise", TWINS)
def test_lives_break_and_keep_each_promise(promise: str) -> None:
    broken = [bool(TWINS[promise](lines)) for of, lines in HISTORIES.values() if of == promise]
    assert any(broken)
    assert not all(broken)
