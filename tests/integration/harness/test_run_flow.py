"""The order of a run over a scripted broker: no nodes or faults, but real clients, history, drain and rotation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.operations.history import read_lines, recover
from harness.plan.run_file import parse_plan
from harness.runs.console import Stats
from harness.runs.digests import digests
from harness.runs.run import Options, run
from harness.workloads.append_poll.workload import AppendPollRun
from tests.integration.harness.scripted_run import TEXT, World, carry_out, phases
from tests.support.shared_session import checkers_in


def test_run_goes_through_all_phases_and_closes_everything(world: World, tmp_path: Path) -> None:
    ended = carry_out(tmp_path)
    assert (ended.problem, ended.exit_code) == (None, 0)
    assert phases(ended.store) == ["setup", "main", "heal", "final", "drain-current", "drain-n1"]
    assert [call for call in world.calls if not call.startswith("restart")] == [
        "open",
        "setup",
        "collect",
        "collect logs",
        "teardown",
        "close",
    ]
    found = recover(ended.store.history)
    assert (found.open, found.torn_bytes) == (0, 0)


def test_run_records_what_the_checkers_need(world: World, tmp_path: Path) -> None:
    store = carry_out(tmp_path).store
    lines = list(read_lines(store.history))
    run_json = store.read_run()
    assert (run_json["finished"], run_json["aborted"], run_json["seed"]) == (True, None, 3)
    assert run_json["lines"] == len(lines)
    assert run_json["recorded"] == digests(store), "something was written once the record was complete"
    assert "history.jsonl" in digests(store)
    assert parse_plan("run.toml", store.run_toml.read_text()).seed == 3
    sends = [line for line in lines if line["f"] == "send" and line["type"] == "ok" and line["phase"] == "main"]
    assert 30 < len(sends) < 120
    sentinels = [line for line in lines if line["f"] == "send" and line["type"] == "invoke" and line["sentinel"]]
    assert {line["partition"] for line in sentinels} == {0, 1}
    complete = {(line["phase"], line["partition"], line["reader"]) for line in lines if line["f"] == "drain-complete"}
    assert complete == {
        (phase, partition, reader)
        for phase in ("drain-current", "drain-n1")
        for partition in (0, 1)
        for reader in ("wire", "confluent")
    }
    evidence = [(line["node"], line.get("error")) for line in lines if line["f"] == "evidence"]
    assert evidence == [("n1", None), ("zk1", "no such folder")]
    assert any(line["f"] == "leadership" for line in lines)
    assert not [line for line in lines if line["f"] == "heal"], "nodes without a firewall have no cut to take back"


def test_run_every_record_that_was_acknowledged_is_in_every_drain(world: World, tmp_path: Path) -> None:
    lines = list(read_lines(carry_out(tmp_path).store.history))
    values = {line["index"]: line["values"] for line in lines if line["f"] == "send" and line["type"] == "invoke"}
    acknowledged = {
        value
        for line in lines
        if line["f"] == "send" and line["type"] == "ok"
        for value in values[line["invoke"]]  # type: ignore[attr-defined]
    }
    for phase in ("drain-current", "drain-n1"):
        read = {
            record["value"]
            for line in lines
            if line["f"] == "poll" and line["type"] == "ok" and line["phase"] == phase
            for record in line["records"]  # type: ignore[attr-defined]
        }
        assert read == acknowledged


def test_run_replica_that_lost_its_end_is_written_over_and_drained_again(world: World, tmp_path: Path) -> None:
    def cut() -> None:
        world.broker.cut_last(0)

    world.on["collect"] = cut
    store = carry_out(tmp_path, TEXT.replace("drain_s = 60", "drain_s = 6")).store
    assert phases(store)[-4:] == ["drain-current", "drain-n1", "final", "drain-again"]
    lines = list(read_lines(store.history))
    asked = {line["index"]: line for line in lines if line["f"] == "send" and line["type"] == "invoke"}
    sentinels = [
        (line["base_offset"], asked[line["invoke"]]["values"])
        for line in lines
        if line["f"] == "send" and line["type"] == "ok" and line["partition"] == 0 and line["phase"] == "final"
    ]
    assert len(sentinels) == 2
    assert sentinels[0][0] == sentinels[1][0], "the second one stands where the first was lost"
    assert sentinels[0][1] != sentinels[1][1]
    again = {
        (line["partition"], line["reader"])
        for line in lines
        if line["f"] == "drain-complete" and line["phase"] == "drain-again"
    }
    assert again == {(0, "wire"), (0, "confluent"), (1, "wire"), (1, "confluent")}


@pytest.mark.spark
def test_run_whose_healed_cluster_serves_no_reader_before_a_restart_is_unknown(
    world: World, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Produce and replication go on; the rotation, which restarts brokers, reads everything."""
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(Stats, "jobs", lambda _stats, done, of: told.append((done, of)))

    def answer(error: int) -> Callable[[], None]:
        def change() -> None:
            for partition in world.broker.partitions.values():
                partition.fetch_error = error

        return change

    world.on["restart n1"] = answer(6)  # NOT_LEADER_OR_FOLLOWER, from the heal on.
    world.on["collect"] = answer(0)
    plan = parse_plan("flow.toml", TEXT.replace("drain_s = 60", "drain_s = 6"))
    with checkers_in(spark):
        ended = run(plan, Options(tmp_path / "store", ("highwater", "test")))
    assert ended.problem is None
    (before, after) = told
    assert before == (0, 0)
    assert after[0] == after[1] > 15, "the checkers have done as many jobs as they said there would be"
    drains = [line for line in read_lines(ended.store.history) if str(line["f"]).startswith("drain-")]
    everything = {(partition, reader) for partition in (0, 1) for reader in ("wire", "confluent")}
    for phase, f in (("drain-current", "drain-incomplete"), ("drain-n1", "drain-complete")):
        found = [line for line in drains if line["phase"] == phase]
        assert {line["f"] for line in found} == {f}
        assert {(line["partition"], line["reader"]) for line in found} == everything
    results = json.loads(ended.store.results.read_text())
    assert results["verdict"] == "unknown"
    assert {text for text in results["coverage"]["missing"] if "healed cluster" in text} == {
        f"drain of hw-{partition}: {who} did not read the healed cluster to its end before its brokers were stopped"
        for partition in (0, 1)
        for who in ("the wire reader", "the real client")
    }


