"""The example run files are understood, scripts and all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.runs.run_files import load
from nemesis.script_steps import Inject, Send, parse_script

ROOT = Path(__file__).resolve().parents[3]
RUN_FILES = sorted(path for path in (ROOT / "examples" / "runs").glob("*.toml") if not path.stem.endswith(".expect"))


@pytest.mark.parametrize("file", RUN_FILES, ids=lambda file: file.stem)
def test_example_run_file_is_understood(file: Path) -> None:
    plan = load(file)
    steps = parse_script(plan.script, plan.nodes.brokers, plan.topic.partitions)
    assert bool(steps) != bool(plan.faults)


def test_corruption_run_damages_every_kind_of_file_of_one_broker_by_the_runs_seed() -> None:
    plan = load(ROOT / "examples" / "runs" / "corrupt-one-replica.toml")
    steps = parse_script(plan.script, plan.nodes.brokers, plan.topic.partitions)
    damage = [step for step in steps if isinstance(step, Inject) and "file" in step.params]
    assert {step.broker for step in damage} == {1}
    assert {(step.fault, step.params["file"]) for step in damage} >= {
        ("bitflip", "segment"),
        ("bitflip", "index"),
        ("truncate-file", "segment"),
        ("truncate-file", "checkpoint"),
        ("remove-file", "segment"),
        ("remove-file", "oldest-segment"),
        ("remove-file", "index"),
        ("remove-file", "checkpoint"),
    }
    assert not any("seed" in step.params for step in damage), "other places with every seed"
    assert {replicas.index(1) for replicas in plan.topic.assignment or ()} == {0, 1, 2}, "first, second and last"


def test_corruption_run_demands_every_record_that_is_sent_while_all_are_in_sync() -> None:
    """Those are sent after each damage and before the next: a floor below them would be met by what came before."""
    plan = load(ROOT / "examples" / "runs" / "corrupt-one-replica.toml")
    steps = parse_script(plan.script, plan.nodes.brokers, plan.topic.partitions)
    demanded = sum(len(step.names) for step in steps if isinstance(step, Send) and step.expect == "ok")
    assert plan.checks.acknowledged == demanded
