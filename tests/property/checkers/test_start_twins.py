"""Where logs begin against a plain twin: lives of a log that is deleted from, and damage to them, in one Spark pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.history.faults import Interruption
from checkers.history.retention import Expiry
from checkers.verdicts.verdict import CheckResult
from tests.support.histories import TICK_NS, Story
from tests.support.judging import Case, judge_cases
from tests.support.start_twins import above, below
from tests.support.twins import operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

VALID, DAMAGED, STEPS = 8, 56, 40
LEAST_ROOM = 10_000
"""Ticks from the end of a life until its files are copied, at least, where a broker has had the time to write."""


@dataclass
class Life:
    """nodes: of this case alone. starts: where each replica's first batch is. copied: in ticks."""

    story: Story
    nodes: tuple[str, ...]
    end: int = 0
    starts: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)

    @property
    def p(self) -> str:
        return f"{self.story.topic}-0"

    def case(self) -> Case:
        for node in self.nodes:
            self.story.harness("evidence", at=self.copied[node], node=node)
        batches = [
            {"node": node, "p": self.p, "file": f"{start:020d}.log", "file_position": 70 * base, "base": base}
            | {"last": base, "epoch": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
            | {"control": False, "records": 1, "crc_ok": True, "digest": str(base), "values": [], "problem": None}
            for node, start in self.starts.items()
            for base in range(start, self.end)
        ]
        checkpoints = [
            {"node": node, "kind": "log-start", "p": self.p, "position": 0, "epoch": None, "offset": mark}
            for node, mark in self.marks.items()
        ]
        return Case(self.story.lines, {"batches": batches, "checkpoints": checkpoints})


def live(rng: Random, topic: str, number: int) -> Life:
    """Sends and deletions, which every replica carries out: by its files, or by its checkpoint alone."""
    story = Story(topic)
    # Some lives are around what interrupts their brokers, and some before files of one were changed.
    story.now = rng.choice((0, 97_000, 99_000, 300_000))
    life = Life(story, tuple(f"s{number}n{nth}" for nth in range(3)))
    start = asked = 0
    for step in range(STEPS):
        story.now += rng.randint(0, 40)
        if rng.random() < 0.7 or life.end < 3:
            many = rng.randint(1, 2)
            acks = rng.choice((-1, -1, -1, 1))
            story.send([10 * step + nth + 1 for nth in range(many)], life.end, acks=acks, node=life.nodes[0])
            life.end += many
        else:
            before = rng.randint(start, life.end - 1)
            outcome = rng.choice(("ok", "ok", "ok", "info", "fail"))
            error = "OFFSET_OUT_OF_RANGE" if outcome == "fail" else "timeout"
            story.delete(before, outcome=outcome, error=error, process=900 + step, node=life.nodes[0])
            start = before if outcome == "ok" else start
            asked = max(asked, before if outcome != "fail" else 0)
    story.poll(start, [], hw=life.end, log_start=start, process=800, node=life.nodes[0])
    for node in life.nodes:
        # A replica may have carried out what nobody acknowledged.
        mine = rng.choice((start, max(start, asked)))
        life.starts[node] = rng.randint(0, mine) if rng.random() < 0.5 else mine
        if life.starts[node] < mine:
            life.marks[node] = mine
        life.copied[node] = story.now + LEAST_ROOM + rng.randint(0, 100)
    return life


def _begins_later(rng: Random, life: Life) -> None:
    node = rng.choice(life.nodes)
    life.starts[node] = rng.randint(life.starts[node], life.end - 1)


def _all_begin_later(rng: Random, life: Life) -> None:
    first = rng.randint(0, life.end - 1)
    life.starts = {node: max(start, first) for node, start in life.starts.items()}


def _checkpoint_moves(rng: Random, life: Life) -> None:
    life.marks[rng.choice(life.nodes)] = rng.randint(0, life.end - 1)


def _checkpoint_gone(rng: Random, life: Life) -> None:
    life.marks.pop(rng.choice(life.nodes), None)


def _begins_earlier(rng: Random, life: Life) -> None:
    node = rng.choice(life.nodes)
    life.starts[node] = rng.randint(0, life.starts[node])
    life.marks.pop(node, None)


def _copied_soon(rng: Random, life: Life) -> None:
    _begins_earlier(rng, life)
    for node in life.nodes:
        life.copied[node] = life.story.now + rng.randint(-200, 2_500)


def _never_asked(rng: Random, life: Life) -> None:
    for line in life.story.lines:
        if line["f"] == "delete_records" and line["type"] == "ok" and rng.random() < 0.7:
            line["type"] = "fail"
            line["error"] = "OFFSET_OUT_OF_RANGE"


DAMAGE: tuple[Callable[[Random, Life], None], ...] = (
    _begins_later,
    _all_begin_later,
    _checkpoint_moves,
    _checkpoint_gone,
    _begins_earlier,
    _copied_soon,
    _never_asked,
)


def _lives() -> dict[str, Life]:
    lives = {f"valid{seed}": live(Random(seed), f"valid{seed}", seed) for seed in range(VALID)}
    for seed in range(DAMAGED):
        rng = Random(1000 + seed)
        life = live(rng, f"damaged{seed}", 1000 + seed)
        DAMAGE[seed % len(DAMAGE)](rng, life)
        lives[f"damaged{seed}"] = life
    return lives


LIVES = _lives()
CASES = {topic: life.case() for topic, life in LIVES.items()}
STOPPED = [
    # Files of another broker are changed: a replica may have to follow a leader that forgot what was deleted before.
    Interruption(98_000 * TICK_NS, 98_500 * TICK_NS, frozenset({"another"}), forgets=True),
    # The second broker of every life stands still, or is killed; then the links of all are cut.
    Interruption(
        99_200 * TICK_NS, 99_400 * TICK_NS, frozenset(life.nodes[1] for life in LIVES.values()), gone=frozenset()
    ),
    Interruption(99_900 * TICK_NS, 99_950 * TICK_NS, frozenset(life.nodes[1] for life in LIVES.values())),
    Interruption(300_400 * TICK_NS, 300_500 * TICK_NS, frozenset(life.nodes[2] for life in LIVES.values())),
]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, CheckResult]]:
    folder = tmp_path_factory.mktemp("starts")
    return judge_cases(spark, folder, CASES, expiry=Expiry(requested=True), interruptions=STOPPED)


