from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from harness.plan.fault_kinds import KnownFault
from harness.plan.plan import (
    TARGETS,
    ChecksPlan,
    FaultsPlan,
    HostPlan,
    LimitsPlan,
    NodesPlan,
    OnlinePlan,
    Plan,
    ScriptStep,
    SystemPlan,
    TopicPlan,
    WorkloadPlan,
)
from harness.plan.run_file import parse_plan, render
from tests.support.examples import examples

FAULTS = {name: KnownFault(name, "any") for name in ("kill", "pause", "one-way", "bitflip")}
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
PROPERTIES = st.dictionaries(st.from_regex(r"[a-z]+(\.[a-z]+)*", fullmatch=True), TEXT, max_size=4).filter(
    lambda found: not any(a != b and b.startswith(a + ".") for a in found for b in found)
)
SPANS = st.tuples(st.floats(0.1, 10), st.floats(10, 20))
HOSTS = tuple(
    HostPlan(name, "10.0.0.1", key=key) for name, key in (("n1", None), ("n2", "k"), ("n3", "k"), ("zk1", "k"))
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    partitions = draw(st.integers(1, 4))
    scripted = draw(st.booleans())
    steps = st.builds(
        ScriptStep,
        do=TEXT,
        params=st.dictionaries(
            TEXT.filter(lambda key: key != "do"),
            st.one_of(TEXT, st.integers(-5, 5), st.booleans(), st.floats(0, 1), st.lists(st.integers(0, 3))),
            max_size=3,
        ).map(MappingProxyType),
        where=st.just(""),
    )
    faults = st.builds(
        FaultsPlan,
        kinds=st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, unique=True).map(tuple),
        targets=st.lists(st.sampled_from((*TARGETS, "n2")), min_size=1, unique=True).map(tuple),
        interval_s=SPANS,
        duration_s=SPANS,
        overlap=st.integers(1, 3),
    )
    return Plan(
        name=draw(st.from_regex(r"[a-z0-9-]+", fullmatch=True)),
        seed=draw(st.none() | st.integers(0, 2**63 - 1)),
        topic=TopicPlan(
            draw(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)),
            partitions,
            2,
            draw(st.none() | st.just(((3, 1),) * partitions)),
            {**draw(PROPERTIES), "min.insync.replicas": "2"},
        ),
        system=SystemPlan(source=draw(st.none() | TEXT), settings=draw(PROPERTIES), broker={2: {"broker.rack": "b"}}),
        nodes=NodesPlan(hosts=draw(st.just(()) | st.just(HOSTS)), known_hosts=draw(st.none() | TEXT)),
        workload=WorkloadPlan(acks=draw(st.sampled_from([-1, 0, 1])), rate=draw(st.floats(0.1, 1e5))),
        faults=None if scripted else draw(st.none() | faults),
        script=tuple(draw(st.lists(steps, max_size=3))) if scripted else (),
        checks=ChecksPlan(acknowledged=draw(st.none() | st.integers(0, 100))),
        online=draw(st.none() | st.builds(OnlinePlan, st.floats(1, 3600), st.booleans(), st.integers(0, 19))),
        limits=LimitsPlan(drain_s=draw(st.floats(1, 100))),
        expect=draw(st.sampled_from(["valid", "invalid", "unknown"])),
    )


@given(plans())
@examples(80)
def test_plan_rendered_and_read_back_is_the_same(plan: Plan) -> None:
    again = parse_plan("run.toml", render(plan), FAULTS)
    places = tuple(replace(step, where="", params=dict(step.params)) for step in again.script)
    before = tuple(replace(step, params=dict(step.params)) for step in plan.script)
    assert replace(again, script=()) == replace(plan, script=())
    assert places == before
