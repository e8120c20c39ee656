"""Runs over a scripted broker that fail, break off, or that a signal meets: what is closed, kept and judged."""

from __future__ import annotations

import os
import re
import shlex
import signal
from pathlib import Path

import pytest

from harness.commands import main as cli
from harness.operations.history import read_lines, recover
from harness.plan.run_file import parse_plan
from harness.runs import early_judge, judging
from harness.runs.analysis import Judged
from harness.runs.console import Console
from harness.runs.run import Options, run
from harness.runs.store import RunStore
from tests.integration.harness.scripted_run import TEXT, World, carry_out, phases


def test_run_that_breaks_off_after_its_evidence_keeps_the_logs_since(world: World, tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    world.on["collect"] = fail
    assert carry_out(tmp_path).exit_code == 255
    assert world.calls[-3:] == ["collect logs", "teardown", "close"]


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
    # That program never listens.
    monkeypatch.setattr(early_judge, "LISTENS_WITHIN_S", 0.1)
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
    name, *arguments, _ = shlex.split(command)
    assert name == "highwater"
    # Two seconds may be too few for Python's start on a busy machine.
    assert cli.main([*arguments, "60"]) == 0
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
