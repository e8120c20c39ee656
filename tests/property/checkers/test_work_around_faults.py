"""What counts as work under a fault, while the fault is taken back, and after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.coverage.queries import around_faults, load_gaps, work_in
from checkers.coverage.recovery import QuietWindow, Work
from checkers.history.load import load_history
from tests.support.histories import TICK_NS, Story, write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]


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