def expected(topic: str, spans: list[Interruption]) -> tuple[set[str], set[str]]:
    """(above, below) by the twin."""
    life, case = LIVES[topic], CASES[topic]
    ops = operations(case.history)
    copied = {node: at * TICK_NS for node, at in life.copied.items()}
    batches, checkpoints = case.tables["batches"], case.tables["checkpoints"]
    return above(ops, copied, batches, checkpoints, life.end), below(ops, copied, batches, checkpoints, spans)


@pytest.mark.parametrize("topic", CASES)
def test_starts_are_judged_as_their_twin_judges_them(
    judged: Mapping[str, Mapping[str, CheckResult]], topic: str
) -> None:
    result = judged[topic]["log-start"]
    higher, lower = expected(topic, STOPPED)
    assert (result.verdict == "invalid") == bool(higher | lower), (result.reasons, higher, lower)
    assert result.counts.get("found", 0) == len(higher) + len(lower), (result.reasons, higher, lower)
    if topic.startswith("valid"):
        assert result.verdict == "valid", result.reasons


def test_damage_shows_both_rules_and_an_interruption_excuses_some() -> None:
    assert sum(bool(expected(topic, STOPPED)[0]) for topic in CASES) >= 5
    assert sum(bool(expected(topic, STOPPED)[1]) for topic in CASES) >= 5
    assert any(expected(topic, [])[1] != expected(topic, STOPPED)[1] for topic in CASES)
