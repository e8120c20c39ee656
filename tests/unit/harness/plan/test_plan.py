from __future__ import annotations

import pytest

from harness.plan.fault_kinds import SKEWS_CLOCK, KnownFault
from harness.plan.plan import FaultsPlan, OnlinePlan, Plan
from harness.plan.run_file import parse_plan as parse_with
from harness.plan.run_file import render
from harness.plan.toml_source import PlanError, key_lines

FAULTS = {
    "kill": KnownFault("kill", "process"),
    "stop": KnownFault("stop", "process"),
    "pause": KnownFault("pause", "process"),
    "clock-step": KnownFault("clock-step", "clock", frozenset({SKEWS_CLOCK})),
    "bitflip": KnownFault("bitflip", "files", at_random=False),
}
FULL = """\
name = "demo"
seed = 7

[system]
kind = "highwater"
[system.settings]
"replica.lag.time.max.ms" = 3000
unclean.leader.election.enable = true
[system.broker.3]
"broker.rack" = "b"

[nodes]
brokers = 3

[topic]
name = "hw"
partitions = 4
replication_factor = 3
assignment = [[1, 2, 3]]
[topic.config]
"min.insync.replicas" = 2

[workload]
acks = 1
rate = 50

[faults]
kinds = ["kill", "pause"]
targets = ["leader", "n2"]
interval_s = [1, 2.5]

[checks]
acknowledged = 10

[limits]
drain_s = 5
"""


def parse_plan(name: str, text: str) -> Plan:
    return parse_with(name, text, FAULTS)


def test_plan_full_file_keeps_every_value() -> None:
    plan = parse_plan("demo.toml", FULL)
    assert plan.seed_drawn == 7
    assert plan.system.settings_of(3) == {
        "replica.lag.time.max.ms": "3000",
        "unclean.leader.election.enable": "true",
        "broker.rack": "b",
    }
    assert plan.system.settings_of(1).get("broker.rack") is None
    assert plan.topic.assignment == ((1, 2, 3),) * 4
    assert plan.min_insync_replicas == 2
    assert plan.unclean_leader_election
    assert plan.workload.acks == 1
    assert plan.workload.rate == 50.0
    assert plan.faults == FaultsPlan(("kill", "pause"), ("leader", "n2"), (1.0, 2.5))
    assert plan.checks.given() == {"acknowledged": 10}
    assert plan.limits.drain_s == 5.0
    assert plan.online is None


def test_plan_says_how_often_it_is_judged_while_it_goes_on() -> None:
    plan = parse_plan("x.toml", 'name = "x"\n[online]\n')
    assert plan.online == OnlinePlan(every_s=10.0, stop_on_invalid=False)
    plan = parse_plan("x.toml", 'name = "x"\n[online]\nevery_s = 3\nstop_on_invalid = true\nniceness = 5\n')
    assert plan.online == OnlinePlan(every_s=3.0, stop_on_invalid=True, niceness=5)


def test_plan_random_mix_has_by_default_what_the_catalogue_has_at_random() -> None:
    plan = parse_plan("x.toml", 'name = "x"\n[faults]\n')
    assert plan.faults is not None
    assert plan.faults.kinds == ("kill", "stop", "pause", "clock-step")


@pytest.mark.parametrize(
    ("text", "skewed"),
    [
        ("[faults]\n", True),
        ('[faults]\nkinds = ["kill", "bitflip"]', False),
        ('[[script]]\ndo = "clock-step"\nbroker = 1\noffset_s = 2', True),
        ('[[script]]\ndo = "kill"\nbroker = 1', False),
        ("", False),
    ],
)
def test_plan_says_whether_some_fault_of_it_skews_clocks(text: str, skewed: bool) -> None:
    assert parse_plan("x.toml", f'name = "x"\n{text}\n').skews_clocks == skewed


@pytest.mark.parametrize("name", ["Kill", "", "kill all", "-", "kïll"])
def test_known_fault_of_a_name_that_no_run_file_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="names are of a-z, 0-9 and -"):
        KnownFault(name, "process")


def test_known_fault_with_an_effect_that_nobody_can_read_is_refused() -> None:
    with pytest.raises(ValueError, match="'burns' is no effect; allowed: cuts-links"):
        KnownFault("fire", "process", frozenset({"burns"}))


