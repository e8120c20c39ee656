"""The plans: rows of every kind, each with known quantities, and the choice among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.plan import Plan, chosen, curves, full, quick, titles
from benchmarks.report.metrics import METRICS
from benchmarks.rows.failover import roles

_PLANS = tuple(make(Path("/nowhere")) for make in (quick, full, curves))


@pytest.mark.parametrize("plan", _PLANS, ids=lambda plan: plan.name)
def test_rows_have_titles_of_their_own_and_known_quantities(plan: Plan) -> None:
    assert len(set(titles(plan))) == len(titles(plan))
    for phase in plan.phases:
        for row in phase.rows:
            assert set(row.metrics) <= set(METRICS)
            assert {target.metric for target in row.targets} <= set(row.metrics)


def test_full_plan_has_every_size_partition_count_batch_and_acks() -> None:
    produce = [title for title in titles(_PLANS[1]) if title.startswith("Produce, lean client")]
    assert len(produce) == 2 * 3 * 3 * 2


def test_chosen_keeps_matching_rows_and_takes_the_number_of_rounds() -> None:
    plan = chosen(_PLANS[0], "One record in flight", 7)
    assert {phase.rounds for phase in plan.phases} == {7}
    assert titles(plan) == ["One record in flight: acks=all, 100 B", "One record in flight: acks=1, 100 B"]


def test_chosen_without_a_match_names_what_there_is() -> None:
    with pytest.raises(ValueError, match="One record in flight: acks=all"):
        chosen(_PLANS[0], "nonsense", None)


def test_failover_roles_tell_leader_and_controller_apart() -> None:
    assert roles("leader", 1) == (2, 2)
    assert roles("controller", 2) == (1, 2)
    assert roles("leader and controller", 3) == (3, 3)
