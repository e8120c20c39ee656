"""Golden histories of what brokers keep: which change of a run is which case of which anomaly."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden import white_cuts as cuts
from tests.golden import white_elections as elections
from tests.golden import white_logs as logs
from tests.golden import white_producers as producers
from tests.golden import white_restarts as restarts
from tests.golden import white_rises as rises
from tests.golden import white_starts as starts
from tests.golden import white_watermarks as watermarks
from tests.golden.white_parts import put_after
from tests.support.judging import Case

Change = Callable[[Case], None]


def _as_it_is(_: Case) -> None:
    """A run that keeps every rule."""


def _without(*tables: str) -> Change:
    def change(case: Case) -> None:
        for table in tables:
            case.tables[table] = []

    return change


def _gap(case: Case) -> None:
    events = case.tables["events"]
    middle = next(e for e in events if e["e"] == "fetch_answered")
    events.remove(middle)


def _unknown_event(case: Case) -> None:
    """A cut by a name that no rule knows, as a newer broker may give it."""
    line = next(e for e in case.tables["events"] if e["e"] == "visible")
    line["e"] = "truncated"


def _nameless_partition(case: Case) -> None:
    """What was shown of whichever partition."""
    line = next(e for e in case.tables["events"] if e["e"] == "visible")
    del line["p"]


def _nothing_of_cuts(case: Case) -> None:
    """How its broker cuts logs, by which some cuts are no finding."""
    line = next(e for e in case.tables["events"] if e["e"] == "start")
    del line["truncation"]


def _unknown_role(case: Case) -> None:
    """An append by who neither leads nor follows."""
    line = next(e for e in case.tables["events"] if e["e"] == "append")
    line["role"] = "observer"


def _beyond_all_logs(case: Case) -> None:
    """An answer for an offset behind which there is none."""
    line = next(e for e in case.tables["events"] if e["e"] == "ack")
    line["last"] = (1 << 63) - 1


def _odd_part(case: Case) -> None:
    """An answer to a follower of more bytes than can be counted."""
    line = next(e for e in case.tables["events"] if e["e"] == "fetch_answered")
    line["parts"] = [[*part[:3], 1 << 63, *part[4:]] for part in line["parts"]]


def _ack_of_another(case: Case) -> None:
    """The line of an answer that a client got is not there, though the next leader has given its offset again."""
    events = case.tables["events"]
    ack = next(e for e in events if e["e"] == "ack")
    for later in events:
        if later["i"] == ack["i"] and later["s"] > ack["s"]:
            later["s"] -= 1
    events.remove(ack)
    other = next(e for e in reversed(events) if e["e"] == "append" and e["role"] == "leader" and e["b"] != ack["b"])
    given = {name: value for name, value in ack.items() if name in {"e", "p", "base", "last", "isr", "min_isr"}}
    put_after(case, other, {**given, "le": other["le"], "hw": 0, "acks": 1})


_NO_EVENTS = _without("events")
_NO_FILES = _without("batches", "checkpoints")
_NO_ZNODES = _without("znodes")

WHITE_BOX: dict[str, tuple[Change, Change, Change]] = {
    "isr-znode": (_as_it_is, elections.isr_without_leader, _NO_ZNODES),
    "one-leader-per-epoch": (_as_it_is, elections.two_leaders, _NO_EVENTS),
    "controller-epoch": (_as_it_is, elections.controller_back, _NO_ZNODES),
    "offset-order": (_as_it_is, watermarks.hw_above_leo, _NO_EVENTS),
    "hw-within-isr": (_as_it_is, watermarks.hw_on_append, _NO_EVENTS),
    "hw-monotone": (_as_it_is, watermarks.hw_back, _NO_EVENTS),
    "log-matching": (_as_it_is, logs.bytes_differ, _NO_FILES),
    "leader-completeness": (_as_it_is, logs.short_leader, _NO_EVENTS),
    "ack-committed": (_as_it_is, watermarks.early_ack, _NO_EVENTS),
    "epoch-cache": (_as_it_is, logs.epochs_repeat, _NO_FILES),
    "log-contiguous": (_as_it_is, logs.hole_in_log, _NO_FILES),
    "truncation": (_as_it_is, logs.cut_in_isr, _NO_EVENTS),
    "live-isr": (_as_it_is, elections.dead_joiner, _NO_ZNODES),
    "shown-below-hw": (_as_it_is, watermarks.shown_above, _NO_EVENTS),
    "producer-sequence": (producers.sequenced, producers.repeated, _as_it_is),
    "open-transaction": (producers.in_transactions, producers.two_open, _as_it_is),
    # An event log with a hole proves nothing, and nothing else.
    "event-log": (_as_it_is, _gap, _NO_EVENTS),
}
MORE_WHITE_BOX: dict[tuple[str, str], Change] = {
    ("producer-sequence", "bad-gap"): producers.gap,
    ("producer-sequence", "bad-first"): producers.begun_in_the_middle,
    ("producer-sequence", "bad-epoch"): producers.epoch_falls,
    ("producer-sequence", "bad-new-epoch"): producers.epoch_begun_in_the_middle,
    ("producer-sequence", "ok-new-epoch"): producers.epoch_begun,
    ("open-transaction", "bad-torn"): producers.ended_twice,
    ("open-transaction", "bad-parted"): producers.parted,
    ("open-transaction", "bad-unasked"): producers.committed_unasked,
    ("open-transaction", "bad-out"): producers.late_on_output,
    ("open-transaction", "bad-late"): producers.late_batch,
    ("open-transaction", "bad-outside"): producers.outside,
    ("open-transaction", "bad-old-marker"): producers.old_marker,
    ("hw-within-isr", "bad-refused"): watermarks.refused_fetch_counted,
    ("shown-below-hw", "bad-listed"): watermarks.end_told_too_high,
    ("isr-znode", "ok-eligible"): elections.eligible_leader,
    ("isr-znode", "bad-ineligible"): elections.ineligible_leader,
    ("isr-znode", "bad-old-eligibility"): elections.leader_of_an_old_eligibility,
    ("one-leader-per-epoch", "bad-old-epoch"): elections.role_of_an_old_epoch,
    ("one-leader-per-epoch", "ok-anew"): elections.log_opened_anew,
    ("shown-below-hw", "bad-told"): watermarks.watermark_told_too_high,
    ("shown-below-hw", "ok-told"): watermarks.watermark_told,
    ("truncation", "bad-own-watermark"): logs.cut_below_own_watermark,
    ("truncation", "ok-own-watermark"): logs.cut_to_own_watermark,
    ("hw-within-isr", "bad-asked-lower"): watermarks.lower_fetch_passed_over,
    ("hw-within-isr", "ok-asked-lower"): watermarks.lower_fetch_never_answered,
    ("truncation", "bad-restart"): logs.end_forgotten,
    ("truncation", "bad-restart-stopped"): logs.end_forgotten_after_a_stop,
    ("truncation", "ok-restart"): logs.end_at_the_watermark,
    ("truncation", "ok-restart-deleted"): logs.end_deleted,
    ("truncation", "ok-restart-cut"): logs.end_cut,
    ("truncation", "ok-restart-damaged"): logs.end_damaged,
    ("truncation", "ok-restart-anew"): logs.begun_anew,
    ("isr-znode", "ok-longest-log"): elections.longest_log,
    ("live-isr", "ok-eligible"): elections.eligible_leader,
    ("live-isr", "bad-grown"): elections.grown_by_an_election,
    ("live-isr", "bad-elected"): elections.long_dead_elected,
    ("live-isr", "ok-elected"): elections.elected_just_after_its_end,
    ("live-isr", "bad-unproposed"): elections.unproposed,
    ("log-matching", "ok-head-expired"): logs.head_expired,
    ("log-matching", "bad-head-young"): logs.head_young,
    ("hw-within-isr", "ok-late"): watermarks.taken_after_the_copy,
    ("hw-within-isr", "unknown-unsent"): watermarks.fetch_never_sent,
    ("log-matching", "bad-beside-damage"): logs.bytes_differ_beside_damage,
    ("log-matching", "ok-damaged"): logs.bytes_differ_by_damage,
    ("log-matching", "bad-shared-damage"): logs.bytes_differ_beside_a_damaged_checkpoint,
    ("truncation", "bad-restart-end"): restarts.last_batch_lost,
    ("truncation", "ok-restart-end"): restarts.last_batch_kept,
    ("truncation", "ok-restart-end-cut"): restarts.last_batch_cut,
    ("truncation", "ok-restart-end-in-doubt"): restarts.last_batch_in_doubt,
    ("truncation", "bad-restart-end-followed"): restarts.last_batch_of_a_follower_lost,
    ("truncation", "ok-restart-end-by-watermark"): restarts.last_batch_cut_to_the_watermark,
    ("truncation", "ok-restart-end-damaged"): restarts.last_batch_damaged,
    ("truncation", "bad-restart-end-beside-damage"): restarts.last_batch_lost_beside_damage,
    ("truncation", "ok-restart-end-power"): restarts.last_batch_lost_with_the_power,
    ("hw-within-isr", "bad-role"): rises.raised_by_following,
    ("hw-within-isr", "bad-role-led"): rises.raised_by_leading,
    ("hw-within-isr", "unknown-role"): rises.raised_by_a_role_of_nothing_known,
    ("hw-within-isr", "ok-role-anew"): rises.begun_anew_above,
    ("hw-within-isr", "bad-alone"): rises.raised_alone,
    ("hw-within-isr", "ok-alone"): rises.stands_alone,
    ("hw-within-isr", "bad-alone-in-zookeeper"): rises.raised_by_an_old_isr,
    ("hw-within-isr", "unknown-version"): rises.raised_by_an_isr_of_no_version,
    ("isr-znode", "bad-proposed"): rises.rose_by_a_proposal,
    ("isr-znode", "bad-proposed-acked"): rises.acknowledged_by_a_proposal,
    ("hw-within-isr", "bad-proposed"): rises.rose_past_a_member,
    ("truncation", "bad-restart-power"): restarts.watermark_lost_with_the_power,
    ("truncation", "ok-restart-end-unheard-of"): restarts.last_batch_lost_by_an_unheard_of_fault,
    ("truncation", "bad-same-epoch"): cuts.cut_what_its_epoch_exposed,
    ("truncation", "ok-same-epoch"): cuts.cut_what_nobody_exposed,
    ("truncation", "bad-leader"): cuts.cut_by_a_leader,
    ("truncation", "bad-learned-watermark"): cuts.cut_below_a_watermark_of_another_epoch,
    ("truncation", "ok-same-epoch-by-watermark"): cuts.cut_by_the_old_protocol,
    ("truncation", "ok-same-epoch-damaged"): cuts.cut_where_a_fault_damaged_another_replica,
    ("truncation", "ok-same-epoch-anew"): cuts.cut_in_a_topic_made_anew,
    ("truncation", "bad-cut-as-opened"): cuts.cut_before_anything_was_appended,
    ("truncation", "bad-restart-idle"): restarts.end_of_an_idle_follower_lost,
    ("truncation", "ok-restart-idle-diverging"): restarts.end_of_an_idle_follower_cut_by_its_leader,
    ("truncation", "ok-restart-idle-late"): restarts.end_agreed_to_in_an_older_role,
    ("truncation", "bad-restart-idle-watermark"): restarts.watermark_forgotten_in_two_lives,
    ("truncation", "bad-restart-synced-power"): restarts.synced_batch_lost_with_the_power,
    ("controller-epoch", "bad-obeyed"): elections.obeys_an_older_controller,
    ("controller-epoch", "bad-obeyed-restarted"): elections.obeys_an_older_controller_once_restarted,
    ("controller-epoch", "ok-obeyed"): elections.obeys_a_newer_controller,
    ("log-matching", "bad-lacking"): logs.hole_in_log,
    ("ack-committed", "bad-called-another"): watermarks.early_ack_called_another,
    ("ack-committed", "bad-acks"): watermarks.ack_called_another,
    ("shown-below-hw", "ok-follower"): watermarks.follower_read,
    ("shown-below-hw", "bad-follower"): watermarks.follower_read_above,
    ("shown-below-hw", "bad-follower-told"): watermarks.follower_told_above,
    ("event-log", "bad-unknown-event"): _unknown_event,
    ("event-log", "bad-lacking"): _nameless_partition,
    ("event-log", "bad-unknown-role"): _unknown_role,
    ("event-log", "bad-beyond-all-logs"): _beyond_all_logs,
    ("event-log", "bad-odd-part"): _odd_part,
    ("event-log", "bad-ack-of-another"): _ack_of_another,
    ("offset-order", "bad-role-shorter"): watermarks.role_of_a_shorter_log,
    ("offset-order", "bad-role-longer"): watermarks.role_of_a_longer_log,
    ("offset-order", "bad-appended-over"): watermarks.appended_over_its_end,
    ("event-log", "bad-start"): _nothing_of_cuts,
    ("ack-committed", "bad-part"): watermarks.ack_of_a_part,
    ("offset-order", "bad-taken"): watermarks.took_more_than_it_was_told,
    ("offset-order", "bad-taken-unheard"): watermarks.took_what_no_answer_told,
    ("epoch-cache", "unknown-gone"): logs.epochs_gone,
    ("epoch-cache", "ok-first-gone"): logs.first_epoch_gone,
    ("truncation", "bad-told-lower"): logs.cut_below_a_watermark_that_it_leaves_out,
    ("offset-order", "bad-role-lower"): watermarks.role_with_a_lower_watermark,
    ("truncation", "bad-opened-twice"): restarts.end_gone_in_one_life,
    ("truncation", "ok-opened-twice"): restarts.end_deleted_in_one_life,
}

STARTS: dict[str, tuple[Change, Change, Change]] = {
    "log-start": (starts.deleted, starts.head_gone, _NO_FILES),
}
MORE_STARTS: dict[tuple[str, str], Change] = {
    ("log-start", "bad-checkpoint"): starts.checkpoint_too_high,
    ("log-start", "ok-checkpoint"): starts.deleted_by_checkpoint,
    ("log-start", "bad-beyond"): starts.more_than_was_asked,
    ("log-start", "ok-old"): starts.head_old,
    ("log-start", "bad-below"): starts.still_there,
    ("log-start", "ok-unwritten"): starts.not_yet_written,
    ("log-start", "ok-told-to-go"): starts.told_to_go,
}

OF_PRODUCERS = frozenset({"producer-sequence", "open-transaction"})

LAST_STANDING = frozenset(
    {
        elections.eligible_leader,
        elections.ineligible_leader,
        elections.leader_of_an_old_eligibility,
        elections.longest_log,
        elections.grown_by_an_election,
    }
)
"""Changes of `last_standing_life`; all others are of `plain_life`."""
