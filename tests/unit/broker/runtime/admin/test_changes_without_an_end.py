"""What a client is told whose change of settings, or of a number of partitions, came to no known end in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from broker.config.settings import Settings
from broker.core.admin.stored import StoredConfig, StoredTopic
from broker.core.controller.cluster_state import StoreUnavailable, Topic, WriteUnknown
from broker.runtime.admin.alter_configs import AlterConfigHandlers
from broker.runtime.admin.create_partitions import PartitionHandlers
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementallyAlterableConfig,
    IncrementallyAlteredResource,
)
from broker.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

AWAY = "ZooKeeper cannot be reached."
UNKNOWN = (
    "ZooKeeper's response to the write was lost, and somebody else has written there since: the change may have been"
    " made, and overwritten."
)
CONTENDED = "Others changed the same at once, again and again; nothing was written."
Outcome = Callable[[], bool]


class Worker:
    def submit(self, name: str, task: Callable[[], None]) -> None:
        task()


class Store:
    """A topic of one partition, without settings. written: what comes of a write."""

    def __init__(self, written: Outcome) -> None:
        self._written = written

    def read_topic(self, name: str) -> StoredTopic:
        return StoredTopic(Topic(name, "id", {0: (1,)}), b"", 0)

    def write_topic(self, read: StoredTopic, topic: Topic) -> bool:
        return self._written()

    def being_deleted(self, name: str) -> bool:
        return False

    def read_config(self, entity: str) -> StoredConfig:
        return StoredConfig(entity, {}, None, -1)

    def write_config(self, read: StoredConfig, config: Mapping[str, str]) -> bool:
        return self._written()

    def notify_config(self, entity: str) -> None:
        raise AssertionError("there is a change")


def _away() -> bool:
    raise StoreUnavailable("no answer")


def _overtaken() -> bool:
    raise WriteUnknown("bad-version")


def _answered(api: ApiKey, version: int, body: bytes, loop: FakeLoop, handle: Callable[[Request], None]) -> memoryview:
    slot = FakeSlot()
    handle(Request(api, version, 1, "", memoryview(bytearray(body)), slot, True))
    loop.run_soon()
    assert slot.response is not None
    return memoryview(slot.response)[5:]


@pytest.mark.parametrize(
    ("written", "told"),
    [(_away, AWAY), (_overtaken, UNKNOWN), (lambda: False, CONTENDED)],
    ids=["away", "lost", "busy"],
)
def test_client_is_told_what_became_of_its_change(written: Outcome, told: str) -> None:
    loop, store = FakeLoop(), Store(written)
    alter = AlterConfigHandlers(
        Settings.parse({"zookeeper.connect": "x:1"}), 1, store, Worker(), loop, lambda topic: True
    )
    edit = IncrementallyAlterableConfig("retention.ms", 0, "1000")
    body = IncrementalAlterConfigsRequest([IncrementallyAlteredResource(2, "t", [edit])]).encode(1)
    answer = _answered(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body, loop, alter.handle_incremental_alter_configs)
    (one,) = IncrementalAlterConfigsResponse.decode(1, answer).responses
    assert (one.error_code, one.error_message) == (ErrorCode.REQUEST_TIMED_OUT, told)

    cache = MetadataCache("c", "PLAINTEXT", lambda: 5, lambda topic: {}, lambda topic: None)
    live = [UpdateMetadataBroker(1, [UpdateMetadataEndpoint(9001, "h", "PLAINTEXT", 0)], None)]
    cache.update(UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=5, live_brokers=live))
    grow = PartitionHandlers(cache, store, Worker(), loop, lambda: True)
    wanted = CreatePartitionsTopic("t", 2, None)
    body = CreatePartitionsRequest([wanted], 1000, False).encode(2)
    answer = _answered(ApiKey.CREATE_PARTITIONS, 2, body, loop, grow.handle_create_partitions)
    (grown,) = CreatePartitionsResponse.decode(2, answer).results
    assert (grown.error_code, grown.error_message) == (ErrorCode.REQUEST_TIMED_OUT, told)
