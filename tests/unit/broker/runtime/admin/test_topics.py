"""CreateTopics, from the request to the answer, where nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random

import pytest

from broker.config.settings import Settings
from broker.core.controller.cluster_state import Topic
from broker.model.ids import BrokerId
from broker.runtime.admin.topics import TopicHandlers
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.dynamic_broker_config import DynamicConfig
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

SETTINGS = Settings.parse({"zookeeper.connect": "x:1"})


class Worker:
    def submit(self, name: str, task: Callable[[], None]) -> None:
        task()


class Store:
    """No topic is there, and none may be made."""

    def create_topic(self, topic: Topic, config: Mapping[str, str]) -> bool:
        raise AssertionError("nothing is to be written")

    def being_deleted(self, name: str) -> bool:
        return False

    def broker_configs(self, broker: BrokerId) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return {}, {}


@pytest.fixture
def cache() -> MetadataCache:
    made = MetadataCache("c", "PLAINTEXT", lambda: 5, lambda topic: {}, lambda topic: None)
    endpoints = [UpdateMetadataEndpoint(9001, "h", "PLAINTEXT", 0)]
    live = [UpdateMetadataBroker(1, endpoints, None)]
    made.update(UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=5, live_brokers=live))
    return made


def create(cache: MetadataCache, topics: list[CreatableTopic], version: int = 7) -> list[CreatableTopicResult]:
    loop, worker, store = FakeLoop(), Worker(), Store()
    dynamic = DynamicConfig(SETTINGS, 1, store, worker, loop)
    handlers = TopicHandlers(SETTINGS, cache, store, worker, loop, lambda: True, Random(1), dynamic)
    slot = FakeSlot()
    body = CreateTopicsRequest(topics, 1000, True).encode(version)
    flexible = response_header_version(ApiKey.CREATE_TOPICS, version) == 1
    handlers.handle_create_topics(
        Request(ApiKey.CREATE_TOPICS, version, 1, "", memoryview(bytearray(body)), slot, flexible)
    )
    assert slot.response is not None
    return CreateTopicsResponse.decode(version, slot.response[5 if flexible else 4 :]).topics


def wanted(name: str, partitions: int = 1) -> CreatableTopic:
    return CreatableTopic(name, partitions, 1, [], [])


def test_topics_named_twice_are_refused_however_many_there_are(cache: MetadataCache) -> None:
    names = [f"t{number}" for number in range(50_000)]
    before = time.process_time()
    results = create(cache, [wanted(name) for name in names + names])
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
    # Comparing each name with each other would take minutes.
    assert time.process_time() - before < 20


def test_request_that_would_create_too_many_partitions_is_refused_from_there_on(cache: MetadataCache) -> None:
    results = create(cache, [wanted("a", 6000), wanted("b", 4001), wanted("c", 4000)])
    errors = {result.name: (result.error_code, result.error_message) for result in results}
    assert errors["a"] == (0, None)
    assert errors["b"] == errors["c"]
    assert errors["b"] == (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def test_request_that_names_too_many_topics_is_refused_as_a_whole(cache: MetadataCache) -> None:
    results = create(cache, [wanted(f"t{number}") for number in range(10_001)])
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize("version", [2, 4, 7])
def test_refusal_of_a_name_as_long_as_a_string_can_be_is_sayable_in_every_version(
    cache: MetadataCache, version: int
) -> None:
    name = "é" * 16_383
    results = {result.name: result for result in create(cache, [wanted(name), wanted("t")], version)}
    assert results[name].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert results["t"].error_code == 0
