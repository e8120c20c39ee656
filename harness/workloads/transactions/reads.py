"""What transactional processes read: records under read_committed, and committed offsets.

Decides fields and what is kept of a response. Must not know why something is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from harness.clients import transactions as wire
from harness.clients.connection import Connection
from harness.clients.coordinators import GROUP
from harness.clients.fetch import fetch_one, poll_fields
from harness.clients.transactions import TopicPartition
from harness.operations.op import Outcome
from harness.workloads.transactions.requests import Request, Response
from harness.workloads.transactions.session import name_of, offsets_as_written

MAX_WAIT_MS = 100


Got = Callable[[Mapping[str, Any] | None, str | None], None]
"""Called with the fields of an ok completion, or with None and the error."""


class Reader(NamedTuple):
    """Who polls, as the history names it. txn: the transaction that reads. group: whose offsets it goes by."""

    consumer: str
    txn: int
    group: str | None = None


def poll_request(
    reader: Reader,
    home: TopicPartition,
    position: int,
    max_bytes: int,
    got: Got,
) -> Request:
    """A poll under read_committed."""

    def exchange(connection: Connection, fields: Mapping[str, object], deadline_ns: int) -> Response:
        epoch = fields["leader_epoch"]
        assert isinstance(epoch, int)
        found = fetch_one(
            connection,
            *home,
            position=position,
            leader_epoch=epoch,
            isolation=1,
            max_wait_ms=MAX_WAIT_MS,
            max_bytes=max_bytes,
            deadline_ns=deadline_ns,
        )
        if found.error is not None:
            return found.error, found.at_ns, {}
        return None, found.at_ns, poll_fields(found)

    def then(outcome: Outcome, error: str | None, found: Mapping[str, object]) -> None:
        got(found if outcome == "ok" else None, error)

    fields: dict[str, object] = {
        "position": position,
        "isolation": 1,
        "reader": "wire",
        "consumer": reader.consumer,
        "max_bytes": max_bytes,
        "txn": reader.txn,
        **({} if reader.group is None else {"group": reader.group}),
    }
    return Request("poll", fields, exchange, then, home=home, names_epoch=True)


def fetch_offsets_request(group: str, partitions: Sequence[TopicPartition], got: Got) -> Request:
    """OffsetFetch of stable offsets."""

    def exchange(connection: Connection, _fields: Mapping[str, object], deadline_ns: int) -> Response:
        found = wire.fetch_offsets(connection, group, partitions, deadline_ns)
        if found.error is not None:
            return found.error, found.at_ns, {}
        return None, found.at_ns, {"offsets": offsets_as_written(found.offsets)}

    def then(outcome: Outcome, error: str | None, found: Mapping[str, object]) -> None:
        got(found if outcome == "ok" else None, error)

    fields = {"group": group, "partitions": [name_of(one) for one in partitions]}
    return Request("fetch_offsets", fields, exchange, then, coordinator=(GROUP, group))
