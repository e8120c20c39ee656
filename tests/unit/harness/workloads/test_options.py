"""Each workload's options: its own names, refused by the run file's line where they are wrong."""

from __future__ import annotations

import pytest

from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.workloads import workload_kind


@pytest.mark.parametrize(
    ("kind", "option", "says"),
    [
        ("groups", "groups = 0", "workload.options.groups: 0 is not a whole number from 1 to 16"),
        ("groups", "groups = 2.0", "workload.options.groups: 2.0 is not a whole number from 1 to 16"),
        ("groups", "ids = 2", "workload.options.ids: groups has groups, session_timeout_ms, rebalance_timeout_ms"),
        ("transactions", "ids = true", "workload.options.ids: True is not a whole number from 1 to 1000"),
        ("transactions", "abort = 1.5", "workload.options.abort: 1.5 is not a number from 0 to 1"),
        ("transactions", 'abort = "1"', "workload.options.abort: '1' is not a number from 0 to 1"),
        ("transactions", "in_flight = 2", "workload.options.in_flight: transactions has transactional, processors, "),
    ],
)
def test_option_that_cannot_be_is_refused_by_its_line(kind: str, option: str, says: str) -> None:
    plan = parse_plan("x.toml", f'name = "x"\n[workload]\nkind = "{kind}"\n[workload.options]\n{option}\n')
    with pytest.raises(PlanError) as refused:
        workload_kind(kind).check(plan)
    assert str(refused.value).startswith(f"x.toml:5: {says}")