@pytest.mark.parametrize(
    ("text", "least", "copies"),
    [
        ("", 1, 1),
        ('[system.settings]\n"min.insync.replicas" = 2', 2, 2),
        ('[system.broker.3]\n"min.insync.replicas" = 2', 1, 1),
        ('[system.settings]\n"min.insync.replicas" = 2\n[system.broker.3]\n"min.insync.replicas" = 1', 1, 1),
        ('[system.broker.3]\n"min.insync.replicas" = 1\n[topic.config]\n"min.insync.replicas" = 2', 2, 2),
        ('[topic]\nreplication_factor = 1\n[topic.config]\n"min.insync.replicas" = 2', 1, 1),
        ('[topic.config]\n"min.insync.replicas" = 2\n[workload]\nacks = 1', 2, 1),
        ('[topic.config]\n"min.insync.replicas" = 2\n[workload]\nacks = 0', 2, 2),
    ],
)
def test_plan_knows_how_many_copies_there_are_of_what_is_acknowledged(text: str, least: int, copies: int) -> None:
    plan = parse_plan("x.toml", f'name = "x"\n{text}\n')
    assert (plan.min_insync_replicas, plan.copies_acknowledged) == (least, copies)


def test_plan_defaults_are_those_of_the_docs() -> None:
    plan = parse_plan("x.toml", 'name = "x"')
    assert (plan.seed, plan.faults, plan.script, plan.expect) == (None, None, (), "valid")
    assert (plan.nodes.kind, plan.nodes.brokers, plan.nodes.zookeepers) == ("local", 3, 1)
    assert (plan.workload.acks, plan.workload.producers, plan.workload.consumers) == (-1, 6, 4)
    assert plan.topic.replication_factor == 3


def test_plan_script_steps_keep_their_keys_and_lines() -> None:
    text = 'name = "k"\n[[script]]\ndo = "send"\nnames = ["m1"]\n\n[[script]]\ndo = "kill"\nbroker = 1\n'
    steps = parse_plan("k.toml", text).script
    assert [(step.do, dict(step.params), step.where) for step in steps] == [
        ("send", {"names": ["m1"]}, "k.toml:2"),
        ("kill", {"broker": 1}, "k.toml:6"),
    ]


WRONG = [
    ('name = "Demo"', "x.toml:1: name: 'Demo' is not text like [a-z0-9-]+"),
    ("seed = 1", "x.toml:1: name: missing"),
    ('name = "x"\nseed = -1', "x.toml:2: seed: -1 is not a whole number from 0"),
    ('name = "x"\nnodse = 1', "x.toml:2: nodse: unknown key (did you mean nodes?)"),
    ('name = "x"\nfaultz = 1', "x.toml:2: faultz: unknown key (did you mean faults?); known here: checks, expect,"),
    ('name = "x"\n[workload]\n\nacks = "both"', "x.toml:4: workload.acks: 'both' is not one of all, 1, 0"),
    ('name = "x"\n[workload]\nacks = true', "x.toml:3: workload.acks: True is not one of all, 1, 0"),
    ('name = "x"\n[workload]\nrate = "fast"', "x.toml:3: workload.rate: 'fast' is not a number from 0.1"),
    ('name = "x"\n[workload]\nproducers = 2.5', "x.toml:3: workload.producers: 2.5 is not a whole number"),
    ('name = "x"\n[nodes]\nkind = "vm"', "x.toml:3: nodes.kind: 'vm' is not one of local, docker, ssh"),
    ('name = "x"\n[nodes]\nhosts = [{name="n1", host="h"}]', "x.toml:3: nodes.hosts: no entry for n2, n3, zk1"),
    ('name = "x"\n[nodes]\nhosts = [{name="n1"}]', "x.toml:3: nodes.hosts.0.host: missing"),
    ('name = "x"\n[topic]\nreplication_factor = 4', "x.toml:3: topic.replication_factor: 4 is not a whole number"),
    ('name = "x"\n[topic]\nassignment = [[1, 1]]', "x.toml:3: topic.assignment: [1, 1] in [[1, 1]] is not a list"),
    ('name = "x"\n[topic]\npartitions = 3\nassignment = [[1],[2]]', "topic.assignment: 2 lists for 3 partitions"),
    ('name = "x"\n[topic.config]\n"min.insync.replicas" = "two"', "x.toml:3: topic.config.min.insync.replicas: 'two'"),
    (
        'name = "x"\n[system.broker.2]\n"min.insync.replicas" = "two"',
        "x.toml:3: system.broker.2.min.insync.replicas:",
    ),
    ('name = "x"\n[faults]\nkinds = ["kil"]', "x.toml:3: faults.kinds: 'kil' is not one of kill, stop"),
    ('name = "x"\n[faults]\ntargets = ["n4"]', "x.toml:3: faults.targets: 'n4' is not one of one, minority"),
    ('name = "x"\n[faults]\ninterval_s = [3, 1]', "x.toml:3: faults.interval_s: [3, 1] is not [from, to]"),
    ('name = "x"\n[system.broker.9]\na = 1', "x.toml:2: system.broker.9: '9' is not a broker id of this run"),
    ('name = "x"\n[faults]\n[[script]]\ndo = "kill"', "x.toml:3: script.0: a run has [faults] or [[script]], not both"),
    ('name = "x"\n[[script]]\nbroker = 1', "x.toml:2: script.0.do: missing"),
    ('name = "x"\n[limits]\nsetup_s = 0', "x.toml:3: limits.setup_s: 0 is not a number from 1"),
    ('name = "x"\nlimits = 3', "x.toml:2: limits: 3 is not a table"),
    ('name = "x"\n[online]\nevery_s = 0.5', "x.toml:3: online.every_s: 0.5 is not a number from 1 to 3600"),
    ('name = "x"\n[online]\nniceness = 20', "x.toml:3: online.niceness: 20 is not a whole number from 0 to 19"),
    ('name = "x"\n[online]\nstop_on_invalid = 1', "x.toml:3: online.stop_on_invalid: 1 is not true or false"),
    ('name = "x"\nseed = = 1', "x.toml:2: not TOML"),
    (f'name = "x"\nseed = {"[" * 5000}', "x.toml: cannot be read: brackets are nested too deeply"),
    (f'name = "x"\nseed = {"9" * 5000}', "x.toml: cannot be read: a number has more digits than any"),
    ('name = "x"\nexpect = "good"', "x.toml:2: expect: 'good' is not one of valid, invalid, unknown"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message for _, message in WRONG])
