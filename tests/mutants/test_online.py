"""A planted bug is found while the run goes on, which then ends; the whole history shows it, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.lab import Lab, LabRun
from tests.mutants.patches import mutants

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900), pytest.mark.guarantee("V2")]

LIMIT_S = 240
ONLINE = "[online]\nevery_s = 2\nstop_on_invalid = true\n"
# Beside another run on two cores a verdict would come too late.
ONLINE += "niceness = 0\n"


def test_run_of_a_mutant_ends_by_what_is_found_in_a_prefix_and_is_invalid_by_the_whole(
    lab: Lab, tmp_path: Path
) -> None:
    (mutant,) = (one for one in mutants() if one.name == "duplicate-sequence-accepted")
    text = mutant.run.read_text(encoding="utf-8")
    assert text.count("time_limit_s = 24.0\n") == 1
    file = tmp_path / "long.toml"
    file.write_text(text.replace("time_limit_s = 24.0\n", f"time_limit_s = {LIMIT_S}\n") + ONLINE, encoding="utf-8")
    judged = lab.result(LabRun(file, 1, mutant))
    early = judged.results["ended_early"]
    assert early["checker"] in {"duplicate", "resend-offset"}
    assert early["confirmed"] is True
    assert {"duplicate", "resend-offset"} <= judged.invalid
    assert f"ended early, by what {early['checker']} had found" in judged.results["sentence"]
    history = judged.history()
    (line,) = [line for line in history if line["f"] == "ended-early"]
    assert line["time_ns"] < LIMIT_S * 1e9
    assert max(early["operations"]) < early["lines"] <= line["index"]
    # It was read from every replica, as any other.
    drained = {line["leader"] for line in history if line["f"] == "drain-complete"}
    assert {"n1", "n2", "n3"} <= drained
