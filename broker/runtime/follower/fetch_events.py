"""Event log lines of a follower's fetches: what it requested of which leader, and what came back. docs/event-log.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.model.ids import BrokerId
from broker.runtime.event_log import EventLog
from broker.runtime.follower.partition_fetch_state import FetchKey, PartitionFetchState
from broker.wire.messages.fetch import FetchPartition, FetchPartitionResult


def log_sent(
    event_log: EventLog, leader: BrokerId, rid: str, named: Sequence[tuple[PartitionFetchState, FetchPartition]]
) -> None:
    """rid: id of the request in both brokers' event logs."""
    event_log.emit(
        "fetch_sent",
        rid=rid,
        leader=leader,
        parts=[
            [
                state.replica.event_name,
                requested.fetch_offset,
                requested.current_leader_epoch,
                requested.last_fetched_epoch,
            ]
            for state, requested in named
        ],
    )


def log_response(
    event_log: EventLog,
    leader: BrokerId,
    rid: str,
    results: Sequence[FetchPartitionResult],
    partitions: Mapping[FetchKey, PartitionFetchState],
) -> None:
    """Results for partitions that are not fetched any more are left out."""
    parts: list[list[object]] = []
    for result in results:
        state = partitions.get((result.topic_id, result.partition))
        if state is not None:
            parts.append(
                [
                    state.replica.event_name,
                    result.error,
                    result.high_watermark,
                    len(result.records_view),
                    result.diverging_epoch,
                    result.diverging_end_offset,
                ]
            )
    event_log.emit("fetch_answered", rid=rid, leader=leader, parts=parts)
