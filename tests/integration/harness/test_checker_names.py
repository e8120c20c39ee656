"""The checkers' own program says which checkers there are; a run that names another one does not begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers import cli
from checkers.verdicts.catalogue import ALL
from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.runs import run
from harness.runs.checker_names import installed_checkers
from tests.support.entry_points import install


class Misspelt:
    """As much of a workload as is looked at before a run."""

    checkers = ("duplicate", "lost-wirte")

    def check(self, plan: Plan) -> None: ...


def test_plan_with_a_misspelt_checker_is_refused_before_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "highwater.workloads", f"turns = {__name__}:Misspelt", package="toy-lab")
    monkeypatch.syspath_prepend(str(tmp_path))
    plan = parse_plan("x.toml", 'name = "x"\nseed = 1\n[workload]\nkind = "turns"\n')
    with pytest.raises(PlanError, match=r"'turns' of toy-lab names a checker 'lost-wirte'.*did you mean lost-write\?"):
        run.check(plan)


def test_names_come_from_the_checkers_own_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--list"])
    assert not end.value.code
    assert capsys.readouterr().out.split() == [spec.name for spec in ALL] == installed_checkers()
