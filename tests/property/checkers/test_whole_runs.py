"""A run folder through the whole analysis: files in, results.json out, and what is missing makes it unknown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.analysis import analyse
from tests.property.checkers.damaged_runs import (
    copied_in_part,
    cut_a_log,
    ended_while_copying,
    event_line_spoilt,
    fault_never_seen,
    healed_cluster_not_read,
    healed_cluster_not_spoken_of,
    history_of,
    line_cut_in_the_middle,
    lost_incarnation,
    no_confluent,
    no_drain_of_one_replica,
    no_event_log,
    no_segments,
    no_sentinel,
    no_zookeeper,
    write_history,
)
from tests.support.evidence_files import write_run
from tests.support.flipped import flip
from tests.support.judging import pyspark_sockets
from tests.support.known_faults import said_of
from tests.support.model_cluster import random_life

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    life = random_life(Random(3), "hw", steps=30, partitions=2, current=True)
    return write_run(tmp_path_factory.mktemp("run") / "r", life)


@pytest.fixture
def folder(run_dir: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(run_dir, tmp_path / "r"))


def _judge(spark: SparkSession, folder: Path) -> dict[str, Any]:
    with pyspark_sockets():
        analysis = analyse(folder, spark=spark)
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty(), "cached frames outlive their run's folder"
    written = json.loads((folder / "results.json").read_text())
    assert written["verdict"] == analysis.verdict
    series = json.loads((folder / "series.json").read_text())
    assert set(series) >= {"duration_ns", "rate", "latency", "latency_points", "partitions", "clock", "faults"}
    return dict(written)


def test_whole_run_of_the_model_is_valid_and_fully_recorded(spark: SparkSession, folder: Path) -> None:
    with (folder / "history.jsonl").open("a") as file:
        file.write('{"index": 99999, "type": "inv')
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "faults": {"kinds": ["kill", "halves"]}}))
    results = _judge(spark, folder)
    assert results["verdict"] == "valid", results["sentence"]
    assert results["sentence"].startswith("Valid: ")
    assert "required less" in results["sentence"]
    for lines in json.loads((folder / "series.json").read_text())["partitions"].values():
        # Whom the controller chose is who says that it leads.
        chosen = {(broker, epoch) for _, broker, epoch, *_ in lines["elected"]}
        assert chosen >= {(broker, epoch) for _, broker, epoch in lines["leader"]} != set()
    assert results["history"]["torn"] == 1
    assert {row["partition"] for row in results["durability"]} == {"hw-0", "hw-1"}
    assert all(row["acknowledged"] == row["read"] > 0 for row in results["durability"])
    assert {row["gone"] for row in results["durability"]} == {0}
    assert results["linearizability"]["verdict"] == "valid"
    assert results["coverage"]["met"]
    assert results["not_fired"] == ["halves"]
    assert "not fired: halves" in results["sentence"]


@pytest.mark.parametrize(
    "damages",
    [
        # Each is enough alone; together they must still all be told.
        {
            no_event_log: "no event log of n2",
            event_line_spoilt: "1 lines cannot be read that are not the torn last one of an incarnation",
            no_zookeeper: "no transaction log of zk1",
            no_segments: "no log folders of n1",
            fault_never_seen: "its effect was not observed",
            no_confluent: "the real client finished no drain",
            line_cut_in_the_middle: "1 lines of the history cannot be read",
        },
        pytest.param(
            {
                lost_incarnation: "no incarnation in its event log says so",
                no_drain_of_one_replica: "with n3 as leader",
                no_sentinel: "no acknowledged sentinel",
            },
            marks=pytest.mark.nightly,
        ),
        pytest.param({no_segments: "no log folders of n1"}, marks=pytest.mark.nightly),
    ],
    ids=["nodes and history", "drain", "segments"],
)
def test_whole_run_that_lacks_something_is_unknown_and_says_what(
    spark: SparkSession, folder: Path, damages: dict[Callable[[Path], None], str]
) -> None:
    for damage in damages:
        damage(folder)
    results = _judge(spark, folder)
    assert results["verdict"] == "unknown", results["sentence"]
    texts = [*results["reasons"], *results["coverage"]["missing"]]
    texts += [text for check in results["checkers"].values() for text in check["reasons"]]
    for reason in damages.values():
        assert any(reason in text for text in texts), (reason, texts)


NOT_READ = "drain of {p}: {who} did not read the healed cluster to its end before its brokers were stopped"


@pytest.mark.nightly
def test_whole_run_whose_healed_cluster_was_not_read_is_unknown(spark: SparkSession, folder: Path) -> None:
    """Brokers that answered no reader until they were restarted for the rotation."""
    healed_cluster_not_read(folder)
    results = _judge(spark, folder)
    assert results["verdict"] == "unknown", results["sentence"]
    assert results["coverage"]["missing"] == [
        NOT_READ.format(p="hw-1", who="the wire reader"),
        NOT_READ.format(p="hw-1", who="the real client"),
    ]
    drain = results["checkers"]["final-drain"]
    assert drain["verdict"] == "unknown"
    assert "before any broker was stopped for it, did not reach its end: poll at n2: timeout" in drain["reasons"][0]


@pytest.mark.nightly
def test_whole_run_whose_load_left_a_partition_out_is_unknown_and_names_it(spark: SparkSession, folder: Path) -> None:
    """The partition is served from the final phase on, in the history of it. Nor does it say how the healed cluster
    was read.
    """
    healed_cluster_not_spoken_of(folder)
    lines = history_of(folder)
    for line in lines:
        if line["kind"] == "client" and line["partition"] == 1 and line["phase"] == "main":
            line["phase"] = "final"
    write_history(folder, lines)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "scripted": False}))
    results = _judge(spark, folder)
    assert results["verdict"] == "unknown", results["sentence"]
    told = [text for text in results["coverage"]["missing"] if "main phase of the load" in text]
    assert told == [
        "no acknowledged write to hw-1 in the main phase of the load",
        "no poll that returned a record of hw-1 in the main phase of the load",
    ]
    assert [text for text in results["coverage"]["missing"] if "did not read the healed cluster" in text] == [
        NOT_READ.format(p="hw-0", who="the real client"),
        NOT_READ.format(p="hw-1", who="the real client"),
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("lost_its_end", [False, True])
def test_whole_run_that_names_few_checkers_claims_no_more_than_they_show(
    spark: SparkSession, folder: Path, lost_its_end: bool
) -> None:
    """No drain is asked for: that the end of the history is gone shows in the number of its lines only."""
    lines = history_of(folder)
    run = json.loads((folder / "run.json").read_text())
    few: dict[str, Any] = {"checkers": ["lost-write", "duplicate", "fabricated-value"], "lines": len(lines)}
    (folder / "run.json").write_text(json.dumps({**run, **few}))
    if lost_its_end:
        write_history(folder, lines[: len(lines) // 2])
    results = _judge(spark, folder)
    assert set(results["checkers"]) == {*few["checkers"], "coverage"}
    assert results["verdict"] == ("unknown" if lost_its_end else "valid"), results["sentence"]
    assert (f"the history has {len(lines) // 2} lines" in results["sentence"]) == lost_its_end
    assert "read back" not in results["sentence"]
    assert "; not asked for: lost-tail, unseen, final-drain, aborted-read, " in results["sentence"]
    assert results["linearizability"]["verdict"] == "unknown"


@pytest.mark.nightly
def test_whole_run_in_which_a_checker_that_is_not_asked_for_finds_something_is_not_valid(
    spark: SparkSession, folder: Path
) -> None:
    lines = history_of(folder)
    polls = [line for line in lines if line["f"] == "poll" and line["type"] == "ok" and line.get("records")]
    polls[-1]["records"][-1]["intact"] = False
    write_history(folder, lines)
    run = json.loads((folder / "run.json").read_text())
    early = {
        "checker": "fabricated-value",
        "found": "not intact",
        "topic_partition": f"{polls[-1]['topic']}-{polls[-1]['partition']}",
        "operations": [3],
        "at_ns": 2 * 10**9,
        "lines": 9,
    }
    said = "ended early, by what fabricated-value had found at 2.0 s, operation 3"
    run["ended_early"] = early
    for asked, verdict in ((["duplicate"], "unknown"), (["duplicate", "fabricated-value"], "invalid")):
        (folder / "run.json").write_text(json.dumps({**run, "checkers": asked, "lines": len(lines)}))
        results = _judge(spark, folder)
        assert results["verdict"] == verdict, results["sentence"]
        unasked = [text for text in results["reasons"] if "which this run does not ask for, found 1" in text]
        assert bool(unasked) == (verdict == "unknown"), results["reasons"]
        # What ended it early was no verdict: the whole history has to show it.
        assert results["ended_early"] == {**early, "confirmed": verdict == "invalid"}
        assert said in results["sentence"]
        assert (f"{said}, which the whole history does not show" in results["reasons"]) == (verdict == "unknown")


def _last_stop(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return [line for line in lines if line["kind"] == "nemesis" and line["f"] == "stop"][-1]


def _late_clock_step(from_ns: int, until_ns: int) -> list[dict[str, Any]]:
    """A fault that harms nothing."""
    common = {"type": "info", "process": -1, "kind": "nemesis", "phase": "main", "fault": "clock-step", "fault_id": 900}
    common |= said_of("clock-step")
    seen = {**common, "targets": ["n1"], "params_json": "{}", "observed": True, "observation": "seen"}
    return [{**seen, "f": "start", "time_ns": from_ns}, {**seen, "f": "stop", "time_ns": until_ns}]


@pytest.mark.nightly
@pytest.mark.parametrize("story", ["in time", "too_short", "another late fault"])
def test_whole_run_whose_partition_serves_nothing_after_a_fault_is_unknown_if_there_was_time(
    spark: SparkSession, folder: Path, story: str
) -> None:
    """Served through the faults, and again from the final phase on; the load went on, or it was over."""
    lines = history_of(folder)
    stop = _last_stop(lines)
    moved = 20_000_000_000
    for line in lines:
        if line["index"] > stop["index"]:
            line["time_ns"] += moved
            if line["kind"] == "client" and line["partition"] == 1 and line["phase"] == "main":
                line["phase"] = "heal"
    heal = {"type": "info", "process": -2, "kind": "harness", "f": "phase", "phase": "heal"}
    heal_ns = stop["time_ns"] + (moved // 4 if story == "too_short" else moved)
    late = _late_clock_step(heal_ns - moved // 4, heal_ns - moved // 10) if story == "another late fault" else []
    added = [*late, {**heal, "time_ns": heal_ns}]
    write_history(folder, [*lines, *({**line, "index": len(lines) + nth} for nth, line in enumerate(added))])
    run = json.loads((folder / "run.json").read_text())
    timing = {"system": {**run["system"], "settings": {"zookeeper.session.timeout.ms": "6000"}}}
    checks = {"acknowledged": 1, "election_faults": 0, "lag_shrinks": 0, "expansions": 0}
    (folder / "run.json").write_text(json.dumps({**run, **timing, "scripted": False, "checks": checks}))
    results = _judge(spark, folder)
    said = [text for text in results["coverage"]["missing"] if " in the load " in text]
    lowered = results["coverage"]["lowered"]
    assert ("partitions_after_last_fault" in lowered) == (story != "in time")
    if story == "too_short":
        assert said == []
        assert lowered["partitions_after_last_fault"] in (0, 1)
    else:
        when = f"for 15.0 s after fault {stop['fault_id']}" if late else f"after fault {stop['fault_id']}, the last"
        assert results["verdict"] == "unknown"
        assert any(text.startswith("no acknowledged write to ") and "hw-1 (0 tried)" in text for text in said), said
        assert any(text.startswith("no answered poll of ") and when in text for text in said), said


def test_whole_run_with_a_lost_record_is_invalid_with_its_witness(spark: SparkSession, folder: Path) -> None:
    lines = history_of(folder)
    sent = next(line for line in lines if line.get("f") == "send" and line["type"] == "ok")
    (gone,) = lines[sent["invoke"]]["values"][:1]
    for line in lines:
        if "records" in line:
            line["records"] = [record for record in line["records"] if record["value"] != gone]
    write_history(folder, lines)
    results = _judge(spark, folder)
    assert results["verdict"] == "invalid"
    assert results["sentence"].startswith("Invalid: 1 acknowledged record lost; found by lost-write")
    lost = results["checkers"]["lost-write"]
    assert lost["counts"]["lost"] == 1
    (witness,) = lost["witnesses"]
    assert witness["value"] == gone
    assert [line["type"] for line in witness["operations"]] == ["invoke", "ok"]
    # What the replicas hold at that offset: the record itself, three times.
    assert {entry["node"] for entry in witness["evidence"]} == {"n1", "n2", "n3"}
    assert all(entry["value"] == gone for entry in witness["evidence"])


@pytest.mark.nightly
def test_whole_run_whose_drain_misses_a_read_record_counts_it_as_gone(spark: SparkSession, folder: Path) -> None:
    lines = history_of(folder)
    invokes = {line["index"]: line for line in lines if line["type"] == "invoke"}
    drained = [
        line
        for line in lines
        if line.get("records") and line["phase"].startswith("drain") and invokes[line["invoke"]]["reader"] == "wire"
    ]
    (missed,) = drained[-1]["records"][:1]
    drained[-1]["records"] = drained[-1]["records"][1:]
    write_history(folder, lines)
    results = _judge(spark, folder)
    assert results["verdict"] == "invalid"
    p = "-".join(str(invokes[drained[-1]["invoke"]][name]) for name in ("topic", "partition"))
    assert {row["partition"]: row["gone"] for row in results["durability"] if row["gone"]} == {p: 1}, missed
    assert "1 record read and gone at the drain" in results["sentence"]
    assert results["checkers"]["vanished-read"]["verdict"] == "invalid"


@pytest.mark.nightly
@pytest.mark.parametrize(("aimed_at", "verdict"), [("n1", "valid"), ("n2", "invalid")])
def test_whole_run_with_a_damaged_segment_is_excused_only_where_a_fault_damaged_files(
    spark: SparkSession, folder: Path, aimed_at: str, verdict: str
) -> None:
    """By its effects: nobody here knows that kind."""
    segment = next(path for path in (folder / "evidence" / "n1").rglob("*.log") if path.stat().st_size > 100)
    flip(segment, 80)
    lines = history_of(folder)
    chosen = next(line["fault_id"] for line in lines if line.get("fault"))
    for line in lines:
        if line.get("fault_id") == chosen:
            line.update(fault="scribble", family="pens", effects=["damages-files"], targets=[aimed_at])
    write_history(folder, lines)
    results = _judge(spark, folder)
    assert results["checkers"]["log-contiguous"]["verdict"] == verdict
    assert results["checkers"]["log-matching"]["verdict"] == verdict


@pytest.mark.nightly
def test_whole_run_whose_fault_does_not_say_its_effects_is_unknown(spark: SparkSession, folder: Path) -> None:
    """As older histories have it: it may have damaged files, so that those are held against nobody."""
    segment = next(path for path in (folder / "evidence" / "n1").rglob("*.log") if path.stat().st_size > 100)
    flip(segment, 80)
    lines = history_of(folder)
    aimed = next(line["fault_id"] for line in lines if line.get("fault") and line["targets"] == ["n1"])
    for line in lines:
        if line.get("fault_id") == aimed:
            del line["family"], line["effects"]
    write_history(folder, lines)
    results = _judge(spark, folder)
    assert results["checkers"]["log-contiguous"]["verdict"] != "invalid"
    assert results["verdict"] == "unknown"
    assert [text for text in results["coverage"]["missing"] if "does not say what its effects are" in text]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("told", "why"),
    [
        (copied_in_part, "the evidence of n1 is not whole: OSError: connection lost"),
        (ended_while_copying, "the evidence of n1 is not whole: no line says that all was copied"),
        (None, None),
    ],
    ids=["in part", "nobody says", "whole"],
)
def test_whole_run_with_a_log_that_ends_too_soon_is_invalid_only_where_all_of_it_was_copied(
    spark: SparkSession, folder: Path, told: Callable[[Path], None] | None, why: str | None
) -> None:
    cut_a_log(folder)
    if told is not None:
        told(folder)
    results = _judge(spark, folder)
    for name in ("log-matching", "epoch-cache"):
        check = results["checkers"][name]
        assert check["verdict"] == ("invalid" if why is None else "unknown"), check
        assert why is None or why in check["reasons"], check
    found = {name for name, check in results["checkers"].items() if check["verdict"] == "invalid"}
    assert found == (set() if why else {"log-matching", "epoch-cache"})
