"""The part of the catalogue that is about transactions."""

from __future__ import annotations

from checkers.verdicts.spec import own

_SHOWN = {"committed_reads": "no poll under read_committed returned a value of a transaction"}
_COMMITTED = {
    "committed_values": "no value of a committed transaction has a known offset",
    "committed_drains": "no drain under read_committed came to its end",
}

TRANSACTIONS = (
    own(
        "aborted-transaction-read",
        "Aborted read (G1a): read_committed showed a value of an aborted transaction",
        {**_SHOWN, "aborted_values": "no value of an aborted transaction has a known offset"},
    ),
    own("precommitted-read", "Precommitted read: shown by read_committed before its commit was asked for", _SHOWN),
    own("torn-transaction", "Torn transaction: read_committed shows a part of a committed transaction", _COMMITTED),
    own("committed-lost", "Committed and lost: read_committed shows nothing of a committed transaction", _COMMITTED),
    own(
        "last-stable-offset",
        "Last stable offsets never fall, nor lie above the high watermark, or what is still open",
        {
            "answers_with_lso": "no response in a known leader epoch carried a last stable offset",
            "behind": "no last stable offset was seen below its high watermark",
        },
    ),
    own(
        "hanging-transaction",
        "Hanging transaction: nothing ends it",
        {"ended": "the last stable offset was not seen to reach the high watermark at the end"},
    ),
    own(
        "transaction-offsets",
        "Offsets that transactions commit count once, and only where, they are committed",
        {
            "offsets_committed": "no transaction committed an offset",
            "offsets_fetched": "no committed offset was fetched",
        },
    ),
    own(
        "exactly-once",
        "Exactly once: each input below the committed offset is reflected in one output",
        {
            "once": "no input below a committed offset is reflected in an output",
            "final_offsets": "the last committed offset is not known",
        },
    ),
    own(
        "fenced-producer",
        "Fenced producer: acknowledged after another one had its transactional id",
        {"requests_too_late": "no request of a producer that another one had replaced was tried"},
    ),
)

_ENDS = {"reads_to_the_end": "no poll under read_committed read to the end before a transaction wrote more"}
CYCLES = (
    own(
        "g0",
        "Write cycle (G0): transactions wrote around each other",
        {"writes_in_order": "no record of a committed transaction stands before one of another"},
    ),
    own(
        "g1b",
        "Intermediate read (G1b): a part of a transaction was read",
        {"transactions_read": "no poll under read_committed returned a value of a committed transaction"},
    ),
    own(
        "g1c",
        "Circular information flow (G1c): transactions read and wrote around each other",
        {"read_by_transactions": "no committed transaction read a value of another one"},
    ),
    own("g-single", "Read skew (G-single): a transaction read before and after another one", _ENDS),
    own("g2", "Anti-dependency cycle (G2): transactions read before each other's writes", _ENDS),
)
"""Of transactions that may depend on each other in a circle."""
