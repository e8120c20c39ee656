"""What followers say of their watermarks, against a plain twin: small random histories, in one Spark pass."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.black_box.followers import of_followers
from checkers.history.faults import faults_of
from checkers.history.load import load_history
from checkers.verdicts.jobs import collect_families
from tests.support.histories import TICK_NS, Story, merged, write_history
from tests.support.judging import pyspark_sockets
from tests.support.twins import Op, operations

Spans = list[tuple[str, int, int]]
"""(node, from, until) in ns of each time in which a process may have ended, or begun."""
pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

LIVES = 120


def _life(seed: int) -> Story:
    """Polls of two followers, some beside each other, whose watermarks rise, and now and then do not."""
    rng, topic = Random(seed), f"followed{seed}"
    story, at, hw, epoch = Story(topic), 1, {"f1": 1, "f2": 1}, 0
    for _ in range(rng.randint(6, 14)):
        at += rng.randint(0, 4)
        node = rng.choice(("f1", "f2"))
        epoch += rng.random() < 0.1
        if rng.random() < 0.1:
            kind, targets, id_, seen = rng.choice(("stop", "isolate")), [f"{topic}{node}"], at, at + rng.randint(0, 3)
            story.nemesis("start", kind, id_, targets, at=seen, began_ns=at * TICK_NS)
            if rng.random() < 0.5:
                back = seen + rng.randint(0, 2)
                over = back + rng.randint(0, 3)
                story.nemesis("stop", kind, id_, targets, at=over, began_ns=back * TICK_NS)
        hw[node] += rng.randint(0, 2)
        told = max(0, hw[node] - rng.randint(1, 2)) if rng.random() < 0.2 else hw[node]
        reader = rng.choice(("follower", "follower", "follower", "wire"))
        over = at + rng.randint(1, 4)
        story.poll(
            told,
            hw=told,
            epoch=epoch,
            reader=reader,
            node=f"{topic}{node}",
            process=seed,
            invoked=at,
            completed=over,
        )
    return story


def life_of(op: Op, spans: Spans) -> int | None:
    """How many spans of its node lay before it; None where one touches it."""
    mine = [(start, end) for node, start, end in spans if node == op.request["node"]]
    assert op.done is not None
    if any(start <= op.done and end > op.invoked for start, end in mine):
        return None
    return sum(end <= op.invoked for _, end in mine)


def went_back(ops: list[Op], spans: Spans) -> bool:
    """Whether some answer of a follower tells less than one before it, of the same process and leader epoch."""
    mine = [op for op in ops if op.request["reader"] == "follower" and life_of(op, spans) is not None]
    return any(
        early.done is not None
        and early.done < late.invoked
        and early.request["node"] == late.request["node"]
        and life_of(early, spans) == life_of(late, spans)
        and early.request["leader_epoch"] == late.request["leader_epoch"]
        and early.response["hw"] > late.response["hw"]
        for early in mine
        for late in mine
    )


def _stops(story: Story) -> Spans:
    """Of each stop, and each start after one; to be cut off ends no process."""
    lines = [line for line in story.lines if line.get("fault") == "stop"]
    return [(node, line["began_ns"], line["time_ns"]) for line in lines for node in line["targets"]]


def test_follower_that_goes_back_is_found_where_its_twin_finds_it(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stories = {f"followed{seed}": _life(seed) for seed in range(LIVES)}
    folder = tmp_path_factory.mktemp("followers")
    lines = merged({topic: story.lines for topic, story in stories.items()})
    faults = faults_of([{"error": None, **line} for line in lines if line["kind"] == "nemesis"])
    with pyspark_sockets():
        history, health = load_history(spark, write_history(folder / "history.jsonl", lines), folder / "parquet")
        assert not health.problems, health.problems
        rows = collect_families(of_followers(history, faults), witnesses=1000)
    expected = {topic for topic, story in stories.items() if went_back(operations(story.lines), _stops(story))}
    assert {str(row.p).rpartition("-")[0] for row in rows if row.kind == "invalid"} == expected
    assert 10 <= len(expected) <= LIVES / 2
