"""Every checker by name: its title, its family, and what it must have seen before it may say valid.

`needs` is per partition of the run's topic: a figure below 1 makes the checker unknown, with the reason given here. A
checker that is not in this table has no verdict; a test compares the table with what the families hand back.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.verdicts.administration import ADMIN, REMADE
from checkers.verdicts.spec import Source, Spec, own
from checkers.verdicts.transactions import CYCLES, TRANSACTIONS

DRAINED, HEALED = "drained:", "healed:"
"""Figures of what judges readings: behind the first a reader and, after a colon, the leader from which it read all;
behind the second a reader that read the healed cluster to its end before the rotation.
"""

_READ = {"records_read": "no poll returned a record"}
_ACKED = {"acknowledged": "no send was acknowledged"}
_BATCHES = {"batches_read": "no record of a send of several was read"}
_OWN = {"own_positions": "no consumer reported a position after a change of leader or a failed poll in the main phase"}


def _black(name: str, title: str, needs: Mapping[str, str], *, linearizability: bool = True) -> Spec:
    return Spec(name, title, "black-box", needs, ("history",), linearizability)


def _white(name: str, title: str, needs: Mapping[str, str], *sources: Source) -> Spec:
    return Spec(name, title, "white-box", needs, sources)


BLACK_BOX = (
    _black("fabricated-value", "Fabricated value: nobody sent it there", _READ),
    _black("aborted-read", "Aborted read: a value whose send certainly failed", _READ),
    _black("inconsistent-offset", "Two values at one offset", {"offsets_read": "no poll returned a record"}),
    _black("duplicate", "One value at two offsets", {"values_read": "no poll returned a record"}),
    _black("lost-write", "Lost write: acknowledged, passed over by polls, never read", {**_ACKED, **_READ}),
    _black(
        "lost-tail",
        "Lost tail: acknowledged, and beyond the end that a drain proved",
        {**_ACKED, "drains": "no drain proved where the log ends"},
    ),
    _black("unseen", "Unseen: acknowledged, and covered by no poll", _ACKED),
    _black("torn-batch", "Torn batch: one record of a send was read, another is nowhere", _BATCHES),
    _black(
        "vanished-read",
        "Vanished read: visible once, gone later",
        {"offsets_read": "no poll returned a record", "polls": "no poll was answered"},
    ),
    _black(
        "read-above-hw",
        "Read above the high watermark",
        {
            "answers_with_data": "no response in a known leader epoch carried a record",
            "answers_with_hw": "no response in a known leader epoch carried a high watermark",
        },
    ),
    _black(
        "refused-read",
        "A read of what had been shown, refused as out of range",
        {"polls_judged": "no poll in a known leader epoch was answered once anything had been shown"},
        linearizability=False,
    ),
    _black(
        "nonmonotonic-end",
        "An end offset below one that had been shown",
        {"ends_judged": "no end offset was returned in a known leader epoch once anything had been shown"},
        linearizability=False,
    ),
    _black("int-poll-skip", "A poll passed over records that others read", {"polls": "no poll was answered"}),
    _black("hole", "Hole: a poll passed over offsets without a record", {"polls": "no poll was answered"}),
    _black("poll-skip", "A consumer jumped over records between polls", _OWN),
    _black("int-nonmonotonic-poll", "A poll returned offsets out of order", {"polls": "no poll was answered"}),
    _black("nonmonotonic-poll", "A consumer went back between polls", _OWN),
    _black("nonmonotonic-send", "A process's acknowledged sends went back", _ACKED),
    _black("int-nonmonotonic-send", "Reversed batch: records of one send out of order, or apart", _BATCHES),
    _black("real-time-order", "Real-time order of sends", {"records_ordered": "no record has a known offset"}),
    _black(
        "staleness",
        "Staleness of reads (measured)",
        {"polls_at_end": "no poll read to the end offset of its response"},
        linearizability=False,
    ),
    _black(
        "availability",
        "Availability (measured)",
        {"sends": "no send was tried in the main phase"},
        linearizability=False,
    ),
)

DRAINS = (
    Spec(
        "final-drain",
        "The final drain reached its sentinels",
        "coverage",
        {"sentinels": "no acknowledged sentinel"},
        ("history",),
        none={"gone": "records were read once, and a later finished drain did not return them"},
    ),
    Spec(
        "confluent-repeat",
        "The real client read the same records",
        "black-box",
        {
            "records_compared": "nothing was read by both readers",
            "confluent_drains": "the real client finished no drain",
        },
        ("history",),
    ),
)

WHITE_BOX = (
    _white("event-log", "The event logs are whole", {"lines": "no event"}, "events", "zookeeper", "history"),
    _white("isr-znode", "Rule 1: leaders and ISRs along ZooKeeper's versions", {"versions": "no version"}, "zookeeper"),
    _white(
        "one-leader-per-epoch",
        "Rule 2: one broker appends per leader epoch",
        {"leader_appends": "no leader's append"},
        "events",
    ),
    _white("controller-epoch", "Rule 3: controller epochs", {"versions": "no version"}, "zookeeper"),
    _white(
        "offset-order",
        "Rule 4: log start, high watermark and log end in order, and the end from line to line",
        {"hw_events": "no high watermark"},
        "events",
    ),
    _white(
        "hw-within-isr",
        "Rule 5: the high watermark is on every ISR member",
        {
            "hw_advances": "no leader advanced its high watermark",
            "roles_judged": "no role whose watermark could be judged",
        },
        "events",
    ),
    _white(
        "hw-monotone",
        "Rule 6: the high watermark never falls in a leader epoch",
        {"hw_advances": "no leader advanced its high watermark"},
        "events",
    ),
    _white(
        "log-matching",
        "Rule 7: replicas hold the same bytes",
        {
            "batches": "no batch",
            "fully_replicated": "not every replica's segments",
            "watermarks_known": "not every replica's high watermark",
        },
        "segments",
    ),
    _white(
        "leader-completeness",
        "Rule 8: a new leader holds all that was exposed",
        {"leaderships": "no leadership"},
        "events",
    ),
    _white(
        "ack-committed",
        "Rule 9: acks=all is acknowledged once committed",
        {"acks_all": "no acks=all response"},
        "events",
    ),
    _white("epoch-cache", "Rule 10: leader-epoch files", {"entries": "no leader-epoch file"}, "segments"),
    _white("log-contiguous", "Rules 2 and 11: offsets and epochs along a log", {"batches": "no batch"}, "segments"),
    _white(
        "truncation",
        "Rule 14: no log is cut below what was exposed",
        {"leaderships": "no leadership"},
        "events",
    ),
    _white("live-isr", "Rule 15: only live brokers enter an ISR", {"versions": "no version"}, "zookeeper", "events"),
    _white(
        "shown-below-hw",
        "Rule 17: nothing is shown above the high watermark",
        {"answers_shown": "nothing was shown"},
        "events",
    ),
)


GROUPS = (
    own(
        "overlapping-owners",
        "Overlapping owners: one partition, two members of a generation",
        {
            "assigned": "no member was given the partition",
            "shared": "no generation in which it was given away had several members",
        },
    ),
    own(
        "offset-regression",
        "Offset regression: a group's committed offset went back",
        {"fetches_judged": "no offset was fetched of a node that must have known an acknowledged commit"},
    ),
    own(
        "commit-lost",
        "Lost commit: acknowledged, and not what is fetched in the end",
        {"final_fetches": "no committed offset was fetched in the final drain"},
    ),
    own(
        "offset-not-linearizable",
        "Commits and fetches of a group's offset have no order that explains them",
        {"fetches_searched": "no committed offset was fetched of a node that is known, and right by itself"},
    ),
    own(
        "commit-ahead",
        "Commit ahead: an offset beyond what any member was given",
        {"offsets_judged": "no offset was committed"},
    ),
    own(
        "fenced-commit",
        "Fenced commit: of a generation or member that is over",
        {"commits_too_late": "no commit of a generation that was over was tried"},
    ),
    own(
        "generation",
        "Rule 16: a group's generations never go back",
        {
            "generations": "no member was given the partition",
            "rebalances": "no group that reads it came to another generation",
        },
    ),
    own(
        "static-member",
        "A static member that came back within its session lost its place",
        {"returns": "no static member of a group that reads it came back while nothing else disturbed the group"},
    ),
)

PRODUCERS = (
    Spec(
        "resend-offset",
        "A batch sent again was acknowledged at another offset",
        "black-box",
        {"acknowledged_again": "no batch was acknowledged twice"},
        own=True,
    ),
    Spec(
        "producer-order",
        "A producer's batches out of order, or refused although next",
        "black-box",
        {"acknowledged_batches": "no batch with a sequence was acknowledged"},
        own=True,
    ),
    Spec(
        "producer-sequence",
        "Rule 12: a producer's sequences go on along every log",
        "white-box",
        {"batches": "no batch with a sequence"},
        ("segments",),
        own=True,
    ),
    Spec(
        "open-transaction",
        "Rule 13: one open transaction a producer, ended by its marker",
        "white-box",
        {"transactional_batches": "no batch of a transaction", "markers": "no marker"},
        ("segments", "history"),
        own=True,
    ),
)
"""Of producers with ids and sequences: workloads that have such producers name them."""

_DRAINED = {"group_drained": "the group was not seen to commit the last record"}
APPLICATIONS = (
    own(
        "at-most-once",
        "At most once: no record is processed twice",
        {"processed": "nothing of it was processed", **_DRAINED},
    ),
    own(
        "at-least-once",
        "At least once: every acknowledged record is processed",
        {"processed": "nothing of it was processed", **_DRAINED},
    ),
)

DELETIONS = (
    own(
        "deleted-records",
        "Deleted records: shown again, or a log start that went back",
        {
            "settled_deletions": "no deletion was acknowledged of which a broker surely knew",
            "refused_deletions": "no deletion beyond the log's end was refused",
            "reads_after_deletion": "nothing was read after an acknowledged deletion",
        },
    ),
)
"""Of workloads that delete records by request."""

STARTS = (
    Spec(
        "log-start",
        "Log starts: above what anything deleted, or below what was",
        "white-box",
        {"starts": "no replica's log"},
        ("segments", "history"),
        own=True,
    ),
)
"""Of systems whose replicas' files are copied."""

