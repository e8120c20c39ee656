"""Blocks of producer ids: no id twice, and no failure where another try would do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.zk import paths
from broker.zk.client import SessionExpired, ZkClient
from broker.zk.registration import end_session, prepare
from broker.zk.session_file import RecordedSession
from broker.zk.topic_store import ZkTopicStore
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.guarantee("idempotent-producers")

Connect = Callable[..., ZkClient]


@pytest.fixture
def client(connect: Connect) -> ZkClient:
    client = connect()
    prepare(client)
    return client


def test_block_is_claimed_over_the_end_of_the_session(
    server: ZooKeeperServer, client: ZkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, write = client.credentials, client.set
    assert first is not None

    def ends_before(path: str, data: bytes, version: int) -> int:
        if client.session_id == first[0]:
            end_session(server.connect, RecordedSession(*first))
        return write(path, data, version)

    monkeypatch.setattr(client, "set", ends_before)
    assert ZkTopicStore(client, 1).claim_producer_ids() == (0, 999)
    assert client.session_id != first[0]


def test_claim_that_landed_in_a_session_that_ended_costs_its_block(
    client: ZkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, write = ZkTopicStore(client, 1), client.set
    lost: list[str] = []

    def lands(path: str, data: bytes, version: int) -> int:
        done = write(path, data, version)
        if not lost:
            lost.append(path)
            raise SessionExpired(path)
        return done

    monkeypatch.setattr(client, "set", lands)
    assert store.claim_producer_ids() == (1000, 1999)
    assert store.claim_producer_ids() == (2000, 2999)
    assert lost == [paths.PRODUCER_ID_BLOCK]


def test_sessions_that_end_without_end_are_reported(client: ZkClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def ends(path: str, data: bytes, version: int) -> int:
        tries.append(path)
        raise SessionExpired(path)

    monkeypatch.setattr(client, "set", ends)
    with pytest.raises(SessionExpired):
        ZkTopicStore(client, 1).claim_producer_ids()
    assert 1 < len(tries) < 100
