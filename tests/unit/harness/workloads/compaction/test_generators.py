from __future__ import annotations

from collections import Counter

import pytest

from harness.operations.generator import PENDING, Completed, Context
from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.workloads import workload_kind
from harness.workloads.compaction.generators import load
from harness.workloads.compaction.options import Options, options_of

COMPACT = '[topic.config]\n"cleanup.policy" = "compact"\n'


def text(workload: str = "", topic: str = COMPACT) -> str:
    return f'name = "x"\nseed = 3\n{topic}[workload]\nkind = "compaction"\nrecords_per_send = 2\n{workload}\n'


def test_every_record_of_the_load_has_a_key_that_comes_again() -> None:
    plan = parse_plan("x.toml", text())
    options = Options(keys=10, tombstones=0.25)
    generator = load(plan, options)
    sends: list[tuple[int, bool]] = []
    for step in range(2000):
        found = generator.next(Context(step * 1_000_000, tuple(range(10)), 10))
        assert found is not None
        assert found != PENDING
        op, generator = found
        generator = generator.update(Completed(op, "ok"))
        if op.f == "send":
            assert isinstance(op.detail, tuple)
            assert len(op.detail) == len(op.values) == 2
            sends += op.detail
    keys = Counter(key for key, _ in sends)
    assert set(keys) == set(range(10))
    # One of ten gets its tenth of one half, and the other half.
    assert keys[0] > len(sends) * 0.45
    assert 0.2 < sum(gone for _, gone in sends) / len(sends) < 0.3


def test_options_are_what_the_run_file_says_and_else_the_usual() -> None:
    assert options_of(parse_plan("x.toml", text("[workload.options]\nkeys = 3"))) == Options(keys=3)


@pytest.mark.parametrize(
    ("run_file", "says"),
    [
        (text(topic=""), '"cleanup.policy" = "compact"'),
        (text("acks = 1"), 'workload.acks: the workload compaction needs "all"'),
        (text("consumers = 0"), "one of `producers` and of `consumers`"),
        (text("[workload.options]\nkeys = 0"), "0 is not a whole number from 1 to 1000000"),
    ],
)
def test_run_that_proves_nothing_of_compaction_is_refused(run_file: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        workload_kind("compaction").check(parse_plan("x.toml", run_file))
