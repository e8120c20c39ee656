"""A workload, a system and a fault that another package adds by entry points run and are judged like the lab's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.operations.history import read_lines
from harness.runs.store import RunStore, read_json
from tests.support.shared_session import judged_in

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGE = Path(__file__).parent / "outside" / "toy_lab"
ENTRY_POINTS = """\
[highwater.workloads]
turns = toy_lab.workload:Toy
[highwater.systems]
toy = toy_lab.system:Toy
[highwater.faults]
toy-clock = toy_lab.fault:FAMILY
"""
RUN = """
name = "outside"
seed = 5
[system]
kind = "toy"
[nodes]
brokers = 1
[topic]
replication_factor = 1
[workload]
kind = "turns"
[workload.options]
sends = 40
[checks]
acknowledged = 1
election_faults = 0
lag_shrinks = 0
expansions = 0
"""


FAULTS = """
[faults]
kinds = ["tomorrow"]
targets = ["n1"]
interval_s = [1, 1]
duration_s = [2, 2]
"""
TEN_SECONDS = RUN.replace("sends = 40", "sends = 100\npause_ms = 50").replace(
    'kind = "turns"', 'kind = "turns"\ntime_limit_s = 9'
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the toy package and its metadata, as an installer leaves them."""
    folder = tmp_path / "site"
    shutil.copytree(PACKAGE, folder / "toy_lab")
    info = folder / "toy_lab-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-lab\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def run(installed: Path, text: str, *options: str) -> tuple[subprocess.CompletedProcess[str], RunStore]:
    file = installed.parent / "run.toml"
    file.write_text(text)
    store = installed.parent / "store"
    command = [sys.executable, "-m", "harness.commands", "test", str(file), "--store", str(store), *options]
    environment = {**os.environ, "PYTHONPATH": f"{installed}:{REPOSITORY}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    return done, RunStore((store / "latest").resolve())


def test_workload_and_system_of_another_package_are_run_by_their_names(installed: Path) -> None:
    done, store = run(installed, RUN, "--no-analysis")
    assert done.returncode == 0, done.stderr + done.stdout
    run_json = read_json(store.run_json)
    assert run_json["checkers"] == ["lost-write", "duplicate", "fabricated-value"]
    system, workload = run_json["system"], run_json["workload"]
    assert isinstance(system, dict)
    assert isinstance(workload, dict)
    assert (system["kind"], system["event_log"], system["toy"]) == ("toy", False, True)
    assert (workload["kind"], workload["options"]) == ("turns", {"sends": 40})
    outside = run_json["outside"]
    assert isinstance(outside, list)
    assert [(one["name"], one["package"]) for one in outside] == [("turns", "toy-lab"), ("toy", "toy-lab")]
    lines = list(read_lines(store.history))
    assert sum(line["f"] == "send" and line["type"] == "ok" for line in lines) == 41
    assert [line["phase"] for line in lines if line["f"] == "phase"] == ["setup", "main", "heal", "final"]
    assert [line["phase"] for line in lines if line["f"] == "toy-observer"] == ["setup"]
    assert (store.evidence / "n1" / "logs" / "toy.log").is_file()
    assert [line["node"] for line in lines if line["f"] == "evidence"] == ["n1", "zk1"]


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param("ssh", marks=pytest.mark.ssh),
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.nightly]),
    ],
)
def test_system_of_another_package_runs_on_nodes_that_have_only_what_it_brings_them(
    installed: Path, nodes: str
) -> None:
    done, store = run(installed, RUN, "--no-analysis", "--nodes", nodes)
    assert done.returncode == 0, done.stderr + done.stdout
    assert sum(line["f"] == "send" and line["type"] == "ok" for line in read_lines(store.history)) == 41
    log = (store.evidence / "n1" / "logs" / "toy.log").read_text()
    assert log.startswith("serving, with the code of ")
    assert log.rstrip().endswith("/packages/toy_lab")


