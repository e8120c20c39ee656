"""What a member does with what it is given: commit and then process, or process and then commit.

Decides the order, and what an error of a commit means. Must not know how records are gathered. A record is *processed*
with its `process` operation. Under at-most-once nothing is processed whose commit did not come out well: it is lost to
the group. Under at-least-once a commit that did not come out well is tried again with the next, and the records of it
may be processed again, by whoever owns the partition then. The third promise is `exactly_once`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from harness.operations import outcomes
from harness.workloads.groups.offsets import offsets_field
from harness.workloads.real_clients.consumer import Member
from harness.workloads.real_clients.options import ASYNC, AT_MOST_ONCE
from harness.workloads.real_clients.ports import CallFailed, Record
from harness.workloads.real_clients.record import Begun


class Reached:
    """How far the group has come for good: the highest offset whose commit came out well, by partition. Any thread."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}

    def at_least(self, offsets: Mapping[int, int]) -> None:
        """These were committed."""
        for partition, offset in offsets.items():
            self.offsets[partition] = max(offset, self.offsets.get(partition, 0))


def ends_of(records: Sequence[Record]) -> dict[int, int]:
    """Partition → the offset to commit once these are done with."""
    return {record.partition: record.offset + 1 for record in records}


def note_processed(member: Member, records: Sequence[Record], promise: str) -> None:
    """The records are processed, partition by partition."""
    by_partition: dict[int, list[int]] = {}
    for record in records:
        if record.value is not None:
            by_partition.setdefault(record.partition, []).append(record.value)
    for partition, values in by_partition.items():
        fields = {**member.identity, "consumer": member.consumer_name(partition), "promise": promise, "values": values}
        member.process.at_once("process", (member.settings.topic, partition), fields)


class Committing:
    """At-most-once and at-least-once; implements `consumer.Processing`."""

    def __init__(self, promise: str, reached: Reached) -> None:
        self._promise = promise
        self._reached = reached
        self._later: tuple[Begun, Member] | None = None

    def take(self, member: Member, records: Sequence[Record]) -> None:
        """In the order of the promise."""
        member.uncommitted.update(ends_of(records))
        if self._promise == AT_MOST_ONCE:
            if self._commit(member):
                note_processed(member, records, self._promise)
        else:
            note_processed(member, records, self._promise)
            if member.settings.options.commits == ASYNC:
                self._commit_later(member)
            else:
                self._commit(member)

    def _commit_later(self, member: Member) -> None:
        """One at a time: what comes meanwhile goes with the next."""
        if self._later is not None or not member.uncommitted or not member.consumer.member:
            return
        offsets = dict(member.uncommitted)
        self._later = self._begin(member, offsets), member
        try:
            member.consumer.commit_later(offsets, partial(self._committed, offsets))
        except CallFailed as failed:
            self._committed(offsets, failed.error)

    def _committed(self, offsets: Mapping[int, int], error: str | None) -> None:
        later, self._later = self._later, None
        # It came in while the member closed, and is unknown by then.
        if later is None:
            return
        begun, member = later
        if error is not None:
            member.process.complete(begun, "info", error)
            return
        member.process.complete(begun, "ok")
        self._reached.at_least(offsets)
        for partition, offset in offsets.items():
            if member.uncommitted.get(partition) == offset:
                del member.uncommitted[partition]

    @staticmethod
    def _begin(member: Member, offsets: Mapping[int, int]) -> Begun:
        fields = {**member.identity, "offsets": offsets_field(member.settings.topic, offsets)}
        return member.process.invoke("commit_offsets", None, fields)

    def _commit(self, member: Member) -> bool:
        """Whether everything that is uncommitted is committed now."""
        if not member.uncommitted:
            return True
        if not member.consumer.member:
            # Of no member, and so of no generation, the commit of an empty group is taken whenever it comes.
            return False
        offsets = dict(member.uncommitted)
        begun = self._begin(member, offsets)
        try:
            member.consumer.commit(offsets)
        except CallFailed as failed:
            # The client may have sent several requests, of which the last alone has said what became of it.
            member.process.complete(begun, "info", failed.error)
            return False
        member.process.complete(begun, "ok")
        member.uncommitted.clear()
        self._reached.at_least(offsets)
        return True

    def close(self) -> None:
        """What became of a commit under way is not known."""
        if self._later is not None:
            self._committed({}, outcomes.TIMEOUT)
