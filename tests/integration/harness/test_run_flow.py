"""The order of a run over a scripted broker: no nodes or faults, but real clients, history, drain and rotation."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.commands import main as cli
from harness.operations.history import read_lines, recover
from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.runs import cluster, judging
from harness.runs.analysis import Judged
from harness.runs.console import Console
from harness.runs.run import Ended, Options, run
from harness.runs.store import RunStore
from harness.systems.highwater.kind import Highwater
from harness.workloads.append_poll.workload import AppendPollRun
from tests.integration.harness.fake_broker import FakeBroker
from tests.support.fake_cluster import FakeView

TEXT = """
name = "flow"
seed = 3
[nodes]
brokers = 1
[topic]
partitions = 2
replication_factor = 1
[workload]
rate = 100.0
time_limit_s = 1
[limits]
drain_s = 5
setup_s = 5
"""


class World:
    """What the run is given instead of nodes and a system; `calls` says in which order it was used."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broker = FakeBroker(partitions=0)
        self.on: dict[str, Callable[[], None]] = {}
        self.nodes: dict[str, object] = {}
        self.crashes: list[tuple[str, str]] = []
        self.logs_missing: list[tuple[str, str]] = []

    def call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.on:
            self.on[name]()

    def open(self) -> None:
        self.call("open")

    def close(self) -> None:
        self.call("close")

    def setup(self) -> None:
        self.call("setup")

    def bootstrap(self) -> list[tuple[str, str, int]]:
        return [("n1", "127.0.0.1", self.broker.port)]

    def view(self) -> FakeView:
        world = self

        class View(FakeView):
            def restart_broker(self, node: str) -> None:
                world.call(f"restart {node}")
                super().restart_broker(node)

        return View()

    def collect(self, evidence: Path) -> list[tuple[str, str | None]]:
        self.call("collect")
        return [("n1", None), ("zk1", "no such folder")]

    def collect_logs(self, evidence: Path) -> list[tuple[str, str]]:
        self.call("collect logs")
        return self.logs_missing

    def crashed(self) -> list[tuple[str, str]]:
        told, self.crashes = self.crashes, []
        return told

    def stop_broker(self, node: str) -> None:
        raise AssertionError("the only broker leads already")

    def start_broker(self, node: str) -> None:
        raise AssertionError("nothing was stopped")

    def teardown(self) -> None:
        self.call("teardown")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    monkeypatch.setattr(cluster, "make_nodes", lambda *_args, **_options: made)
    monkeypatch.setattr(Highwater, "open", lambda _kind, _nodes, _plan: made)
    yield made
    made.broker.close()


def carry_out(tmp_path: Path, text: str = TEXT) -> Ended:
    plan: Plan = parse_plan("flow.toml", text)
    return run(plan, Options(tmp_path / "store", ("highwater", "test"), analysis=False))


def phases(store: RunStore) -> list[object]:
    return [line["phase"] for line in read_lines(store.history) if line["f"] == "phase"]


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
    store = carry_out(tmp_path, TEXT.replace("drain_s = 5", "drain_s = 2")).store
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
def test_run_whose_healed_cluster_serves_no_reader_before_a_restart_is_unknown(world: World, tmp_path: Path) -> None:
    """Produce and replication go on; the rotation, which restarts brokers, reads everything."""

    def answer(error: int) -> Callable[[], None]:
        def change() -> None:
            for partition in world.broker.partitions.values():
                partition.fetch_error = error

        return change

    world.on["restart n1"] = answer(6)  # NOT_LEADER_OR_FOLLOWER, from the heal on.
    world.on["collect"] = answer(0)
    plan = parse_plan("flow.toml", TEXT.replace("drain_s = 5", "drain_s = 2"))
    ended = run(plan, Options(tmp_path / "store", ("highwater", "test")))
    assert ended.problem is None
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