def test_run_logs_of_the_rotation_that_are_not_had_are_reported(world: World, tmp_path: Path) -> None:
    world.logs_missing = [("n1", "OSError: gone")]
    ended = carry_out(tmp_path)
    (told,) = [line for line in read_lines(ended.store.history) if line["f"] == "logs"]
    assert (told["node"], told["error"], told["phase"]) == ("n1", "OSError: gone", "drain-n1")
    assert ended.problem is None


def test_run_without_a_seed_draws_and_keeps_one(world: World, tmp_path: Path) -> None:
    store = carry_out(tmp_path, TEXT.replace("seed = 3\n", "")).store
    seed = store.read_run()["seed"]
    assert isinstance(seed, int)
    assert parse_plan("run.toml", store.run_toml.read_text()).seed == seed


def test_run_whose_workload_does_not_collect_evidence_has_it_all_the_same(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AppendPollRun, "final_phase", lambda _run, _tools: None)
    ended = carry_out(tmp_path)
    assert world.calls[-4:] == ["collect", "collect logs", "teardown", "close"]
    assert [line["node"] for line in read_lines(ended.store.history) if line["f"] == "evidence"] == ["n1", "zk1"]


def test_run_script_is_carried_out_instead_of_the_load(world: World, tmp_path: Path) -> None:
    text = TEXT + '[[script]]\ndo = "send"\nnames = ["m1", "m2"]\npartition = 1\n'
    ended = carry_out(tmp_path, text)
    assert ended.problem is None
    sends = [
        line["values"]
        for line in read_lines(ended.store.history)
        if line["f"] == "send" and line["type"] == "invoke" and line["phase"] == "main"
    ]
    assert sends == [[0, 1]]
    assert json.loads(ended.store.run_json.read_text())["scripted"] is True


def test_run_script_that_does_not_come_out_is_a_crash_that_names_the_step(world: World, tmp_path: Path) -> None:
    text = TEXT + '[[script]]\ndo = "send"\nnames = ["m1"]\nexpect = "fail"\n'
    ended = carry_out(tmp_path, text)
    assert ended.exit_code == 255
    assert "flow.toml:" in str(ended.problem)
    assert "step 0 (send)" in str(ended.problem)
