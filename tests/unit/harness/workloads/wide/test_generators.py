"""The load of the workload `wide`, in virtual time."""

from __future__ import annotations

import pytest

from harness.operations.generator import Completed, Op
from harness.plan.plan import Plan, TopicPlan, WorkloadPlan
from harness.workloads.idempotent.producer import Request
from harness.workloads.wide.generators import BEYOND, BEYOND_SHARE, LOOKUP, WITH_IDS, Sending, all_threads, load
from harness.workloads.wide.options import Options
from tests.support.virtual_time import simulate

pytestmark = pytest.mark.guarantee("H6")

SECOND = 10**9


def ops_of(options: Options, records: int = 2, time_limit_s: float = 20.0, threads: int = 10) -> list[Op]:
    workload = WorkloadPlan(kind="wide", records_per_send=records, time_limit_s=time_limit_s, rate=300.0)
    generator = load(Plan("x", TopicPlan("hw", 3, 3), seed=5, workload=workload), options)
    return simulate(generator, threads, came_out=came_out, asked_every_ns=10_000_000)


def came_out(op: Op) -> Completed:
    return Completed(op, "ok", None, op.time_ns)


def sendings(ops: list[Op]) -> list[tuple[Op, Sending]]:
    return [(op, op.detail) for op in ops if isinstance(op.detail, Sending)]


def test_values_are_never_given_twice_whatever_goes_along() -> None:
    sends = sendings(ops_of(Options(together=0.5)))
    given = [value for op, _ in sends for value in op.values]
    given += [value for _, detail in sends for _, values in detail.further for value in values]
    assert len(given) == len(set(given)) > 4000


def test_share_of_sends_has_a_batch_for_every_other_partition() -> None:
    sends = sendings(ops_of(Options(together=0.25)))
    along = [(op.partition, dict(detail.further)) for op, detail in sends if detail.further]
    assert len(along) / len(sends) == pytest.approx(0.25, abs=0.03)
    for partition, further in along:
        assert set(further) == {0, 1, 2} - {partition}
        assert {len(values) for values in further.values()} == {2}


def test_share_of_sends_has_acks_one() -> None:
    sends = sendings(ops_of(Options(acks_one=0.3)))
    assert sum(detail.acks_one for _, detail in sends) / len(sends) == pytest.approx(0.3, abs=0.03)
    assert not any(detail.acks_one for _, detail in sendings(ops_of(Options())))


def test_share_of_reads_looks_up_by_time() -> None:
    reads = [op for op in ops_of(Options(lookups=0.2)) if op.f != "send"]
    lookups = [op for op in reads if op.detail == LOOKUP]
    assert len(lookups) / len(reads) == pytest.approx(0.2, abs=0.03)
    assert {op.f for op in lookups} == {"list_offsets"}


def test_nothing_begins_in_an_idle_spell_and_busy_ones_are_full() -> None:
    ops = ops_of(Options(busy_s=3.0, idle_s=2.0))
    into = [op.time_ns % (5 * SECOND) for op in ops]
    assert max(into) < 3 * SECOND
    per_spell = [sum(op.time_ns // (5 * SECOND) == nth for op in ops) for nth in range(4)]
    assert all(count == pytest.approx(900, rel=0.2) for count in per_spell)
    assert ops[-1].time_ns > 17 * SECOND


def test_share_of_reads_deletes_and_some_of_these_beyond_the_end() -> None:
    reads = [op for op in ops_of(Options(lookups=0.1, deletions=0.2)) if op.f != "send"]
    deletions = [op for op in reads if op.f == "delete_records"]
    assert len(deletions) / len(reads) == pytest.approx(0.2, abs=0.03)
    beyond = sum(op.detail == BEYOND for op in deletions)
    assert beyond / len(deletions) == pytest.approx(BEYOND_SHARE, abs=0.06)
    assert {op.detail for op in deletions} == {BEYOND, None}
    assert sum(op.detail == LOOKUP for op in reads) / len(reads) == pytest.approx(0.1, abs=0.03)


def test_nothing_is_deleted_unless_the_run_file_says_so() -> None:
    assert not [op for op in ops_of(Options(lookups=0.5)) if op.f == "delete_records"]


def test_producers_with_ids_have_threads_and_values_of_their_own() -> None:
    ops = ops_of(Options(idempotent=2), threads=10 + 2 * WITH_IDS.in_flight)
    with_ids = [op for op in ops if isinstance(op.detail, Request)]
    assert {op.thread >= 10 for op in with_ids} == {True}
    assert {op.thread < 10 for op in ops if op not in with_ids} == {True}
    assert {op.detail.identity.producer for op in with_ids if isinstance(op.detail, Request)} == {0, 1}
    plain = {
        value for op, detail in sendings(ops) for value in (*op.values, *(v for _, vs in detail.further for v in vs))
    }
    theirs = {value for op in with_ids for value in op.values}
    assert len(theirs) > 500
    assert not plain & theirs
    assert any(isinstance(op.detail, Request) and op.detail.repeats is not None for op in with_ids)


def test_without_producers_with_ids_the_load_has_the_plan_s_threads() -> None:
    plan = Plan("x", TopicPlan("hw", 3, 3), seed=5, workload=WorkloadPlan(kind="wide", producers=6, consumers=4))
    assert all_threads(plan, Options()) == 10
    assert all_threads(plan, Options(idempotent=3)) == 10 + 3 * WITH_IDS.in_flight