def test_plan_wrong_file_names_line_key_value_and_what_is_right(text: str, message: str) -> None:
    with pytest.raises(PlanError) as error:
        parse_plan("x.toml", text)
    assert message in str(error.value)


def test_key_lines_ignore_what_stands_in_multi_line_strings() -> None:
    lines = key_lines('a = """\nb = 1\n"""\nc = 2\n[t]\nd = 3\n')
    assert lines == {("a",): 1, ("c",): 4, ("t",): 5, ("t", "d"): 6}


def test_overrides_replace_what_the_file_says() -> None:
    plan = parse_plan("demo.toml", FULL).with_overrides(seed=9, nodes="docker", time_limit_s=5, rate=10, concurrency=20)
    assert (plan.seed, plan.nodes.kind) == (9, "docker")
    assert (plan.workload.time_limit_s, plan.workload.rate) == (5, 10)
    assert (plan.workload.producers, plan.workload.consumers) == (12, 8)


@pytest.mark.parametrize("concurrency", [2, 3, 7])
def test_overrides_concurrency_keeps_a_producer_and_a_consumer(concurrency: int) -> None:
    workload = parse_plan("x.toml", 'name = "x"').with_overrides(concurrency=concurrency).workload
    assert workload.producers + workload.consumers == concurrency
    assert min(workload.producers, workload.consumers) >= 1


@pytest.mark.parametrize(
    ("given", "every_s", "stop", "expected"),
    [
        ("", None, False, None),
        ("", 3.0, False, OnlinePlan(3.0, False)),
        ("", None, True, OnlinePlan(10.0, True)),
        ("[online]\nevery_s = 5\n", None, False, OnlinePlan(5.0, False)),
        ("[online]\nevery_s = 5\n", None, True, OnlinePlan(5.0, True)),
        ("[online]\nstop_on_invalid = true\nniceness = 0\n", 3.0, False, OnlinePlan(3.0, True, 0)),
    ],
)
def test_overrides_of_online_judging_add_to_what_the_file_says(
    given: str, every_s: float | None, stop: bool, expected: OnlinePlan | None
) -> None:
    plan = parse_plan("x.toml", f'name = "x"\n{given}')
    assert plan.with_overrides(online_s=every_s, stop_on_invalid=stop).online == expected


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"seed": -1}, "--seed: -1"),
        ({"nodes": "vm"}, "--nodes: 'vm' is not one of local, docker, ssh"),
        ({"time_limit_s": 0.0}, "--time-limit: 0"),
        ({"rate": 0.0}, "--rate: 0"),
        ({"concurrency": 1}, "--concurrency: 1"),
        ({"online_s": 0.5}, "--online: 0.5 is not a number from 1 to 3600 (seconds)"),
    ],
)
def test_overrides_out_of_range_name_the_option(override: dict[str, object], message: str) -> None:
    plan = parse_plan("x.toml", 'name = "x"')
    with pytest.raises(PlanError) as error:
        plan.with_overrides(**override)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_render_reads_back_as_the_same_plan() -> None:
    plan = parse_plan("demo.toml", FULL)
    assert parse_plan("run.toml", render(plan)) == plan


def test_render_keeps_script_steps() -> None:
    text = 'name = "k"\n[[script]]\ndo = "await-event"\nmatch = {leader = 2, "a b" = "c\\"d"}\ntimeout_s = 1.5\n'
    plan = parse_plan("k.toml", text)
    again = parse_plan("run.toml", render(plan))
    assert _steps(again) == _steps(plan)


def _steps(plan: Plan) -> list[tuple[str, dict[str, object]]]:
    return [(step.do, dict(step.params)) for step in plan.script]
