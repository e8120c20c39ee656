"""What highwater says of a run file with power failures."""

from __future__ import annotations

import pytest

from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.systems.highwater.kind import Highwater
from nemesis.catalogue import load_catalogue

pytestmark = pytest.mark.guarantee("H5")


def check(kind: str, settings: str = "", topic: str = "", workload: str = "") -> None:
    text = (
        f'name = "x"\n[system.settings]\n{settings}\n[topic.config]\n{topic}\n[workload]\n{workload}\n'
        f'[faults]\nkinds = ["{kind}"]\n'
    )
    Highwater().check(parse_plan("x.toml", text, load_catalogue().kinds))


GROUP_COMMIT = '"flush.policy" = "group-commit"'


@pytest.mark.parametrize(("settings", "topic"), [("", ""), (GROUP_COMMIT, '"flush.policy" = "interval"')])
def test_power_failure_that_costs_nothing_needs_group_commit(settings: str, topic: str) -> None:
    with pytest.raises(PlanError, match=r"'power-failure' costs acknowledged records unless flush.policy is 'group-co"):
        check("power-failure", settings, topic)


@pytest.mark.parametrize(("settings", "topic"), [(GROUP_COMMIT, ""), ("", GROUP_COMMIT)])
def test_power_failure_under_group_commit_is_taken(settings: str, topic: str) -> None:
    check("power-failure", settings, topic)


def test_power_failure_goes_with_acks_all_alone() -> None:
    with pytest.raises(PlanError, match="costs what is acknowledged with acks=1 or 0"):
        check("power-failure", GROUP_COMMIT, workload="acks = 1")


def test_unsynced_power_failure_is_taken_with_any_policy() -> None:
    check("power-failure-unsynced")
