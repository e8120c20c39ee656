from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.nightly.jobs import Job, Result
from harness.nightly.night import Settings
from harness.runs.run_files import load
from tests.support.nights import Runner, nights

pytestmark = pytest.mark.guarantee("H7")


class Buggy(Runner):
    """The system loses a record whenever the second fault of the schedule comes, and its load is longer than 20 s."""

    def __call__(self, job: Job, out: Path) -> Result:
        plan = load(Path(job.file))
        assert plan.faults is not None
        numbers = range(1, 6) if plan.faults.only is None else plan.faults.only
        lost = 2 in numbers and plan.workload.time_limit_s > 20
        self.codes = {(job.name, job.seed): 1 if lost else 0}
        self.found = ("lost-write",) if lost else ()
        result = super().__call__(job, out)
        lines = [
            {"kind": "nemesis", "f": "start", "observed": True, "params_json": json.dumps({"scheduled": number})}
            for number in numbers
        ]
        assert result.run_dir is not None
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines) + '{"kind":"nemesis","f":"sta'
        (Path(result.run_dir) / "history.jsonl").write_text(text)
        return result


def test_failing_run_is_shrunk_to_what_still_fails(files: Path) -> None:
    (files / "a.toml").write_text('name = "a"\n[faults]\nkinds = ["kill", "pause"]\n[workload]\ntime_limit_s = 75\n')
    out, said = files.parent / "out", [""]
    assert nights([files / "a.toml"], out, Buggy(), Settings(1, shrink_minutes=60), said) == 1
    smallest = load(out / "shrunk" / "a-1.toml")
    assert smallest.faults is not None
    assert smallest.faults.only == (2,)
    assert 20 < smallest.workload.time_limit_s < 30
    assert (smallest.workload.producers, smallest.workload.consumers) == (1, 1)
    command = f"highwater test {(out / 'shrunk' / 'a-1.toml').resolve()} --seed 1"
    assert any("still fails with 1 of" in text and text.endswith(command) for text in said)
    (run_dir,) = out.glob("store/a/2*")
    assert json.loads((run_dir / "shrunk.json").read_text())["command"] == command
    assert "smallest run that fails" in (out / "summary.html").read_text()
    assert {path.name for path in (out / "store").iterdir()} == {"a", "latest"}, "smaller runs stand apart"


def test_shrinking_ends_with_its_time_and_leaves_scripts_and_expected_failures_alone(files: Path) -> None:
    (files / "a.toml").write_text('name = "a"\nexpect = "invalid"\n[faults]\n')
    (files / "b.toml").write_text('name = "b"\n[[script]]\ndo = "send"\nnames = ["m1"]\n')
    runner = Runner({("a", 1): 1, ("b", 1): 1}, found=("lost-write",))
    assert nights([files], files.parent / "out", runner, Settings(1, shrink_minutes=60)) == 1
    assert runner.ran == [("a", 1), ("b", 1)]
    (files / "a.toml").write_text('name = "a"\n[faults]\n')
    assert nights([files / "a.toml"], files.parent / "none", Buggy(), Settings(1, shrink_minutes=0)) == 1
    assert not (files.parent / "none" / "shrunk").exists()
