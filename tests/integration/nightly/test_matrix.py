from __future__ import annotations

from pathlib import Path

import pytest

from harness.nightly.night import Settings, run_night
from harness.nightly.sources import read
from harness.plan.toml_source import PlanError
from tests.support.nights import Runner, nights

pytestmark = pytest.mark.guarantee("H7")


MATRIX = """
name = "mine"
seeds = 2

[axis.load.light]
workload.rate = 10

[axis.load.heavy]
workload.rate = 1000

[axis.faults.none]

[axis.faults.network]
faults.kinds = ["isolate", "halves"]
"""


def matrix(folder: Path, text: str = MATRIX) -> Path:
    path = folder / "matrix.toml"
    path.write_text(text)
    return path


def test_matrix_runs_every_combination_and_shows_them_as_a_table(tmp_path: Path) -> None:
    runner = Runner({("heavy-network", 2): 1})
    out = tmp_path / "out"
    due = read([matrix(tmp_path)], out)
    assert due.night.seeds == 2
    assert run_night(due, out, Settings(2), runner, say=lambda _: None) == 1
    names = ["light-none", "light-network", "heavy-none", "heavy-network"]
    assert runner.ran == [(name, seed) for seed in (1, 2) for name in names]
    page = (out / "summary.html").read_text()
    assert '<span class="mark invalid">1 invalid</span> <span class="mark valid">1 valid</span>' in page
    assert "load by faults" in page
    assert 'kinds = ["isolate", "halves"]' in (out / "cells" / "heavy-network.toml").read_text()


def test_matrix_run_that_cannot_be_used_is_refused_with_its_cell(tmp_path: Path) -> None:
    path = matrix(tmp_path, MATRIX.replace("workload.rate = 1000", "workload.rte = 1000"))
    runner = Runner()
    with pytest.raises(PlanError, match=r"matrix.toml: the run of load heavy, faults none: .*rte: unknown key"):
        nights([path], tmp_path / "out", runner, Settings(1))
    assert runner.ran == []


def test_matrix_takes_the_expectation_of_the_file_that_it_begins_with(files: Path) -> None:
    (files / "b.expect.toml").write_text('expect = "invalid"\n')
    path = matrix(files.parent, '[axis.workload.x]\nfile = "runs/b.toml"\n')
    assert nights([path], files.parent / "out", Runner({("x", 1): 1}), Settings(1)) == 0
    assert nights([path], files.parent / "out", Runner(), Settings(1)) == 1


def test_value_that_the_command_line_leaves_out_is_in_no_run(tmp_path: Path) -> None:
    due = read([matrix(tmp_path)], tmp_path / "out", ["faults=none"])
    assert [job.name for job in due.once] == ["light-network", "heavy-network"]


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (["faults"], "--leave-out: 'faults' is not AXIS=VALUE, such as nodes=docker"),
        (["fault=none"], r"--leave-out fault=none: .*matrix.toml has no axis 'fault' \(did you mean faults\?\)"),
        (["faults=nothing"], "--leave-out faults=nothing: 'nothing' is none of none, network"),
        (["load=light", "load=heavy"], "leaves nothing: every combination of the axes is left out"),
    ],
)
def test_what_cannot_be_left_out_is_refused(tmp_path: Path, without: list[str], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read([matrix(tmp_path)], tmp_path / "out", without)


def test_nothing_can_be_left_out_of_run_files(files: Path) -> None:
    with pytest.raises(PlanError, match="--leave-out nodes=docker: there are axes in a matrix file alone"):
        read([files], files.parent / "out", ["nodes=docker"])
