"""KIP-101 by the two protocols: truncation to the high watermark loses an acknowledged record, truncation by leader
epoch does not. docs/faults.md tells the sequence step by step.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from harness.plan.plan import Plan
from harness.runs.run_files import load
from tests.mutants.lab import Judged, Lab, LabRun
from tests.mutants.patches import ROOT

pytestmark = pytest.mark.guarantee("R8", "V2")

RUNS = ROOT / "examples" / "runs"
OPTION = "replica.truncation"
HIGH_WATERMARK = LabRun(RUNS / "kip-101-high-watermark.toml", 101)
LEADER_EPOCH = LabRun(RUNS / "kip-101-leader-epoch.toml", 101)

# What follows from the cut, and must not be counted against the checkers: a leader without the record, and another
# record at its offset.
CONSEQUENCES = {"inconsistent-offset", "leader-completeness", "truncation"}
LOST = {"lost-write", "lost-tail"}


def the_run(lab_run: LabRun) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lab_run", [lab_run], ids=[lab_run.file.stem])


def in_the_lab(test: Callable[..., None]) -> Callable[..., None]:
    marked: Callable[..., None] = pytest.mark.spark(pytest.mark.timeout(900)(test))
    return marked


def test_run_files_differ_in_the_option_alone() -> None:
    def without_option(plan: Plan) -> Plan:
        settings = {key: value for key, value in plan.system.settings.items() if key != OPTION}
        # Each step names the line that it stands on.
        script = tuple(dataclasses.replace(step, where="") for step in plan.script)
        return dataclasses.replace(
            plan, name="", system=dataclasses.replace(plan.system, settings=settings), script=script
        )

    by_watermark, by_epoch = load(HIGH_WATERMARK.file), load(LEADER_EPOCH.file)
    assert by_watermark.system.settings[OPTION] == "high-watermark"
    assert by_epoch.system.settings[OPTION] == "leader-epoch"
    assert without_option(by_watermark) == without_option(by_epoch)


def value_of(judged: Judged, name: str) -> int:
    """The value that the script's record of this name carries."""
    for line in judged.history():
        if line["f"] == "step" and line["do"] == "send":
            result = json.loads(line["result_json"])
            if name in result["names"]:
                value: int = result["values"][result["names"].index(name)]
                return value
    raise AssertionError(f"no step sent {name}")


def paused_ns(judged: Judged, node: str) -> range:
    """When a node was paused, as its broker's event log counts time (CLOCK_MONOTONIC, one for all local nodes)."""
    origin_ns = json.loads((judged.folder / "run.json").read_text())["origin_monotonic_ns"]
    mine = {
        line["f"]: origin_ns + line["time_ns"]
        for line in judged.history()
        if line["kind"] == "nemesis" and line["fault"] == "pause" and line["targets"] == [node]
    }
    return range(mine["start"], mine["stop"])


@in_the_lab
@the_run(HIGH_WATERMARK)
def test_truncation_to_the_high_watermark_loses_exactly_m2(lab: Lab, lab_run: LabRun) -> None:
    judged = lab.result(lab_run)
    assert (judged.exit_code, judged.results["verdict"]) == (1, "invalid")
    lost = [witness for name in LOST for witness in judged.witnesses(name)]
    assert [witness["value"] for witness in lost] == [value_of(judged, "m2")], lost
    assert [line["lost"] for line in judged.results["durability"]] == [1]
    assert judged.invalid & LOST
    assert judged.invalid <= LOST | CONSEQUENCES, judged.results["sentence"]
    cut = [event for event in judged.events("n3") if event["e"] == "truncate"]
    assert [(event["reason"], event["from_leo"], event["to"]) for event in cut] == [("high-watermark", 2, 1)]


@pytest.mark.nightly
@in_the_lab
@the_run(LEADER_EPOCH)
def test_truncation_by_leader_epoch_queries_the_paused_leader_and_keeps_m2(lab: Lab, lab_run: LabRun) -> None:
    judged = lab.result(lab_run)
    assert (judged.exit_code, judged.results["verdict"]) == (0, "valid"), judged.results["sentence"]
    assert [(line["acknowledged"], line["lost"]) for line in judged.results["durability"]] == [(3, 0)]
    events = judged.events("n3")
    asked = [event for event in events if event["e"] == "fetch_sent" and event["leader"] == 2]
    assert asked
    assert asked[0]["m"] in paused_ns(judged, "n2")
    # From the end of its own log, with the epoch of its last record: whether that is shared is for the leader to say.
    assert [part[:2] + part[3:] for part in asked[0]["parts"]] == [["hw-0", 2, 0]]
    assert not [event for event in events if event["e"] == "truncate"]