def test_run_that_breaks_off_after_its_evidence_keeps_the_logs_since(world: World, tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    world.on["collect"] = fail
    assert carry_out(tmp_path).exit_code == 255
    assert world.calls[-3:] == ["collect logs", "teardown", "close"]


def test_run_without_a_seed_draws_and_keeps_one(world: World, tmp_path: Path) -> None:
    store = carry_out(tmp_path, TEXT.replace("seed = 3\n", "")).store
    seed = store.read_run()["seed"]
    assert isinstance(seed, int)
    assert parse_plan("run.toml", store.run_toml.read_text()).seed == seed


def test_run_setup_that_fails_is_a_crash_with_evidence_and_nothing_left_open(world: World, tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no ZooKeeper")

    world.on["setup"] = fail
    ended = carry_out(tmp_path)
    assert ended.exit_code == 255
    assert "phase setup: RuntimeError: no ZooKeeper" in str(ended.problem)
    assert world.calls == ["open", "setup", "collect", "teardown", "close"]
    assert ended.store.read_run()["aborted"] == ended.problem


def test_run_broker_that_dies_after_the_load_is_recorded(world: World, tmp_path: Path) -> None:
    world.on["collect"] = lambda: world.crashes.append(("n1", "Traceback …"))
    ended = carry_out(tmp_path)
    told = [(line["node"], line["log_tail"]) for line in read_lines(ended.store.history) if line["f"] == "crash"]
    assert told == [("n1", "Traceback …")]


@pytest.mark.parametrize(("found", "code"), [("invalid", 1), ("valid", 255), ("unknown", 255)])
def test_run_that_breaks_off_is_judged_all_the_same_and_a_loss_counts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str, code: int
) -> None:
    def judge(store: RunStore, *_: object, **__: object) -> Judged:
        assert store.read_run()["aborted"]
        return Judged(found, "what it came to", None, None)

    monkeypatch.setattr(judging, "analyze", judge)

    def fail() -> None:
        raise RuntimeError("disk full")

    world.on["collect"] = fail
    plan = parse_plan("flow.toml", TEXT)
    ended = run(plan, Options(tmp_path / "store", ("highwater", "test")))
    assert ended.exit_code == code
    assert ended.judged is not None
    assert "disk full" in str(ended.problem)


def test_run_whose_analysis_takes_too_long_names_the_command_that_judges_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is whole, whatever the machine was busy with when it was judged."""
    program = tmp_path / "fake" / "checkers" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.with_name("__init__.py").write_text("")
    program.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    monkeypatch.chdir(tmp_path)
    plan = parse_plan("flow.toml", TEXT + "analysis_s = 1\n")
    ended = run(plan, Options(tmp_path / "a store", ("highwater", "test")))
    assert (ended.exit_code, ended.judged) == (255, None)
    assert "the checkers did not end within limits.analysis_s = 1 s" in str(ended.problem)
    assert ended.store.read_run()["finished"] is True
    (command,) = re.findall("`(.*)`", str(ended.problem))
    assert command.endswith(" --time-limit 2")
    program.write_text(
        "import json, sys\n"
        "out = open(sys.argv[1] + '/results.json', 'w')\n"
        "json.dump({'verdict': 'valid', 'sentence': 'Fine.', 'checkers': {}}, out)\n"
    )
    name, *arguments = shlex.split(command)
    assert name == "highwater"
    assert cli.main(arguments) == 0
    assert ended.store.results.is_file()


def test_run_nodes_that_do_not_open_are_closed_all_the_same(world: World, tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no bridge")

    world.on["open"] = fail
    assert carry_out(tmp_path).exit_code == 255
    assert world.calls == ["open", "close"]


def test_run_teardown_that_fails_still_closes_the_nodes(world: World, tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("broker survives")

    world.on["teardown"] = fail
    ended = carry_out(tmp_path)
    assert world.calls[-1] == "close"
    errors = [line.get("error") for line in read_lines(ended.store.history) if line["f"] == "teardown"]
    assert errors == ["RuntimeError: broker survives"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_aborted_in_the_main_phase_heals_closes_and_keeps_the_history(
    world: World, tmp_path: Path, number: signal.Signals
) -> None:
    asked = world.broker._produce

    def strike(version: int, request: object) -> bytes | None:
        world.broker._produce = asked  # type: ignore[method-assign]
        os.kill(os.getpid(), number)
        return asked(version, request)  # type: ignore[arg-type]

    world.broker._produce = strike  # type: ignore[method-assign]
    ended = carry_out(tmp_path, TEXT.replace("time_limit_s = 1", "time_limit_s = 600"))
    assert (ended.exit_code, ended.problem) == (255, f"aborted by {number.name}")
    assert any(call.startswith("restart") for call in world.calls)
    assert world.calls[-2:] == ["teardown", "close"]
    assert ended.store.read_run()["aborted"] == f"aborted by {number.name}"
    assert recover(ended.store.history).open == 0
    assert phases(ended.store) == ["setup", "main"]


def _strike(_descriptor: int = 0) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("when", ["teardown", "close", "history"])
def test_run_that_a_signal_meets_while_it_ends_ends_whole_and_is_not_judged(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Neither 0, which would say valid, nor half of a cleaning up."""
    ended_whole: list[str] = []

    def strike() -> None:
        _strike()
        ended_whole.append(when)

    monkeypatch.setattr(judging, "analyze", lambda *_args, **_options: pytest.fail("judged"))
    if when == "history":
        monkeypatch.setattr("harness.operations.history.os.fsync", lambda _descriptor: strike())
    else:
        world.on[when] = strike
    ended = run(parse_plan("flow.toml", TEXT), Options(tmp_path / "store", ("highwater", "test")))
    assert (ended.exit_code, ended.judged, ended_whole) == (255, None, [when])
    assert str(ended.problem).startswith("analysis aborted by SIGINT; the run is recorded: ")
    assert world.calls[-2:] == ["teardown", "close"]
    run_json = ended.store.read_run()
    assert (run_json["finished"], run_json["aborted"]) == (True, None)


def test_run_that_a_signal_meets_after_its_verdict_keeps_the_verdict(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Console.close

    def strike(console: Console) -> None:
        _strike()
        close(console)

    monkeypatch.setattr(Console, "close", strike)
    monkeypatch.setattr(judging, "analyze", lambda *_args, **_options: Judged("unknown", "what it came to", None, None))
    ended = run(parse_plan("flow.toml", TEXT), Options(tmp_path / "store", ("highwater", "test")))
    assert (ended.exit_code, ended.problem) == (2, None)


def test_run_that_failed_takes_every_fault_back_though_a_signal_comes(world: World, tmp_path: Path) -> None:
    text = TEXT + '[[script]]\ndo = "send"\nnames = ["m1"]\nexpect = "fail"\n'
    assert "came out ok" in str(carry_out(tmp_path, text).problem)
    undisturbed, world.calls = world.calls, []

    def strike() -> None:
        del world.on["restart n1"]
        _strike()

    world.on["restart n1"] = strike
    ended = carry_out(tmp_path, text)
    assert ended.exit_code == 255
    assert world.calls == undisturbed
    assert "restart n1" in undisturbed


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
