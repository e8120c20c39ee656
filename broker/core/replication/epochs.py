"""Where two logs part, by leader epochs, and how far a follower cuts.

An epoch's end offset is the start of the next larger epoch, or the LEO for the newest. A leader compares (last fetched
epoch, fetch offset) with its own history; a follower that diverges truncates to the last point that both may share, and
fetches again if its own history lacks the leader's epoch (KIP-279). Both work on `end_offset_for(epoch) → (epoch,
end)`: the largest own epoch ≤ the requested one, and its end; (−1, −1) when there is none.
Source: KIP-101, KIP-279, KIP-595 (diverging epoch); Partition.readRecords, AbstractFetcherThread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1

EndOffsetFor = Callable[[int], tuple[int, int]]


class EpochEnd(NamedTuple):
    """A leader epoch and the offset at which it ends (exclusive)."""

    epoch: int
    end_offset: int


OUT_OF_RANGE = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
"""The leader's history says nothing about the requested epoch: no point of agreement is known."""


def diverging_epoch(end_offset_for: EndOffsetFor, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
    """Where a follower diverges, as its fetch shows: None where its log is a prefix of the leader's.

    Otherwise the leader's largest epoch ≤ last_fetched_epoch and its end, or OUT_OF_RANGE. A follower that gives no
    epoch (an empty log, or the high-watermark protocol) is not checked.
    """
    if last_fetched_epoch == UNDEFINED_EPOCH:
        return None
    epoch, end_offset = end_offset_for(last_fetched_epoch)
    if epoch == UNDEFINED_EPOCH or end_offset == UNDEFINED_OFFSET:
        return OUT_OF_RANGE
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return EpochEnd(epoch, end_offset)
    return None


def truncation_offset(leader: EpochEnd, own_end_offset_for: EndOffsetFor, own_leo: int) -> int:
    """Where a follower cuts after its leader's diverging epoch; ≤ own_leo.

    When the follower never saw the leader's epoch it cuts to the end of its own next smaller one: more may have to go,
    and the next fetch shows it. Nothing at or below the point of agreement is ever cut.
    """
    own_epoch, own_end = own_end_offset_for(leader.epoch)
    if own_epoch == UNDEFINED_EPOCH:
        return min(leader.end_offset, own_leo)
    if own_epoch != leader.epoch:
        return min(own_end, own_leo)
    return min(own_end, leader.end_offset, own_leo)


class Reset(NamedTuple):
    """What a follower does about a fetch offset that its leader does not have.

    Exactly one of the two is set, or neither: then it fetches again from where it is.
    """

    truncate_to: int | None
    start_at: int | None


def out_of_range_reset(
    own_log_start: int,
    own_leo: int,
    leader_log_start: int,
    leader_leo: int,
    high_watermark: int,
    in_isr: bool,
    may_cut_committed: bool,
) -> Reset:
    """A follower behind the leader's log start begins anew there; one ahead of the leader cuts to its LEO.

    The latter only happens where epochs cannot show a divergence: in the high-watermark protocol, or after an unclean
    election.
    may_cut_committed: such a loss is configured; without it nothing below the follower's own high watermark goes, and
    the follower stays out of sync rather than destroy what was committed.
    One whose log begins beyond the leader's end shares nothing with it. Where it may cut, or holds nothing that is
    committed (an empty log, as after it began anew at an earlier leader's start), it begins anew where the leader's log
    does: a cut would leave it without what the leader has before. in_isr: it counts as in sync, as it last heard; then
    nothing below its watermark goes all the same, for what the others committed may rest on it.
    Source: AbstractFetcherThread.fetchOffsetAndTruncate.
    """
    if leader_leo < own_leo:
        nothing_committed = high_watermark <= own_log_start and not in_isr
        if leader_leo < own_log_start and (may_cut_committed or nothing_committed):
            return Reset(None, leader_log_start)
        floor = 0 if may_cut_committed else high_watermark
        target = min(own_leo, max(leader_leo, floor))
        return Reset(target, None) if target < own_leo else Reset(None, None)
    if leader_log_start > own_leo:
        return Reset(None, leader_log_start)
    return Reset(None, None)
