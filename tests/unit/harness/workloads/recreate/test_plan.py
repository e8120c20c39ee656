"""Threads, options and refusals of the workload `recreate`."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.operations.generator import PENDING, Completed, Context
from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.workloads import remade_topics, workload_kind
from harness.workloads.recreate.generators import VALUES, load
from harness.workloads.recreate.lives import ASK
from harness.workloads.recreate.options import options_of

pytestmark = [pytest.mark.guarantee("V2")]


def text(options: str = "", workload: str = "") -> str:
    return f'name = "x"\nseed = 3\n[workload]\nkind = "recreate"\n{workload}\n[workload.options]\n{options}\n'


def test_each_topic_has_an_administrator_and_all_its_partitions_are_used() -> None:
    plan = parse_plan("x.toml", text("topics = 3\npartitions = 2\nsenders = 2\nreaders = 3"))
    generator = load(plan, options_of(plan))
    threads = 10 + 3 + 2 + 3
    administrators: Counter[tuple[int, object]] = Counter()
    used: dict[str, set[int]] = {"send": set(), "poll": set()}
    values: list[int] = []
    for step in range(4000):
        found = generator.next(Context(step * 1_000_000, tuple(range(threads)), threads))
        assert found is not None
        assert found != PENDING
        op, generator = found
        generator = generator.update(Completed(op, "ok"))
        if op.f == ASK:
            administrators[op.thread, op.detail] += 1
        elif op.thread >= 13:
            assert op.f == ("send" if op.thread < 15 else "poll")
            used[op.f].add(op.partition)
            values += op.values
    assert set(administrators) == {(10, 0), (11, 1), (12, 2)}
    assert used == {"send": set(range(6)), "poll": set(range(6))}
    assert len(values) == len(set(values))
    assert min(values) >= VALUES


def test_names_of_topics_that_are_made_anew_are_told() -> None:
    assert remade_topics(parse_plan("x.toml", text("topics = 2"))) == ["hw-anew0", "hw-anew1"]
    assert remade_topics(parse_plan("x.toml", 'name = "x"\nseed = 3\n')) == ()


@pytest.mark.parametrize(
    ("options", "workload", "says"),
    [
        ("topics = 0", "", "topics: 0 is not a whole number from 1 to 8"),
        ("former = 1.0", "", "former"),
        ("lifes = 3", "", "lifes"),
        ("", "acks = 1", "workload.acks is 1; the workload `recreate` needs all"),
    ],
)
def test_what_cannot_be_judged_is_refused(options: str, workload: str, says: str) -> None:
    plan = parse_plan("x.toml", text(options, workload))
    with pytest.raises(PlanError, match=says):
        workload_kind("recreate").check(plan)
