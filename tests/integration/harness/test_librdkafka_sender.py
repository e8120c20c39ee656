"""What a producer of librdkafka's says of a record whose request may have been taken, over real TCP."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.wire.api import ADVERTISED, ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.headers import RequestHeader
from broker.wire.messages import produce
from broker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.wire.messages.init_producer_id import InitProducerIdResponse
from harness.clients.connection import Address
from harness.workloads.real_clients.librdkafka import LibrdkafkaSender
from harness.workloads.real_clients.options import Options
from harness.workloads.real_clients.settings import Settings
from tests.integration.harness.fake_broker import _SERVED, FakeBroker

pytestmark = pytest.mark.guarantee("H4")


class GoneAfterAppend(FakeBroker):
    """Hands out a producer's id; takes one batch, is gone with the answer, and says no more to who comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.client_is_back = threading.Event()

    def _answer(self, api: ApiKey, header: RequestHeader, body: memoryview) -> bytes | None:
        match api:
            case ApiKey.API_VERSIONS if self.partitions[0].leo:
                self.client_is_back.set()
                return None
            case ApiKey.API_VERSIONS:
                keys = [ApiVersion(key, *ADVERTISED[key]) for key in (*_SERVED, ApiKey.INIT_PRODUCER_ID)]
                return ApiVersionsResponse(api_keys=keys).encode(header.api_version)
            case ApiKey.INIT_PRODUCER_ID:
                return InitProducerIdResponse(producer_id=7, producer_epoch=0).encode(header.api_version)
        answer = super()._answer(api, header, body)
        if api is not ApiKey.PRODUCE:
            return answer
        self.drop_connections()
        return None


class DeposedAfterAppend(FakeBroker):
    """Takes the first batch, and answers as a leader that is deposed while it waits for followers; then it leads."""

    def _produce(self, version: int, request: produce.ProduceRequest) -> bytes | None:
        answer = super()._produce(version, request)
        if self.partitions[0].leo > 1:
            return answer
        results = [
            produce.ProducePartitionResult(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            for topic, index, _ in request.partitions
        ]
        return produce.encode_response(version, results)


@pytest.fixture
def broker() -> Iterator[GoneAfterAppend]:
    fake = GoneAfterAppend()
    yield fake
    fake.close()


def test_record_that_waits_to_be_sent_once_more_may_be_in_the_log(broker: GoneAfterAppend) -> None:
    bootstrap = [Address("127.0.0.1", broker.port)]
    settings = Settings(bootstrap, "hw", "hw", 1, 100, 3000, -1, 1, replace(Options(), promise="at-least-once"))
    delivered: list[tuple[object, ...]] = []
    sender = LibrdkafkaSender(settings, 0, lambda *found: delivered.append(found))
    sender.send(7, 0, b"x")
    end_s = time.monotonic() + 20
    while not broker.client_is_back.is_set() and time.monotonic() < end_s:
        sender.serve(0.1)
    # It has put the record back into its queue before it connects once more.
    assert (broker.client_is_back.is_set(), broker.partitions[0].leo) == (True, 1)
    # What a fatal error of the client does; the producer is dropped at once.
    sender.broken = True
    sender.finish(1)
    assert delivered == [(7, "info", "client-error", None)]


def test_producer_without_retries_sends_again_what_a_deposed_leader_had_taken() -> None:
    """librdkafka takes it that who is no leader has appended nothing, and counts no try: the record stands twice."""
    fake = DeposedAfterAppend()
    settings = Settings(
        [Address("127.0.0.1", fake.port)], "hw", "hw", 1, 100, 8000, -1, 1, replace(Options(), promise="at-most-once")
    )
    delivered: list[tuple[object, ...]] = []
    sender = LibrdkafkaSender(settings, 0, lambda *found: delivered.append(found))
    sender.send(7, 0, b"x")
    sender.finish(8)
    fake.close()
    assert (delivered, fake.partitions[0].leo) == ([(7, "ok", None, 1)], 2)
