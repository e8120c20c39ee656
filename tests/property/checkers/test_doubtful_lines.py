"""Lines of a history that no rule would look at, or that contradict their operation: told as reasons for unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.history.load import load_history
from tests.support.histories import Story, write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]


def _life() -> Story:
    """Four records, read, a fault, and a group's commit."""
    s = Story()
    for nth in range(4):
        s.send(nth + 1, nth, process=nth)
    s.poll(0, [(nth, nth + 1) for nth in range(4)], process=20)
    s.list_offsets(4, process=21)
    s.nemesis("start", "kill", 1, ["n1"])
    s.nemesis("stop", "kill", 1, ["n1"])
    s.coordinate("commit_offsets", process=22, group="g", offsets=[{"p": "hw-0", "offset": 4}])
    told = {"offsets": [{"p": "hw-0", "offset": 4}]}
    s.coordinate("fetch_offsets", process=22, group="g", partitions=["hw-0"], answer=told)
    return s


def _problems(spark: SparkSession, folder: Path, story: Story) -> tuple[str, ...]:
    with pyspark_sockets():
        _, health = load_history(spark, write_history(folder / "history.jsonl", story.lines), folder / "parquet")
    return health.problems


def test_lines_that_say_all_that_their_operation_has_are_no_problem(spark: SparkSession, tmp_path: Path) -> None:
    assert _problems(spark, tmp_path, _life()) == ()


def _of(story: Story, f: str, kind: str = "invoke") -> int:
    return next(int(line["index"]) for line in story.lines if line["f"] == f and line["type"] == kind)


def _renamed(s: Story) -> None:
    """An acknowledged send, and the fault that ended its broker, by names that no reader has."""
    for line in s.lines:
        if line["index"] in (2, 3):
            line["f"] = "append"
        if line["f"] == "start":
            line["f"] = "begin"


def _without_fields(s: Story) -> None:
    del s.lines[_of(s, "send")]["values"]
    del s.lines[_of(s, "poll", "ok")]["records"]
    for line in s.lines:
        if line["f"] == "list_offsets":
            line["partition"] = None


def _said_in_part(s: Story) -> None:
    """Some value was sent, and read somewhere; something was committed, and something else fetched."""
    s.lines[_of(s, "send")]["values"] = [None]
    del s.lines[_of(s, "poll", "ok")]["records"][2]["offset"]
    del s.lines[_of(s, "commit_offsets")]["offsets"]
    del s.lines[_of(s, "fetch_offsets", "ok")]["offsets"]


def _clock_set_back(s: Story) -> None:
    """The answer to the poll came before it was asked."""
    answer = s.lines[_of(s, "poll", "ok")]
    answer["time_ns"] = s.lines[answer["invoke"]]["time_ns"] - 1


def _answers_exchanged(s: Story) -> None:
    """Two sends' acknowledgements name each other's invocation."""
    first, second = s.lines[1], s.lines[3]
    first["invoke"], second["invoke"] = second["invoke"], first["invoke"]
    # Neither of them before its operation began.
    first["time_ns"] = s.lines[2]["time_ns"] + 1


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (_renamed, "3 lines of the history say something that no table knows, first line 2 (f = append)"),
        (_without_fields, "4 lines of the history lack what their operation has to say, first line 0 (f = send)"),
        (_said_in_part, "4 lines of the history lack what their operation has to say, first line 0 (f = send)"),
        (_clock_set_back, "1 lines of the history complete an operation before it began, first line 9 (f = poll)"),
        (
            _answers_exchanged,
            "2 lines of the history complete an operation of another process, name or partition, "
            "first line 1 (f = send)",
        ),
    ],
)
def test_doubtful_lines_are_counted_and_the_first_is_named(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Story], None], problem: str
) -> None:
    story = _life()
    damage(story)
    assert _problems(spark, tmp_path, story) == (problem,)
