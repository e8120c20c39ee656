"""Fetch requests of a client to broker 1, and the answers to them."""

from __future__ import annotations

from typing import Any

from broker.wire.api import ApiKey
from broker.wire.messages import fetch
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, TOPIC_ID, FakeSlot


def fetch_request(cluster: MemoryCluster, broker: int = 1, version: int = 12, **fields: Any) -> FakeSlot:
    body = fetch.encode_request(version, fetch.FetchRequest(**fields))
    return cluster.request(broker, ApiKey.FETCH, version, body)


def answer_of(slot: FakeSlot, version: int = 12) -> fetch.FetchResponse:
    assert slot.response is not None, "not answered yet"
    return fetch.decode_response(version, memoryview(slot.response)[5:])


def position(offset: int, **fields: Any) -> fetch.FetchPartition:
    return fetch.FetchPartition(topic=TOPIC, partition=0, fetch_offset=offset, **fields)


def position_by_id(offset: int, topic_id: str = TOPIC_ID, **fields: Any) -> fetch.FetchPartition:
    return fetch.FetchPartition(topic_id=topic_id, partition=0, fetch_offset=offset, **fields)
