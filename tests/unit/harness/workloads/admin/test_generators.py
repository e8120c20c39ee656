from __future__ import annotations

from collections import Counter

import pytest

from harness.operations.generator import PENDING, Completed, Context, Generator, Op
from harness.operations.op import Outcome
from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.workloads import workload_kind
from harness.workloads.admin.generators import ALTER, COUNT, DESCRIBE, GROW, Wanted, load
from harness.workloads.admin.options import Options, options_of

pytestmark = [pytest.mark.guarantee("V2")]

THREADS = 14
"""Ten of append-poll's, four administrators."""


def text(options: str = "") -> str:
    return f'name = "x"\nseed = 3\n[workload]\nkind = "admin"\n[workload.options]\n{options}\n'


def loaded(options: Options = Options()) -> Generator:  # noqa: B008
    return load(parse_plan("x.toml", text()), options)


def steps(generator: Generator, count: int, outcome: Outcome = "ok", error: str | None = None) -> list[Op]:
    """Operations of administrators, each of which comes out so."""
    done: list[Op] = []
    for step in range(count):
        found = generator.next(Context(step * 1_000_000, tuple(range(THREADS)), THREADS))
        assert found is not None
        assert found != PENDING
        op, generator = found
        generator = generator.update(Completed(op, outcome, error))
        if isinstance(op.detail, Wanted):
            done.append(op)
    return done


def wanted(op: Op) -> Wanted:
    assert isinstance(op.detail, Wanted)
    return op.detail


def test_administrators_do_everything_to_every_topic_with_threads_of_their_own() -> None:
    ops = steps(loaded(), 6000)
    assert {op.thread for op in ops} == {10, 11, 12, 13}
    assert set(Counter((op.f, wanted(op).topic) for op in ops)) == {
        (f, topic) for f in (ALTER, DESCRIBE, GROW, COUNT) for topic in (0, 1)
    }


def test_each_value_is_set_once_or_is_none() -> None:
    values = [wanted(op).number for op in steps(loaded(), 6000) if op.f == ALTER]
    given = [value for value in values if value >= 0]
    assert len(set(given)) == len(given) > 50
    assert set(values) - set(given) == {-1}


def test_topics_grow_to_the_most_and_are_then_asked_for_the_same() -> None:
    grown = [wanted(op).number for op in steps(loaded(Options(topics=1, partitions_most=9)), 20_000) if op.f == GROW]
    assert grown == sorted(grown)
    assert grown[0] > 2
    assert grown[-1] == grown[-2] == 9


@pytest.mark.parametrize(("outcome", "error"), [("fail", "NOT_CONTROLLER"), ("fail", "connection-refused")])
def test_growth_without_effect_is_asked_for_again(outcome: Outcome, error: str) -> None:
    ops = steps(loaded(Options(topics=1)), 20_000, outcome, error)
    assert {wanted(op).number for op in ops if op.f == GROW} <= {2, 3, 4}


def test_options_are_what_the_run_file_says_and_else_the_usual() -> None:
    assert options_of(parse_plan("x.toml", text("topics = 3"))) == Options(topics=3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("topics = 0", "0 is not a whole number from 1 to 8"),
        ("partitions_first = 5\npartitions_most = 5", r"partitions_most \(5\) is not above partitions_first \(5\)"),
        ("topic = 2", r"admin has administrators, topics, .* \(did you mean topics\?\)"),
    ],
)
def test_options_of_a_run_in_which_nothing_could_change_are_refused(options: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        workload_kind("admin").check(parse_plan("x.toml", text(options)))
