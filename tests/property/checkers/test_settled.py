"""What is settled of a history is left out, and judged without it all is found, and counted, as in the whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.checkers.judge import judged
from benchmarks.checkers.lines import history
from benchmarks.checkers.planted import Anomaly, expected, plan
from benchmarks.checkers.run_folder import write_run
from benchmarks.checkers.shape import BATCH, LEAST_BLOCKS, PARTITIONS, Shape
from benchmarks.checkers.shape import BLOCK as POLLED
from benchmarks.checkers.stored import TABLES, write_closing, write_unit
from checkers.history.load import History, load_history, stored_history
from checkers.history.run_info import load_run_info
from checkers.settled.unsettle import settled_of
from checkers.spark.tables import write_table
from tests.support.histories import write_history
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

FEW = Shape(12, 5)
PLANTED = ("lost-write", "vanished-read", "fabricated-value", "duplicate", "real-time-order", "truncated-tail")
MASKED = "bench-6", "bench-7"
FAR = 1 << 40
STALE, OLD = "bench-1", 9 * POLLED
ACKNOWLEDGED = "f = 'send' AND outcome = 'ok' AND base_offset IS NOT NULL"
LAST = "base_offset + n_values - 1 AS last"
Lines = list[dict[str, Any]]


def _like(rows: DataFrame, **fields: object) -> DataFrame:
    """A row more, as the first of these but for some columns."""
    kinds = {name: rows.schema[name].dataType for name in fields}
    return rows.limit(1).withColumns({name: F.lit(value).cast(kinds[name]) for name, value in fields.items()})


def _masked(whole: History, late: int, above_ns: int) -> History:
    """With what is there before the record above a late send, but not above it for the rule that names that record: an
    end that was told, in one partition, and a send at the offset of the late one, in the other. And with an answer from
    far above the log, when all is over, and one of a third from an end that is long past.
    """
    p, q = MASKED
    before: dict[str, object] = {"invoke_ns": above_ns - 2, "complete_ns": above_ns - 1}
    told = _like(whole.requests.where(f"f = 'list_offsets' AND p = '{p}'"), end_offset=late + 1, **before)
    over: dict[str, object] = {"invoke_ns": 2 * FEW.over_ns, "complete_ns": 2 * FEW.over_ns, "op": FAR}
    polled = whole.requests.where(f"f = 'poll' AND p = '{q}' AND phase = 'main'")
    far = dict.fromkeys(("first_offset", "last_offset", "hw", "lso"), FAR)
    leap = {"position": FEW.end + 2, "next_position": FAR + 1, "returned": 1, "in_range": 1, "consumer": "far"}
    past = dict.fromkeys(("position", "next_position", "hw", "lso"), OLD) | {"returned": 0, "in_range": 0}
    stale = _like(
        whole.requests.where(f"f = 'poll' AND p = '{STALE}' AND phase = 'main'"), **over, **past, consumer="s"
    )
    twin: dict[str, object] = {"op": FAR + 2, "process": FAR, **before}
    sent, one = whole.ops.where(f"f = 'send' AND outcome = 'ok' AND p = '{q}'"), {"nth": 0, "of": 1}
    acked = whole.sends.where(f"offset IS NOT NULL AND p = '{q}'")
    return replace(
        whole,
        requests=whole.requests.unionByName(told).unionByName(_like(polled, **over, **far, **leap)).unionByName(stale),
        polls=whole.polls.unionByName(_like(whole.polls.where(f"p = '{q}'"), **over, offset=FAR, value=FAR)),
        ops=whole.ops.unionByName(_like(sent, base_offset=late, n_values=1, **twin)),
        sends=whole.sends.unionByName(_like(acked, offset=late, value=FAR + 1, **one, **twin)),
    )


def _written(history: History, folder: Path) -> tuple[History, Path]:
    """The history as read back, and where its tables are."""
    for one in fields(history):
        write_table(getattr(history, one.name), folder / one.name)
    return stored_history(history.ops.sparkSession, folder), folder


def test_nothing_that_is_planted_is_settled_and_most_else_is(spark: SparkSession, tmp_path: Path) -> None:
    kinds = (*PLANTED, *["real-time-order"] * len(MASKED))
    anomalies = [Anomaly(kind, p, 6, 7, FEW.foreign_value(p)) for p, kind in enumerate(kinds)]
    late, above = anomalies[-1].offset, anomalies[-1].offset + BATCH
    for table in TABLES:
        (tmp_path / table).mkdir()
    for unit in FEW.units():
        write_unit(FEW, anomalies, tmp_path, unit)
    write_closing(FEW, anomalies, tmp_path)
    with pyspark_sockets():
        whole = stored_history(spark, tmp_path)
        first = whole.sends.where(F.col("p").isin(*MASKED) & (F.col("offset") == above)).agg(F.min("complete_ns"))
        ((above_ns,),) = first.collect()
        whole = _masked(whole, late, above_ns)
        forgivable = replace(
            whole, sends=whole.sends.withColumn("acks", F.when(F.col("offset") != late, F.col("acks")))
        )
        assert settled_of(*_written(forgivable, tmp_path / "forgivable")) is None, (
            "what fewer than all acknowledged may be forgiven"
        )
        settled = settled_of(*_written(whole, tmp_path / "masked"))
        assert settled is not None
        rest = {(row.p, row.offset, row.value) for row in settled.rest.sends.select("p", "offset", "value").collect()}
        reads, all_reads = settled.rest.polls.count(), whole.polls.count()
        denied = {(row.p, row.offset) for row in settled.acked.collect()}
        ends = {(row.p, row.last) for row in whole.ops.where(ACKNOWLEDGED).selectExpr("p", LAST).collect()}
        acknowledged = whole.sends.where("offset IS NOT NULL").count()
    sent = {(p, offset): value for p, offset, value in rest if value != FAR + 1}
    for found in expected(FEW, anomalies):
        if found.value >= 0 and found.checker not in ("fabricated-value", "duplicate"):
            assert sent[found.p, found.offset] == found.value, found
    for p, name in zip((6, 7), MASKED, strict=True):
        assert (name, above, FEW.value_at(p, above)) in rest, f"{name}: the rule names the record above the late send"
    repeated = FEW.value_at(3, 6 * POLLED)
    assert ("bench-3", 6 * POLLED, repeated) in rest, "a value that stands elsewhere as well is judged at both places"
    of_all = {name: sum(of_p[name] for of_p in settled.counts.values()) for name in settled.counts["bench-0"]}
    assert all_reads - reads == of_all["reads"]
    assert sum(offset is not None for _, offset, _ in rest) + of_all["acked"] == acknowledged
    assert of_all["acked"] > 0.6 * PARTITIONS * FEW.blocks * POLLED
    assert of_all["compared"] == of_all["acked"] + of_all["found"]
    assert denied == {(p, end) for p, end in ends if p == STALE and end >= OLD} - {(p, end) for p, end, _ in rest}, (
        "staleness is measured by when settled records were acknowledged"
    )


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
