"""What a member commits: what it has handed out, and nothing behind that, whatever ends it. And what the deletion of
one of its topics leaves: the others are read, and committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import pytest

from broker.tools.client import committed_reads, fetcher
from broker.tools.client.admin import TopicPartition
from broker.tools.client.cluster import Cluster
from broker.tools.client.connection import Connection
from broker.tools.client.consumer import Consumer
from broker.tools.client.errors import BrokerError
from broker.tools.client.fetcher import Fetcher, _Request, fetch_settings
from broker.tools.client.membership import Membership, group_settings
from broker.tools.client.properties import Properties
from broker.wire.errors import ErrorCode
from broker.wire.messages.fetch import FetchPartitionResult, encode_response
from broker.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.wire.records import NewRecord, encode_batch
from tests.support.chunks import chunk_view

_VERSION = 12
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_BOTH: list[TopicPartition] = [("t", 0), ("t", 1)]


class _Answer:
    """A connection on which the response to a Fetch is there."""

    address = "broker"

    def __init__(self, results: list[FetchPartitionResult]) -> None:
        self._body = b"".join(bytes(chunk_view(chunk)) for chunk in encode_response(_VERSION, results))

    def poll(self) -> memoryview:
        return memoryview(self._body)

    def close(self) -> None: ...


class _Member:
    """A membership that is what it is, and keeps what was committed."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}

    def join(self) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(_BOTH, 5)

    def heartbeat(self) -> bool:
        return True

    def wait(self) -> float:
        return 1.0

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        self.committed = dict(positions)

    def leave(self) -> None: ...


def _records(partition: int, base: int = 5) -> FetchPartitionResult:
    batch = encode_batch([NewRecord(None, b"r")] * 3, timestamps=1, base_offset=base)
    return FetchPartitionResult("t", "", partition, 0, 100, 100, 0, None, -1, (batch,))


def _error(partition: int) -> FetchPartitionResult:
    return FetchPartitionResult("t", "", partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _consumer(monkeypatch: pytest.MonkeyPatch, *results: FetchPartitionResult) -> tuple[Consumer, _Member]:
    """One that has joined, and to whose Fetch these are the response."""
    made = Consumer(
        cast(Cluster, None),
        fetch_settings(Properties({})),
        topics=["t"],
        group=group_settings(Properties({"group.id": "g"})),
        commit_interval=60.0,
    )
    member = _Member()
    made._membership = cast(Membership, member)
    made._look_again_at = float("inf")
    made._upkeep()
    monkeypatch.setattr(made._fetcher, "_look_up", lambda: None)
    made._fetcher._requests[1] = _Request(cast(Connection, _Answer(list(results))), _VERSION, float("inf"), _BOTH)
    return made, member


def test_what_was_handed_out_is_committed_as_far_as_the_caller_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, member = _consumer(monkeypatch, _records(0), _records(1))
    chunks = consumer.poll(0.0)
    assert [(chunk.where, chunk.start, chunk.next_offset) for chunk in chunks] == [(("t", 0), 5, 8), (("t", 1), 5, 8)]
    consumer.consumed["t", 0] = 7
    consumer.close()
    assert member.committed == {("t", 0): 7, ("t", 1): 5}


def test_records_that_an_error_keeps_from_being_handed_out_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, member = _consumer(monkeypatch, _records(0), _error(1))
    with pytest.raises(BrokerError):
        consumer.poll(0.0)
    consumer.close()
    assert member.committed == {("t", 0): 5, ("t", 1): 5}


def test_records_that_a_signal_keeps_from_being_handed_out_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, member = _consumer(monkeypatch, _records(0), _records(1))
    visible, seen = committed_reads.visible, 0

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise KeyboardInterrupt
        return visible(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fetcher, "visible", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(0.0)
    consumer.close()
    assert member.committed == {("t", 0): 5, ("t", 1): 5}


class _Metadata:
    """A cluster of one broker that knows some topics, and takes commits of them alone."""

    def __init__(self, *topics: str) -> None:
        self._topics = topics
        self.settings = None

    def metadata_once(self, topics: list[str], deadline: float) -> MetadataResponse:
        return MetadataResponse(
            topics=[
                MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)])
                if name in self._topics
                else MetadataResponseTopic(_UNKNOWN, name)
                for name in topics
            ]
        )

    def coordinator(
        self,
        what: str,
        kind: int,
        key: str,
        request: OffsetCommitRequest,
        response: object,
        verify: Callable[[OffsetCommitResponse], None],
    ) -> None:
        errors = {topic.name: 0 if topic.name in self._topics else _UNKNOWN for topic in request.topics}
        verify(
            OffsetCommitResponse(
                topics=[
                    OffsetCommitResponseTopic(name, [OffsetCommitResponsePartition(0, error)])
                    for name, error in errors.items()
                ]
            )
        )


def test_leaders_are_looked_up_also_while_a_topic_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    made = Fetcher(cast(Cluster, _Metadata("there")), fetch_settings(Properties({})))
    made.assign({("there", 0): 5, ("gone", 0): 5})
    made._look_up()
    assert made._leaders == {("there", 0): 1}
    assert "gone" in capsys.readouterr().err


def test_commit_goes_on_without_a_topic_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    settings = group_settings(Properties({"group.id": "g"}))
    member = Membership(cast(Cluster, _Metadata("there")), settings, dict)
    member._joined = True
    member.commit({("there", 0): 5, ("gone", 0): 5})
    assert "gone-0" in capsys.readouterr().err
