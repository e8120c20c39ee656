"""A leader whose session may have ended commits nothing and takes nothing, until it hears that the session goes on."""

from __future__ import annotations

import pytest

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.support.memory_cluster import fetched, produced
from tests.support.memory_node import TOPIC
from tests.support.settled_cluster import settled


def test_lost_registration_ends_every_role() -> None:
    cluster = settled()
    cluster.hold = lambda message: True
    slot = cluster.produce(1, "a")
    manager = cluster.nodes[1].up
    manager.resign_all()
    manager.end_of_turn()
    result = produced(slot)
    assert result is not None
    assert result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = fetched(cluster.fetch(1, 0))
    assert refused is not None
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_passed_session_deadline_commits_nothing_until_it_is_over() -> None:
    cluster = settled()
    cluster.hold = lambda message: message.kind == "request" and message.target == 1
    slot = cluster.produce(1, "a")
    cluster.nodes[1].up.replicas.set_session_deadline_passed(True)
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    assert produced(slot) is None
    sent_away = cluster.produce(1, "b")
    refused = produced(sent_away)
    assert refused is not None
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert sent_away.closed is not None, "its metadata would go on naming itself"
    cluster.nodes[1].up.replicas.set_session_deadline_passed(False)
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == 0


def test_leader_is_locally_fenced_from_the_very_moment_of_its_sessions_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = settled()
    cluster.hold = lambda message: message.kind == "request" and message.target == 1
    waiting = cluster.produce(1, "a")
    manager = cluster.nodes[1].up
    deadline = cluster.loop.now + 1
    monkeypatch.setattr(manager.replicas, "_session_deadline_ms", lambda: deadline)
    before = produced(cluster.produce(1, "b", acks=1))
    assert before is not None
    assert before.error == 0
    cluster.loop.now += 1
    # Nobody has told it so far: no timer has run.
    refused = produced(cluster.produce(1, "c", acks=1))
    assert refused is not None
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    assert produced(waiting) is None
    assert cluster.nodes[1].hw == 0
    monkeypatch.setattr(manager.replicas, "_session_deadline_ms", lambda: deadline + 10_000)
    manager.replicas.set_session_deadline_passed(False)
    cluster.settle()
    result = produced(waiting)
    assert result is not None
    assert result.error == 0


def test_locally_fenced_leader_puts_nobody_out_of_its_isr() -> None:
    """It may be deposed: who does not fetch from it may follow another leader."""
    cluster = settled()
    cluster.nodes[3].paused = True
    cluster.produce(1, "a")
    cluster.nodes[1].up.replicas.set_session_deadline_passed(True)
    cluster.advance(30_000)
    assert cluster.nodes[1].event_log.of("isr_propose") == []
    cluster.nodes[1].up.replicas.set_session_deadline_passed(False)
    cluster.advance(30_000)
    assert set(cluster.state.isr) == {1, 2}


def test_locally_fenced_leader_deletes_no_records() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.nodes[1].up.replicas.set_session_deadline_passed(True)
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 1)])
    slot = cluster.request(1, ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([topic], 1000).encode(2))
    assert slot.response is not None
    (result,) = DeleteRecordsResponse.decode(2, slot.response[5:]).topics[0].partitions
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.nodes[1].log.start == 0
