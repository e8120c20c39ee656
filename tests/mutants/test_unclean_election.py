"""R9 in the lab: an unclean election loses exactly the record that the script left on the dead leader alone; where it
is not allowed, the partition waits for that leader, and nothing is lost.
"""

from __future__ import annotations

import json

import pytest

from tests.mutants.lab import Judged, Lab, LabRun
from tests.mutants.patches import ROOT
from tests.mutants.test_kip_101 import RUNS, in_the_lab, the_run, value_of

pytestmark = pytest.mark.guarantee("R9")

ALLOWED = LabRun(RUNS / "unclean-election.toml", 9)
# The same run as in test_mutants_are_found, made once for both.
FORBIDDEN = LabRun(ROOT / "tests" / "mutants" / "runs" / "last-in-sync-dies.toml", 1)


def outcome_of(judged: Judged, name: str) -> str:
    """How the script's send of this record came out."""
    found = [
        json.loads(line["result_json"]) for line in judged.history() if line["f"] == "step" and line["do"] == "send"
    ]
    (outcome,) = [result["outcome"] for result in found if name in result["names"]]
    return str(outcome)


def elected_by_no_isr(judged: Judged) -> list[str]:
    """What the rule on the ISR's znode says of leaders that were not in it."""
    return [witness["summary"] for witness in judged.witnesses("isr-znode") if "leader" in witness["summary"]]


@pytest.mark.nightly
@in_the_lab
@the_run(ALLOWED)
def test_unclean_election_loses_exactly_what_was_on_the_dead_leader_alone(lab: Lab, lab_run: LabRun) -> None:
    judged = lab.result(lab_run)
    assert (judged.exit_code, judged.results["verdict"]) == (0, "valid"), judged.results["sentence"]
    assert [outcome_of(judged, name) for name in ("m1", "m2", "m3")] == ["ok"] * 3, "m3 while the last in sync was dead"
    (durability,) = judged.results["durability"]
    assert (durability["lost"], durability["allowed_lost"]) == (0, 1)
    lost = judged.witnesses("lost-write")
    assert [(witness["kind"], witness["value"]) for witness in lost] == [("allowed", value_of(judged, "m2"))]
    assert len(elected_by_no_isr(judged)) == 1


@in_the_lab
@the_run(FORBIDDEN)
def test_without_unclean_election_the_partition_waits_and_nothing_is_lost(lab: Lab, lab_run: LabRun) -> None:
    judged = lab.result(lab_run)
    assert (judged.exit_code, judged.results["verdict"]) == (0, "valid"), judged.results["sentence"]
    assert [outcome_of(judged, name) for name in ("everywhere", "only on 1")] == ["ok", "ok"]
    assert outcome_of(judged, "without 1") != "ok"
    (durability,) = judged.results["durability"]
    assert durability["lost"] == durability.get("allowed_lost", 0) == 0
    assert not judged.witnesses("lost-write")
    assert not elected_by_no_isr(judged)
