"""The plans: rows of every kind, each with known quantities, and the choice among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.plan import Plan, chosen, curves, full, quick, titles
from benchmarks.report.metrics import METRICS
from benchmarks.rows.curves import Partitions
from benchmarks.rows.failover import roles
from benchmarks.warm_up import WarmUp, loads

_PLANS = tuple(make(Path("/nowhere")) for make in (quick, full, curves))


@pytest.mark.parametrize("plan", _PLANS, ids=lambda plan: plan.name)
def test_rows_have_titles_of_their_own_and_known_quantities(plan: Plan) -> None:
    assert len(set(titles(plan))) == len(titles(plan))
    for phase in plan.phases:
        for row in phase.rows:
            assert set(row.metrics) <= set(METRICS)
            assert {target.metric for target in row.targets} <= set(row.metrics)


@pytest.mark.parametrize("plan", _PLANS, ids=lambda plan: plan.name)
def test_rows_say_how_long_they_take(plan: Plan) -> None:
    assert all(0 < row.estimate_s < 3600 for phase in plan.phases for row in phase.rows)


def test_plans_fit_into_the_time_that_they_may_take() -> None:
    quick_s, full_s, curves_s = (plan.estimate_s for plan in _PLANS)
    assert quick_s <= 5.5 * 60
    assert full_s + curves_s <= 150 * 60


@pytest.mark.parametrize("plan", _PLANS[:2], ids=lambda plan: plan.name)
def test_judged_rows_are_repeated_often_enough_for_a_verdict(plan: Plan) -> None:
    for phase in plan.phases:
        for row in phase.rows:
            # What more or fewer partitions do to Kafka's own tool is shown, not judged.
            if row.targets and not (row.group == "Produce, kafka-producer-perf-test" and "6 part" not in row.name):
                assert phase.rounds >= phase.judged_from, row.name


def test_rows_that_make_kafka_hold_internal_topics_are_the_last() -> None:
    holding = [
        row.group in ("Coordinators", "Groups") or row.name.startswith("kafka-consumer-perf-test")
        for phase in _PLANS[1].phases
        for row in phase.rows
    ]
    assert any(holding)
    assert holding == sorted(holding)


def test_curves_have_no_clusters_beside_their_own() -> None:
    assert _PLANS[2].warm_up is None
    assert not any(row.needs_warm_up for phase in _PLANS[2].phases for row in phase.rows)


@pytest.mark.parametrize("count", [10, 1000, 10_000])
def test_partitions_get_three_batches_each_and_no_less_than_others_measure(count: int) -> None:
    total = Partitions(count, Path("/nowhere")).total_bytes
    assert total >= 100_000_000
    assert total >= 3 * count * records_in(16384) * 1024


def records_in(batch_bytes: int) -> int:
    return (batch_bytes - 61) // (1024 + 8)


def test_full_plan_has_every_size_partition_count_batch_and_acks() -> None:
    produce = [title for title in titles(_PLANS[1]) if title.startswith("Produce, lean client")]
    assert len(produce) == 2 * 3 * 3 * 2


def test_chosen_keeps_matching_rows_takes_the_number_of_rounds_and_warms_up_with_their_loads() -> None:
    plan = chosen(_PLANS[0], "One record in flight", 7)
    assert {phase.rounds for phase in plan.phases} == {7}
    assert titles(plan) == ["One record in flight: acks=all, 100 B"]
    assert plan.warm_up is not None
    assert {row.group for row, _ in loads(plan.warm_up)} == {"One record in flight"}


def test_chosen_rows_that_are_no_load_are_warmed_up_by_the_nearest() -> None:
    plan = chosen(_PLANS[1], "Follower that was away|Failover", 1)
    assert plan.warm_up is not None
    assert {row.group for row, _ in loads(plan.warm_up)} == {"Produce, lean client", "One record in flight"}


@pytest.mark.parametrize("plan", _PLANS[:2], ids=lambda plan: plan.name)
def test_every_row_that_is_measured_warm_has_a_load_that_warms_up_for_it(plan: Plan) -> None:
    for phase in plan.phases:
        for row in phase.rows:
            assert not row.needs_warm_up or loads(WarmUp(1_000_000, 1, 1.0, frozenset({row.group}))), row.group


def test_chosen_without_a_match_has_no_phase() -> None:
    assert chosen(_PLANS[0], "nonsense", None).phases == ()


def test_chosen_without_megabytes_is_not_warmed_up() -> None:
    plan = chosen(_PLANS[0], None, None, 0)
    assert plan.warm_up is not None
    assert plan.warm_up.passes == 0


def test_failover_roles_distinguish_leader_and_controller() -> None:
    assert roles("leader", 1) == (2, 2)
    assert roles("controller", 2) == (1, 2)
    assert roles("leader and controller", 3) == (3, 3)
