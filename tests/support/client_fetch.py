"""Fetch requests of a client to broker 1, and the answers to them."""

from __future__ import annotations

from typing import Any

from broker.wire.api import ApiKey
from broker.wire.messages import fetch
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, FakeSlot


def fetch_request(cluster: MemoryCluster, **fields: Any) -> FakeSlot:
    body = fetch.encode_request(12, fetch.FetchRequest(**fields))
    return cluster.request(1, ApiKey.FETCH, 12, body)


def answer_of(slot: FakeSlot) -> fetch.FetchResponse:
    assert slot.response is not None, "not answered yet"
    return fetch.decode_response(12, memoryview(slot.response)[5:])


def position(offset: int, **fields: Any) -> fetch.FetchPartition:
    return fetch.FetchPartition(topic=TOPIC, partition=0, fetch_offset=offset, **fields)
