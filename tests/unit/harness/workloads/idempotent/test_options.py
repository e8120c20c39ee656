from __future__ import annotations

import pytest

from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.workloads.idempotent.options import Options, options_of
from harness.workloads.idempotent.workload import Idempotent


def plan(workload: str = "", options: str = "") -> Plan:
    text = f'name = "x"\nseed = 1\n[workload]\nkind = "idempotent"\n{workload}\n[workload.options]\n{options}\n'
    return parse_plan("x.toml", text)


def test_options_are_what_the_run_file_says_and_else_the_usual() -> None:
    assert options_of(plan()) == Options()
    assert options_of(plan(options="in_flight = 2\ngive_up_s = 3")) == Options(2, Options().on_purpose, 3.0)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("in_flight = 6", "workload.options.in_flight: 6 is not a whole number from 1 to 5"),
        ("in_flight = 2.0", "workload.options.in_flight: 2.0 is not a whole number from 1 to 5"),
        ("in_flight = true", "workload.options.in_flight: True is not a whole number"),
        ("on_purpose = 0.6", "workload.options.on_purpose: 0.6 is not a number from 0 to 0.5"),
        ('give_up_s = "1"', "workload.options.give_up_s: "),
        ("speed = 3", "workload.options.speed: idempotent has in_flight, on_purpose, give_up_s"),
    ],
)
def test_option_that_cannot_be_is_refused_by_its_line(option: str, says: str) -> None:
    with pytest.raises(PlanError) as refused:
        Idempotent().check(plan(options=option))
    assert str(refused.value).startswith(f"x.toml:7: {says}")


@pytest.mark.parametrize(
    ("workload", "says"),
    [("acks = 1", "workload.acks: 1 is not all"), ("producers = 0", "workload.producers: 0 is not at least 1")],
)
def test_load_that_no_idempotent_producer_can_be_is_refused(workload: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        Idempotent().check(plan(workload))
