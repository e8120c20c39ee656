"""What the workload `wide` refuses, by the run file's line."""

from __future__ import annotations

import pytest

from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.workloads import checkers_of, workload_kind
from nemesis.catalogue import load_catalogue

START = 'name = "x"\n[workload]\nkind = "wide"\n'
FOLLOWERS = (
    "[workload.options]\nfollower_reads = 0.5\n[system.settings]\n"
    '"replica.selector.class" = "org.apache.kafka.common.replica.RackAwareReplicaSelector"\n'
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[workload.options]\ntogether = 1.5\n",
            "x.toml:5: workload.options.together: 1.5 is not a number from 0 to 1",
        ),
        (
            "[workload.options]\nidle = 2\n",
            "x.toml:5: workload.options.idle: wide has together, sessions, lookups, acks",
        ),
        (
            "[workload.options]\ndeletes = 0.1\n",
            "x.toml:5: workload.options.deletes: wide has together, sessions, lookups, acks_one, deletions, "
            "idempotent, busy_s, idle_s, follower_reads (did you mean deletions?)",
        ),
        (
            "[workload.options]\ndeletions = 0.6\n",
            "x.toml:5: workload.options.deletions: 0.6 is not a number from 0 to",
        ),
        (
            '[workload.options]\ndeletions = 0.1\n[topic]\nname = "hw"\n[topic.config]\n"cleanup.policy" = "compact"\n',
            "x.toml:5: workload.options.deletions: brokers delete no records of a topic with cleanup.policy compact",
        ),
        (
            "[workload.options]\nfollower_reads = 0.5\n",
            "x.toml:5: workload.options.follower_reads: followers read for consumers with "
            '"replica.selector.class" = "org.apache.kafka.common.replica.RackAwareReplicaSelector" alone',
        ),
        (
            FOLLOWERS + '[topic]\nname = "hw"\n[topic.config]\n"unclean.leader.election.enable" = true\n',
            "x.toml:5: workload.options.follower_reads: not beside unclean elections: "
            'topic.config."unclean.leader.election.enable" is true; it has to be false',
        ),
        (
            FOLLOWERS + '"unclean.leader.election.enable" = true\n',
            "x.toml:5: workload.options.follower_reads: not beside unclean elections: "
            'system.settings."unclean.leader.election.enable" is true',
        ),
        (
            FOLLOWERS + '[topic]\nname = "hw"\n[topic.config]\n"cleanup.policy" = "compact,delete"\n',
            "x.toml:5: workload.options.follower_reads: not of a compacted topic: "
            'topic.config."cleanup.policy" is compact,delete; it has to be delete',
        ),
        (
            FOLLOWERS + '[system.broker.2]\n"unclean.leader.election.enable" = true\n',
            "x.toml:5: workload.options.follower_reads: not beside unclean elections: "
            'system.broker.2."unclean.leader.election.enable" is true',
        ),
        ("acks = 1\n[workload.options]\nacks_one = 0.1\n", "x.toml:6: workload.options.acks_one: is a share of sends"),
        (
            '[workload.options]\nacks_one = 0.1\n[faults]\nkinds = ["kill", "bitflip"]\n',
            "x.toml:5: workload.options.acks_one: bitflip may hurt the only copy",
        ),
    ],
)
def test_what_cannot_be_is_refused(text: str, says: str) -> None:
    plan = parse_plan("x.toml", START + text, load_catalogue().kinds)
    with pytest.raises(PlanError) as refused:
        workload_kind("wide").check(plan)
    assert str(refused.value).startswith(says)


def test_topic_without_unclean_elections_will_do_whatever_its_brokers_say() -> None:
    text = f"""{START}{FOLLOWERS}"unclean.leader.election.enable" = true
[topic]
name = "hw"
[topic.config]
"unclean.leader.election.enable" = false
"""
    workload_kind("wide").check(parse_plan("x.toml", text, load_catalogue().kinds))


@pytest.mark.parametrize("faults", ['kinds = ["bitflip"]', 'kinds = ["kill"]'])
def test_without_acks_one_any_fault_will_do(faults: str) -> None:
    text = START + f"[workload.options]\nidle_s = 2\n[faults]\n{faults}\n"
    workload_kind("wide").check(parse_plan("x.toml", text, load_catalogue().kinds))


def test_what_the_clients_never_do_is_not_judged() -> None:
    of_ids = {"resend-offset", "producer-order", "producer-sequence"}
    every = set(workload_kind("wide").checkers)
    for options, left_out in (
        ("deletions = 0.1\nidempotent = 1\nfollower_reads = 0.1", set()),
        ("deletions = 0.1\nidempotent = 1", {"follower-went-back"}),
        ("idempotent = 1\nfollower_reads = 0.1", {"deleted-records"}),
        ("deletions = 0.1\nfollower_reads = 0.1", of_ids),
        ("sessions = 0.1\nlookups = 0", of_ids | {"deleted-records", "wrong-lookup", "follower-went-back"}),
    ):
        plan = parse_plan("x.toml", START + f"[workload.options]\n{options}\n", load_catalogue().kinds)
        assert every - set(checkers_of(plan)) == left_out
