"""What settled records add to the figures of the black-box families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from checkers.black_box.availability import AVAILABILITY
from checkers.verdicts.verdict import Row

_ACKED, _FOUND = ("acked",), ("acked", "found")
_SENT = ("acked", "found", "unknown", "failed")
ADDED: Mapping[tuple[str, str], Sequence[str]] = {
    ("fabricated-value", "records_read"): ("reads",),
    ("aborted-read", "records_read"): ("reads",),
    ("aborted-read", "failed_sends"): ("failed",),
    ("duplicate", "values_read"): _FOUND,
    ("inconsistent-offset", "offsets_known"): _FOUND,
    ("inconsistent-offset", "offsets_read"): _FOUND,
    ("vanished-read", "offsets_read"): _FOUND,
    ("lost-write", "acknowledged"): _ACKED,
    ("lost-write", "read"): _ACKED,
    ("lost-write", "unknown_sends"): ("found", "unknown"),
    ("lost-write", "recovered_unknown"): ("found",),
    ("lost-write", "records_read"): ("reads",),
    ("lost-tail", "acknowledged"): _ACKED,
    ("unseen", "acknowledged"): _ACKED,
    ("nonmonotonic-send", "acknowledged"): _ACKED,
    ("int-nonmonotonic-send", "values_sent"): _SENT,
    ("int-nonmonotonic-send", "batches_sent"): ("batches", "silent_batches"),
    ("int-nonmonotonic-send", "batches_read"): ("batches",),
    ("torn-batch", "values_sent"): _SENT,
    ("torn-batch", "batches_sent"): ("batches", "silent_batches"),
    ("torn-batch", "batches_read"): ("batches",),
    ("real-time-order", "records_ordered"): _FOUND,
    ("confluent-repeat", "records_compared"): ("compared",),
}
"""(checker, figure) → the counts of `Settled.counts` that it has besides."""


def with_settled(
    rows: Sequence[Row], counts: Mapping[str, Mapping[str, int]], available: Mapping[str, Mapping[str, float]]
) -> list[Row]:
    """Rows of the families over what is not settled, with figures of the whole. available: those of availability."""
    left = {
        (checker, name, p): sum(of_p.get(count, 0) for count in added)
        for (checker, name), added in ADDED.items()
        for p, of_p in counts.items()
    }
    whole = []
    for row in rows:
        more = left.pop((row.checker, row.detail, row.p or ""), 0) if row.kind == "figure" else 0
        whole.append(replace(row, figure=row.figure + more) if more else row)
    whole += [
        Row(checker, "figure", p, 1, detail=name, figure=float(more))
        for (checker, name, p), more in left.items()
        if more
    ]
    return whole + [
        Row(AVAILABILITY, "figure", p, 1, detail=name, figure=figure)
        for p, of_p in available.items()
        for name, figure in of_p.items()
    ]
