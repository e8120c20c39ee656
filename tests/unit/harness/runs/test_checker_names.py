"""The checkers that a workload or a system of another package names are looked up before anything is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.runs.checker_names import check_checker_names
from tests.support.entry_points import install

KNOWN = ("lost-write", "duplicate", "zk-state")


class Right:
    checkers = ("duplicate", "lost-write")

    def check(self, plan: Plan) -> None: ...


class Misspelt(Right):
    checkers = ("duplicate", "lost-wirte")


def plan_with(folder: Path, section: str, kind: type[Right]) -> Plan:
    install(folder, f"highwater.{section}s", f"turns = {__name__}:{kind.__name__}", package="toy-lab")
    return parse_plan("x.toml", f'name = "x"\nseed = 1\n[{section}]\nkind = "turns"\n')


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("section", ["workload", "system"])
def test_misspelt_checker_is_refused_with_the_one_it_may_mean_and_the_known_ones(site: Path, section: str) -> None:
    plan = plan_with(site, section, Misspelt)
    message = (
        f"{section}.kind: 'turns' of toy-lab names a checker 'lost-wirte', which does not exist"
        " (did you mean lost-write?); there are lost-write, duplicate, zk-state"
    )
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        check_checker_names(plan, lambda: KNOWN)


@pytest.mark.parametrize("section", ["workload", "system"])
def test_checkers_that_exist_are_accepted(site: Path, section: str) -> None:
    check_checker_names(plan_with(site, section, Right), lambda: KNOWN)


def test_own_workload_and_system_cost_no_question_to_the_checkers() -> None:
    def installed() -> Sequence[str]:
        raise AssertionError("the checkers' process is started")

    check_checker_names(parse_plan("x.toml", 'name = "x"\n'), installed)