LOOKUPS = (
    own(
        "wrong-lookup",
        "A lookup by time found another record than the first as new",
        {"lookups_judged": "no lookup by time was answered with a record whose timestamp is known"},
    ),
)
"""Of workloads that look offsets up by time, and say the timestamps of what they send."""

_CLEANED = {
    "keys_judged": "no key of a record that was in the log was looked for by a drain that came to its end",
    "cleaned": "no record had been cleaned away",
}
COMPACTION = (
    own("last-value", "The last value of a key is gone", _CLEANED),
    own("old-value", "An older value of a key came back", _CLEANED),
)

FOLLOWERS = (
    own(
        "follower-went-back",
        "A follower's watermark fell in one leader epoch",
        {
            "answers_with_records": "no follower returned a record",
            "answers_judged": "no follower answered twice in one leader epoch",
        },
    ),
)
"""Of workloads whose consumers read from followers."""

ALL = (
    *BLACK_BOX,
    *DRAINS,
    *WHITE_BOX,
    *PRODUCERS,
    *DELETIONS,
    *STARTS,
    *LOOKUPS,
    *TRANSACTIONS,
    *CYCLES,
    *GROUPS,
    *APPLICATIONS,
    *COMPACTION,
    *ADMIN,
    *REMADE,
    *FOLLOWERS,
)
BY_NAME: dict[str, Spec] = {spec.name: spec for spec in ALL}
