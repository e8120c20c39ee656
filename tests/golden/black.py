"""Golden histories of what clients alone see: which story is which case of which anomaly."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden import black_deletions as deletions
from tests.golden import black_drain as drain
from tests.golden import black_ends as ends
from tests.golden import black_lookups as lookups
from tests.golden import black_polls as polls
from tests.golden import black_producers as producers
from tests.golden import black_records as records
from tests.golden import black_timing as timing
from tests.support.histories import Story

Tell = Callable[[Story], None]

BLACK_BOX: dict[str, tuple[Tell, Tell, Tell]] = {
    "fabricated-value": (records.phantom_ok, records.phantom_bad, records.nothing_read),
    "aborted-read": (records.aborted_ok, records.aborted_bad, records.nothing_read),
    "inconsistent-offset": (records.same_twice, records.inconsistent_bad, records.nothing_read),
    "duplicate": (records.same_twice, records.duplicate_bad, records.nothing_read),
    "lost-write": (records.lost_ok, records.lost_bad, records.nothing_read),
    "lost-tail": (drain.tail_ok, drain.tail_bad, drain.tail_unknown),
    "vanished-read": (records.vanished_ok, records.vanished_bad, records.nothing_read),
    "read-above-hw": (ends.above_ok, ends.above_bad, ends.above_unknown),
    "refused-read": (ends.refused_ok, ends.refused_bad, ends.above_unknown),
    "nonmonotonic-end": (ends.end_ok, ends.end_bad, records.same_twice),
    "int-poll-skip": (polls.int_skip_ok, polls.int_skip_bad, polls.no_polls),
    "poll-skip": (polls.skip_ok, polls.skip_bad, polls.no_polls),
    "int-nonmonotonic-poll": (records.same_twice, polls.int_nonmonotonic_bad, polls.no_polls),
    "nonmonotonic-poll": (polls.nonmonotonic_ok, polls.nonmonotonic_bad, polls.no_polls),
    "nonmonotonic-send": (timing.send_order_ok, timing.send_order_bad, timing.nothing_acknowledged),
    "real-time-order": (timing.real_time_ok, timing.real_time_bad, timing.nothing_acknowledged),
    "confluent-repeat": (drain.tail_ok, drain.repeat_bad, drain.repeat_unknown),
    "unseen": (records.lost_ok, records.unseen_bad, records.no_sends),
    "final-drain": (drain.drain_ok, drain.drain_bad, drain.drain_unknown),
    "staleness": (records.same_twice, timing.stale, timing.stale_unknown),
    "availability": (records.lost_ok, timing.available_again, timing.available_to_nobody),
    "resend-offset": (producers.sent_again, producers.another_offset, producers.never_again),
    "producer-order": (producers.sent_again, producers.out_of_order, records.same_twice),
    "deleted-records": (deletions.deleted_ok, deletions.deleted_and_read, deletions.deleted_never),
    "wrong-lookup": (lookups.looked_up_ok, lookups.passed_over, lookups.looked_up_unknown),
}
MORE_BLACK_BOX: dict[tuple[str, str], Tell] = {
    ("producer-order", "bad-no-predecessor"): producers.no_predecessor,
    ("producer-order", "bad-refused"): producers.refused_though_next,
    ("producer-order", "bad-fenced"): producers.fenced_by_nobody,
    ("producer-order", "bad-stale"): producers.stale_taken,
    ("producer-order", "ok-refused"): producers.refused_rightly,
    ("aborted-read", "ok-resent"): producers.taken_when_sent_again,
    ("aborted-read", "bad-resent"): producers.refused_each_time,
    ("duplicate", "bad-resent"): producers.appended_twice,
    ("confluent-repeat", "bad-round"): drain.repeat_bad_in_one_round,
    ("confluent-repeat", "ok-read-on"): drain.repeat_ok_one_read_on,
    ("vanished-read", "bad-earliest"): records.vanished_below_earliest,
    ("final-drain", "bad-gone"): drain.drain_gone,
    ("final-drain", "bad-begun-late"): drain.drain_begun_late,
    ("final-drain", "bad-begun-untrue"): drain.drain_begun_untrue,
    ("lost-write", "bad-without-offset"): records.lost_without_offset,
    ("lost-write", "ok-without-offset"): records.found_without_offset,
    ("lost-write", "ok-expired"): records.lost_expired,
    ("lost-write", "bad-young"): records.lost_young,
    ("lost-write", "bad-passed-over"): records.lost_passed_over,
    ("vanished-read", "ok-expired"): records.vanished_expired,
    ("vanished-read", "bad-young"): records.vanished_young,
    ("poll-skip", "unknown-never-risked"): polls.skip_never_risked,
    ("nonmonotonic-poll", "unknown-never-risked"): polls.skip_never_risked,
    ("final-drain", "bad-not-healed"): drain.drain_not_healed,
    ("final-drain", "ok-again"): drain.drain_again,
    ("read-above-hw", "bad-told"): ends.told_bad,
    ("refused-read", "bad-same-epoch"): ends.refused_by_who_showed_it,
    ("refused-read", "bad-between"): ends.refused_below_a_higher_epoch,
    ("nonmonotonic-end", "bad-same-epoch"): ends.end_back_in_one_epoch,
    ("nonmonotonic-end", "bad-listed"): ends.end_below_an_end,
    ("read-above-hw", "ok-told"): ends.told_ok,
    ("refused-read", "ok-start-untold"): ends.refused_with_no_start,
    ("refused-read", "bad-young"): ends.refused_too_young,
    ("refused-read", "unknown-empty"): ends.nothing_shown,
    ("nonmonotonic-end", "unknown-empty"): ends.nothing_shown,
    ("nonmonotonic-send", "ok-overtaken"): timing.sends_overtake,
    ("nonmonotonic-send", "bad-in-order"): timing.sends_overtake_in_order,
    ("nonmonotonic-send", "bad-far-below"): timing.send_below_an_earlier_one,
    ("deleted-records", "bad-answered"): deletions.deleted_and_answered,
    ("deleted-records", "bad-back"): deletions.start_went_back,
    ("deleted-records", "ok-another-leader"): deletions.start_of_another_leader,
    ("deleted-records", "bad-low-watermark"): deletions.low_watermark_below,
    ("deleted-records", "bad-beyond"): deletions.deleted_beyond_the_end,
    ("lost-write", "ok-deleted"): deletions.lost_deleted,
    ("lost-write", "bad-beyond-deleted"): deletions.lost_beyond_deleted,
    ("lost-write", "bad-before-asked"): deletions.lost_before_asked,
    ("lost-write", "bad-beyond-asked"): deletions.lost_beyond_asked,
    ("vanished-read", "ok-deleted"): deletions.vanished_deleted,
    ("vanished-read", "bad-beyond-deleted"): deletions.vanished_beyond_deleted,
    ("refused-read", "ok-deleted"): deletions.refused_deleted,
    ("refused-read", "bad-beyond-deleted"): deletions.refused_beyond_deleted,
    ("wrong-lookup", "ok-before"): lookups.looked_up_before,
    ("wrong-lookup", "bad-none"): lookups.found_none,
    ("wrong-lookup", "bad-older"): lookups.found_older,
    ("wrong-lookup", "bad-another-time"): lookups.found_by_another_time,
    ("wrong-lookup", "bad-deleted"): lookups.found_what_was_deleted,
    ("wrong-lookup", "ok-deleted"): lookups.deleted_passed_over,
    ("wrong-lookup", "bad-undeleted"): lookups.undeleted_passed_over,
    ("read-above-hw", "bad-lookup"): lookups.told_by_a_lookup,
}
