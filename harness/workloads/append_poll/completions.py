"""How one request came out, as the completion of its operation.

Decides outcome and fields (docs/history-format.md). Must not know who asked.
"""

from __future__ import annotations

from harness.clients.deletions import Deleted
from harness.clients.fetch import Polled, poll_fields
from harness.clients.requests import Listed, Produced
from harness.operations import outcomes
from harness.operations.op import Completion


def of_send(produced: Produced) -> Completion:
    """Of one batch."""
    fields = {"base_offset": produced.base_offset} if produced.base_offset >= 0 else {}
    return Completion(outcomes.send_outcome(produced.error), produced.at_ns, produced.error, fields)


def of_poll(polled: Polled) -> Completion:
    """Of one partition."""
    if polled.error is not None:
        return _refused(polled.error, polled.at_ns)
    return Completion("ok", polled.at_ns, None, poll_fields(polled))


def of_list_offsets(listed: Listed, timestamp: int) -> Completion:
    """timestamp: what was asked for; of a time, not of one of the log's ends, the answer has one too."""
    if listed.error is not None:
        return _refused(listed.error, listed.at_ns)
    fields = {"offset": listed.offset, "leader_epoch_answered": listed.leader_epoch}
    if timestamp >= 0:
        fields["timestamp_answered"] = listed.timestamp
    return Completion("ok", listed.at_ns, None, fields)


def of_deletion(deleted: Deleted) -> Completion:
    """Of one partition."""
    fields = {} if deleted.error is not None else {"low_watermark": deleted.low_watermark}
    return Completion(outcomes.deletion_outcome(deleted.error), deleted.at_ns, deleted.error, fields)


def _refused(error: str, at_ns: int) -> Completion:
    return Completion(outcomes.read_outcome(error), at_ns, error)
