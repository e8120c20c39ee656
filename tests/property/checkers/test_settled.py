"""What is settled of a history is left out, and judged without it all is found, and counted, as in the whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.checkers.judge import judged
from benchmarks.checkers.lines import history
from benchmarks.checkers.planted import Anomaly, expected, plan
from benchmarks.checkers.run_folder import write_run
from benchmarks.checkers.shape import BLOCK as POLLED
from benchmarks.checkers.shape import LEAST_BLOCKS, PARTITIONS, Shape
from benchmarks.checkers.stored import TABLES, write_closing, write_unit
from checkers.history.load import load_history, stored_history
from checkers.history.run_info import load_run_info
from checkers.settled.unsettle import settled_of
from tests.support.histories import write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

FEW = Shape(12, 5)
PLANTED = ("lost-write", "vanished-read", "fabricated-value", "duplicate", "real-time-order", "truncated-tail")
Lines = list[dict[str, Any]]


def test_nothing_that_is_planted_is_settled_and_most_else_is(spark: SparkSession, tmp_path: Path) -> None:
    anomalies = [Anomaly(kind, p, 6, 7, FEW.foreign_value(p)) for p, kind in enumerate(PLANTED)]
    for table in TABLES:
        (tmp_path / table).mkdir()
    for unit in FEW.units():
        write_unit(FEW, anomalies, tmp_path, unit)
    write_closing(FEW, anomalies, tmp_path)
    with pyspark_sockets():
        whole = stored_history(spark, tmp_path)
        settled = settled_of(whole, tmp_path)
        assert settled is not None
        rest = {(row.p, row.offset, row.value) for row in settled.rest.sends.select("p", "offset", "value").collect()}
        reads, all_reads = settled.rest.polls.count(), whole.polls.count()
        kept_to = settled.acked.where("p = 'bench-7'").count()
        acknowledged = whole.sends.where("offset IS NOT NULL").count()
    sent = {(p, offset): value for p, offset, value in rest}
    for found in expected(FEW, anomalies):
        if found.value >= 0 and found.checker not in ("fabricated-value", "duplicate"):
            assert sent[found.p, found.offset] == found.value, found
    repeated = FEW.value_at(3, 6 * POLLED)
    assert ("bench-3", 6 * POLLED, repeated) in rest, "a value that stands elsewhere as well is judged at both places"
    of_all = {name: sum(of_p[name] for of_p in settled.counts.values()) for name in settled.counts["bench-0"]}
    assert all_reads - reads == of_all["reads"]
    assert sum(offset is not None for _, offset, _ in rest) + of_all["acked"] == acknowledged
    assert of_all["acked"] > 0.6 * PARTITIONS * FEW.blocks * POLLED
    assert of_all["compared"] == of_all["acked"] + of_all["found"]
    assert kept_to, "staleness is measured by when settled records were acknowledged"


def _answers(lines: Lines, f: str) -> Lines:
    return [line for line in lines if line.get("f") == f and line["type"] == "ok"]


def _polls(lines: Lines) -> Lines:
    return [line for line in _answers(lines, "poll") if line["records"]]


def _drop(rng: random.Random, lines: Lines) -> None:
    rng.choice(_polls(lines))["records"].pop(rng.randrange(3))


def _other_value(rng: random.Random, lines: Lines) -> None:
    rng.choice(rng.choice(_polls(lines))["records"])["value"] += rng.choice((-1, 1, 7, 10**9))


def _not_intact(rng: random.Random, lines: Lines) -> None:
    rng.choice(rng.choice(_polls(lines))["records"]).update(rng.choice(({"intact": False}, {"value": None})))


def _swap(rng: random.Random, lines: Lines) -> None:
    records = rng.choice(_polls(lines))["records"]
    at, name = rng.randrange(len(records) - 1) if len(records) > 1 else 0, rng.choice(("value", "offset"))
    if len(records) > 1:
        records[at][name], records[at + 1][name] = records[at + 1][name], records[at][name]


def _move_send(rng: random.Random, lines: Lines) -> None:
    sends = [line for line in _answers(lines, "send") if "base_offset" in line]
    rng.choice(sends)["base_offset"] += rng.choice((-5, -1, 1, 5, 64, 100))


def _later_send(rng: random.Random, lines: Lines) -> None:
    answer = rng.choice(_answers(lines, "send"))
    late = rng.choice((10**7, 10**8, 2 * 10**9))
    answer["time_ns"] += late
    lines[answer["invoke"]]["time_ns"] += late


def _other_process(rng: random.Random, lines: Lines) -> None:
    answer, other = rng.choice(_answers(lines, "send")), rng.choice(_answers(lines, "send"))
    answer["process"] = lines[answer["invoke"]]["process"] = other["process"]


def _unknown_send(rng: random.Random, lines: Lines) -> None:
    answer = rng.choice(_answers(lines, "send"))
    answer.pop("base_offset", None)
    answer["type"] = rng.choice(("info", "fail"))


def _send_twice(rng: random.Random, lines: Lines) -> None:
    one, other = (lines[rng.choice(_answers(lines, "send"))["invoke"]] for _ in range(2))
    one["values"][0] = other["values"][0]


def _failed_poll(rng: random.Random, lines: Lines) -> None:
    answer = rng.choice(_polls(lines))
    for name in ("next_position", "hw", "lso", "log_start", "records"):
        answer.pop(name, None)
    answer.update(type="fail", error="timeout")


def _further_poll(rng: random.Random, lines: Lines) -> None:
    rng.choice(_polls(lines))["next_position"] += rng.choice((-1, 1, 3))


def _lower_mark(rng: random.Random, lines: Lines) -> None:
    rng.choice(_polls(lines))["hw"] -= rng.choice((1, 80, 300))


def _higher_end(rng: random.Random, lines: Lines) -> None:
    rng.choice(_answers(lines, "list_offsets"))["offset"] += rng.choice((-150, 1, 150))


def _jump(rng: random.Random, lines: Lines) -> None:
    rng.choice([line for line in lines if "client_position" in line])["client_position"] += rng.choice((-40, 3, 250))


def _earlier_drain(rng: random.Random, lines: Lines) -> None:
    rng.choice([line for line in lines if line["f"] == "drain-complete"])["start"] += 7


DAMAGES: tuple[Callable[[random.Random, Lines], None], ...] = (
    *(_drop, _other_value, _not_intact, _swap, _move_send, _later_send, _other_process, _unknown_send, _send_twice),
    *(_failed_poll, _further_poll, _lower_mark, _higher_end, _jump, _earlier_drain),
)


@pytest.mark.nightly
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_history_without_what_is_settled_is_judged_as_the_whole(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    shape = Shape(LEAST_BLOCKS, seed)
    rng = random.Random(seed)
    lines = [{**line, "index": at} for at, line in enumerate(history(shape))]
    for _ in range(rng.choice((5, 30))):
        rng.choice(DAMAGES)(rng, lines)
    write_run(tmp_path)
    info = load_run_info(tmp_path)
    assert len(plan(shape)) > len(PLANTED)
    with pyspark_sockets():
        _, health = load_history(spark, write_history(tmp_path / "history.jsonl", lines), tmp_path)
        assert not health.problems
        without = judged(spark, tmp_path, info, settle=True)
        spark.catalog.clearCache()
        whole = judged(spark, tmp_path, info, settle=False)
    spark.catalog.clearCache()
    assert sorted(map(repr, without)) == sorted(map(repr, whole))
