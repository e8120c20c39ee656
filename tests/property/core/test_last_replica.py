"""Random lives of one partition against a plain model of who holds what: R12.

Shrinks and expansions, kill -9, power failures that take unsynced tails, restarts, suspicions, new controllers; a
min.insync.replicas that changes and that everybody hears of at another time; logs that are emptied; disks put back from
an older backup; ends and starts that no controller sees before the next one is elected; reports of stops that are long
on their way; leaders whose sessions end while their processes serve whoever has not heard of it.
The claim: whenever somebody is elected, every acknowledged record that any replica still holds, up or down, is in the
new leader's log. So no record is lost as long as one replica that held it keeps its bytes and returns.
An unclean election loses nothing that a live replica, or a suspected one of the ISR, holds.
And no offset that was committed and deleted is given out again, as long as a log of the ISR or of an eligible replica
begins beyond it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.core.replica_disks import REPLICAS
from tests.property.core.replica_lives import (
    TURNS,
    WHAT,
    WHAT_OF_ALL,
    WHAT_OF_BACKUPS,
    WHAT_OF_BOUNCES,
    WHAT_OF_DELAYS,
    WHAT_OF_DELETIONS,
    WHAT_OF_DEPOSED,
    WHAT_OF_MINIMA,
    WHAT_OF_UNCLEAN,
    Steps,
    live,
    lives,
)
from tests.property.core.replica_world import World
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("R12", "C10")


@given(lives(WHAT), st.sampled_from(REPLICAS))
@examples(1000)
def test_no_acknowledged_record_is_lost_while_a_replica_that_holds_it_may_return(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    live(World(min_isr), life)


@given(st.lists(st.sampled_from(TURNS), min_size=4, max_size=20), st.sampled_from(REPLICAS))
@examples(2000)
def test_no_acknowledged_record_is_lost_where_leaders_take_turns_and_commit_what_they_had_before(
    turns: list[Steps], min_isr: int
) -> None:
    live(World(min_isr), [step for turn in turns for step in turn])


def test_tail_of_an_epoch_in_between_does_not_outweigh_what_was_committed_since() -> None:
    # 1 has an uncommitted record when 2 is made leader, and 2 has one of its own when it is killed: 1 leads again, and
    # commits its record with 3, but writes none under its new epoch.
    life = [("slow", 2), ("slow", 3), ("write", 0), ("prefer", 2), ("write", 0), ("kill", 2), ("catch-up", 3)]
    life += [("sync", 1), ("sync", 3), ("power", 1), ("power", 3)]
    live(World(2), [*life, ("start", 1), ("report", 1), ("start", 3), ("report", 3), ("start", 2), ("report", 2)])


@given(lives(WHAT_OF_MINIMA), st.sampled_from(REPLICAS))
@examples(300)
def test_no_acknowledged_record_is_lost_where_leader_and_controller_hear_of_a_new_minimum_apart(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    live(World(min_isr), life)


@given(lives(WHAT_OF_BACKUPS), st.sampled_from(REPLICAS))
@examples(300)
def test_no_acknowledged_record_is_lost_where_an_older_copy_of_a_disk_is_put_back(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    live(World(min_isr), life)


def test_older_copy_of_the_last_isr_member_waits_for_the_eligible_one() -> None:
    life = [("kill", 1), ("backup", 1), ("start", 1), ("catch-up", 1), ("write", 0), ("kill", 3), ("kill", 2)]
    live(World(2), [*life, ("kill", 1), ("restore", 1), ("start", 1), ("report", 1)])


@given(lives(WHAT_OF_BOUNCES), st.sampled_from(REPLICAS))
@examples(400)
def test_no_acknowledged_record_is_lost_where_replicas_bounce_and_no_controller_sees_it(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    live(World(min_isr), life)


@given(lives(WHAT_OF_DELETIONS), st.sampled_from(REPLICAS))
@examples(400)
def test_no_acknowledged_record_is_lost_where_logs_are_emptied_and_no_offset_is_given_out_again(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    live(World(min_isr), life)


def test_emptied_logs_do_not_lose_to_a_stale_one() -> None:
    life = [("write", 0), ("sync", 3), ("lag", 3), ("write", 0), ("delete", 0), ("power", 3), ("power", 2)]
    live(World(1), [*life, ("power", 1), ("start", 1), ("report", 1), ("start", 2), ("report", 2)])


@given(lives(WHAT_OF_DELAYS), st.sampled_from(REPLICAS))
@examples(300)
def test_no_acknowledged_record_is_lost_where_reports_of_stops_are_long_on_their_way(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    live(World(min_isr), life)


@given(lives(WHAT_OF_UNCLEAN), st.sampled_from(REPLICAS))
@examples(400)
def test_unclean_election_loses_nothing_that_a_registered_replica_of_the_isr_or_a_live_one_holds(
    life: list[tuple[str, int]], min_isr: int
) -> None:
    live(World(min_isr, unclean=True), life)


def test_unclean_election_does_not_pass_over_a_suspected_isr_member() -> None:
    life = [("lag", 3), ("write", 0), ("wrongly-suspect", 2), ("kill", 1), ("report", 3), ("reachable", 2)]
    live(World(2, unclean=True), [*life, ("report", 2)])


LEADER_ALONE = [("write", 0), ("sync", 1), ("lag", 2), ("lag", 3), ("write", 0)]


@given(lives(WHAT_OF_DEPOSED, shortest=3))
@examples(500)
def test_no_acknowledged_record_is_lost_where_a_deposed_leader_is_followed_on(life: list[tuple[str, int]]) -> None:
    live(World(1), [*LEADER_ALONE, ("expire", 1), *life])


def test_replica_that_has_reported_follows_nobody() -> None:
    """What 2 has is all that is left of two records; it had one as it was asked, or would have fetched after that."""
    life = [("kill", 3), ("write", 0), ("sync", 1), ("lag", 2), ("write", 0), ("write", 0), ("expire", 1)]
    life += [("late-fetch", 2), ("report", 2), ("late-fetch", 2), ("power", 1), ("start", 1)]
    live(World(1), life)
    life.remove(("late-fetch", 2))
    live(World(1), life)


def test_report_that_was_on_its_way_for_a_whole_leadership_decides_nothing() -> None:
    """2 was empty as it was asked, and has more than the others by the time that its answer comes."""
    life = [("kill", 2), ("kill", 3), ("kill", 1), ("start", 2), ("ask", 2), ("start", 1), ("report", 1), ("start", 3)]
    life += [("catch-up", 2), ("catch-up", 3), ("write", 0), ("sync", 3), ("lag", 3), ("write", 0), ("lag", 2)]
    live(World(1), [*life, ("power", 1), ("answer", 2), ("start", 1), ("report", 1), ("ask", 3), ("answer", 3)])


@given(lives(WHAT_OF_ALL), st.sampled_from(REPLICAS))
@examples(400)
def test_no_acknowledged_record_is_lost_where_all_of_that_happens(life: list[tuple[str, int]], min_isr: int) -> None:
    live(World(min_isr), life)


FOLLOWER_BOUNCED = [("lag", 3), ("write", 0), ("bounce", 2), ("catch-up", 3), ("failover", 0), ("kill", 1)]
LEADER_BOUNCED = [("kill", 3), ("start", 3), ("write", 0), ("bounce", 1), ("failover", 0)]


@pytest.mark.parametrize("life", [FOLLOWER_BOUNCED, LEADER_BOUNCED])
def test_replica_that_bounced_unseen_does_not_lead_on_trust(life: list[tuple[str, int]]) -> None:
    live(World(1), life)


RAISED_UNHEARD = [
    ("lag", 3),
    ("minimum", 2),
    ("controller-hears", 0),
    ("lag", 2),
    ("write", 0),
    ("kill", 1),
    ("report", 2),
]
LOWERED_UNHEARD = [("lag", 3), ("lag", 2), ("minimum", 1), ("hear", 1), ("write", 0), ("kill", 1), ("report", 2)]
MADE_UNDER_A_LARGER_ONE = [
    *(("lag", 3), ("minimum", 2), ("hear", 1), ("write", 0), ("lag", 2), ("controller-hears", 0)),
    *(("kill", 1), ("kill", 2), ("report", 3)),
]


@pytest.mark.parametrize(("min_isr", "life"), [(1, RAISED_UNHEARD), (2, LOWERED_UNHEARD), (3, MADE_UNDER_A_LARGER_ONE)])
def test_eligible_replica_holds_what_was_committed_under_a_minimum_that_changed(
    min_isr: int, life: list[tuple[str, int]]
) -> None:
    live(World(min_isr), life)


def test_model_sees_the_loss_that_kafkas_rule_allows() -> None:
    """Sequence g with every stop taken for clean: the judge of this model must object."""
    world = World(2)
    world.write()
    world.lag(3)
    world.write()
    world.stop(2, power=False)
    world.stop(3, power=False)
    world.stop(1, power=True)
    world.disks.unclean.clear()
    world.start(1)
    with pytest.raises(AssertionError, match="which others hold"):
        world.report(1)
