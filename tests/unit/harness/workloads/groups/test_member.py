"""What a member of a group does next, and what responses make of it."""

from __future__ import annotations

from random import Random

import pytest

from harness.workloads.groups import assignors
from harness.workloads.groups.member import Membership, Rebalance

pytestmark = [pytest.mark.guarantee("V2")]

SECOND = 1_000_000_000


def member(rebalance: Rebalance = "eager", instance: str | None = None, seed: int = 1) -> Membership:
    return Membership("g0", "hw", rebalance, instance, 4, 3 * SECOND, Random(seed))


def entered(
    partitions: tuple[int, ...] = (0, 1),
    rebalance: Rebalance = "eager",
    seed: int = 1,
    instance: str | None = None,
) -> Membership:
    """Owns the partitions in generation 3, and stands at 5 in each."""
    one = member(rebalance, instance, seed=seed)
    one.has_joined("m", 3, "m", "range", [("m", assignors.subscription("hw", ()))])
    one.has_synced(partitions, 0)
    one.has_fetched(dict.fromkeys(partitions, 5))
    return one


def test_member_joins_syncs_and_looks_where_it_begins() -> None:
    one = member()
    assert one.next_step(0, calm=True) == "join"
    one.has_joined("m", 1, "m", "range", [("m", assignors.subscription("hw", ()))])
    assert one.next_step(0, calm=True) == "sync"
    one.has_synced((0, 1), 0)
    assert one.next_step(0, calm=True) == "fetch_offsets"
    one.has_fetched({0: 7, 1: -1, 2: 9})
    assert one.positions == {0: 7, 1: 0}
    assert {one.next_step(0, calm=True) for _ in range(50)} == {"poll", "fetch_offsets"}


def test_member_heartbeats_when_it_is_due() -> None:
    one = entered()
    assert one.next_step(SECOND, calm=True) == "heartbeat"
    assert one.next_step(SECOND, calm=True) != "heartbeat"


def test_member_commits_only_what_it_read() -> None:
    one = entered()
    one.has_polled(0, 5)
    assert one.uncommitted == set()
    one.has_polled(0, 9)
    assert one.uncommitted == {0}
    assert "commit_offsets" in {one.next_step(0, calm=True) for _ in range(50)}


def test_leader_assigns_and_others_do_not() -> None:
    one = member()
    metadata = assignors.subscription("hw", ())
    one.has_joined("a", 1, "a", "range", [("a", metadata), ("b", metadata)])
    given = {who: assignors.assigned_in(raw) for who, raw in one.assignments().items()}
    assert given == {"a": (0, 1), "b": (2, 3)}
    one.has_joined("a", 2, "b", "range", [])
    assert one.assignments() == {}


def test_eager_member_owns_nothing_once_it_has_joined_again() -> None:
    one = entered()
    one.refused("REBALANCE_IN_PROGRESS")
    assert one.next_step(0, calm=True) == "join"
    assert one.owned == (0, 1)
    one.has_joined("m", 4, "x", "range", [])
    assert not one.owned


def test_cooperative_member_keeps_positions_and_joins_again_when_it_gave_one_up() -> None:
    one = entered(rebalance="cooperative")
    one.join_again()
    one.has_joined("m", 4, "x", "cooperative-sticky", [])
    one.has_synced((1,), 0)
    assert one.positions == {1: 5}
    assert one.next_step(0, calm=True) == "join"


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"])
def test_member_that_is_gone_begins_anew_and_remembers_who_it_was(error: str) -> None:
    one = entered()
    one.refused(error)
    assert (one.member, one.generation, one.owned) == ("", -1, ())
    assert one.former is not None
    assert (one.former.member, one.former.generation, dict(one.former.positions)) == ("m", 3, {0: 5, 1: 5})


def test_member_goes_wrong_in_every_way_some_time_and_never_when_it_is_to_be_calm() -> None:
    steps, calm = set(), set()
    for seed in range(400):
        one = entered(seed=seed)
        step = one.next_step(SECOND, calm=False)
        steps.add((step, one.away(SECOND)))
        calm.add(entered(seed=seed).next_step(SECOND, calm=True))
    assert steps >= {("leave", True), ("fetch_offsets", True), ("join", False), ("heartbeat", False)}
    assert calm == {"heartbeat"}


def test_static_member_comes_back_some_time_while_all_is_calm() -> None:
    static = [entered(seed=seed, instance="i") for seed in range(100)]
    assert {one.next_step(SECOND, calm=True) for one in static} == {"heartbeat", "join"}
    assert {one.member for one in static if not one.joined} == {""}


def test_silent_member_commits_as_who_it_was_and_nothing_else_of_its_own() -> None:
    one = entered()
    one.remember()
    one.silent_until_ns = 10 * SECOND
    seen = {(one.next_step(0, calm=False), one.committing is not None) for _ in range(200)}
    assert seen == {("commit_offsets", True), ("fetch_offsets", False)}
    assert one.next_step(11 * SECOND, calm=False) != "commit_offsets"


def test_zombie_commits_are_mixed_with_a_member_s_own() -> None:
    one = entered()
    one.remember()
    one.refused("ILLEGAL_GENERATION")
    one.has_joined("m", 5, "x", "range", [])
    one.has_synced((2,), 0)
    one.has_fetched({2: 1})
    one.has_polled(2, 4)
    made = {one.committing is not None for _ in range(300) if one.next_step(0, calm=False) == "commit_offsets"}
    assert made == {True, False}