def test_options_of_a_workload_of_another_package_are_its_own_to_refuse(installed: Path) -> None:
    text = RUN.replace("sends = 40", "sends = 0")
    done, _ = run(installed, text)
    assert done.returncode == 254
    line = text.splitlines().index("sends = 0") + 1
    assert f"run.toml:{line}: workload.options.sends: 0 is not a whole number from 1 on" in done.stderr


def test_script_is_refused_by_a_workload_that_cannot_send_for_it(installed: Path) -> None:
    done, _ = run(installed, RUN + '[[script]]\ndo = "wait-leader"\nbroker = 1\n')
    assert done.returncode == 254
    assert "script: the workload `turns` has no sends for scripts" in done.stderr


def test_name_that_no_package_adds_is_refused_with_the_names_that_there_are(installed: Path) -> None:
    done, _ = run(installed, RUN.replace('kind = "turns"', 'kind = "turn"'))
    assert done.returncode == 254
    assert re.search(r"workload.kind: 'turn' is not one of append-poll, .*turns", done.stderr)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("lost", "verdict", "code"),
    [pytest.param(-1, "valid", 0, marks=pytest.mark.nightly), (20, "invalid", 1)],
)
def test_run_of_another_package_is_judged_by_the_checkers_that_it_names(
    installed: Path, lost: int, verdict: str, code: int
) -> None:
    text = RUN.replace('kind = "toy"\n', f'kind = "toy"\n[system.settings]\n"lost.offset" = {lost}\n')
    done, store = run(installed, text)
    results = read_json(store.results)
    assert (results["verdict"], done.returncode) == (verdict, code), done.stdout + done.stderr
    checkers = results["checkers"]
    assert isinstance(checkers, dict)
    assert set(checkers) == {"lost-write", "duplicate", "fabricated-value", "coverage"}
    assert checkers["lost-write"]["verdict"] == verdict
    assert checkers["duplicate"]["verdict"] == "valid"


@pytest.mark.spark
def test_fault_of_another_package_is_scheduled_and_judged_by_its_effects(installed: Path, spark: SparkSession) -> None:
    """The toy broker deletes what is too old by its own clock, which nothing but the fault's own line explains."""
    text = TEN_SECONDS + '[topic.config]\n"retention.ms" = 3600000\n' + FAULTS
    done, store = run(installed, text, "--no-analysis")
    assert done.returncode == 0, done.stdout + done.stderr
    judged = judged_in(spark, store)
    said = [line for line in read_lines(store.history) if line["kind"] == "nemesis" and line["f"] != "skipped"]
    assert [line["f"] for line in said[:2]] == ["start", "stop"]
    for line in said:
        assert (line["fault"], line["family"], line["effects"]) == ("tomorrow", "toy-clock", ["skews-clock"])
        assert line["targets"] == ["n1"]
        assert line["observed"], line
    results = read_json(store.results)
    assert (results["verdict"], judged.exit_code) == ("valid", 0), judged.sentence
    checkers, faults = results["checkers"], results["faults"]
    assert isinstance(checkers, dict)
    assert isinstance(faults, list)
    assert checkers["lost-write"]["counts"]["allowed"] > 5
    assert {(fault["family"], *fault["effects"]) for fault in faults} == {("toy-clock", "skews-clock")}
    assert read_json(store.run_json)["fault_kinds"] == {"tomorrow": {"family": "toy-clock", "effects": ["skews-clock"]}}


def test_fault_of_another_package_that_these_nodes_cannot_do_is_said_to_be_unavailable(installed: Path) -> None:
    (installed / "toy_lab" / "fault.py").write_text(
        (installed / "toy_lab" / "fault.py").read_text().replace('!= "toy"', '!= "another"')
    )
    done, store = run(installed, RUN + FAULTS, "--no-analysis")
    assert done.returncode == 0, done.stderr + done.stdout
    (line,) = [line for line in read_lines(store.history) if line["kind"] == "nemesis"]
    assert (line["f"], line["fault"], line["error"]) == ("unavailable", "tomorrow", "n1 runs no toy broker")
