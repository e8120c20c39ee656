"""What is kept for the next request is bounded in bytes too, whatever names a client makes up."""

from __future__ import annotations

import pytest

from broker.wire.api import SUPPORTED, ApiKey
from broker.wire.headers import decode_request_header, encode_request_header, usual_request_header
from broker.wire.messages.produce import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.support.kept import kept_bytes

pytestmark = pytest.mark.guarantee("bounded-queues")

LONG = 30_000
NAMES = 100
KEPT_MAX = NAMES * LONG // 10
PRODUCE_VERSIONS = range(SUPPORTED[ApiKey.PRODUCE].first, SUPPORTED[ApiKey.PRODUCE].last + 1)


def long_names() -> list[str]:
    return [f"{number:05}".ljust(LONG, "x") for number in range(NAMES)]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_responses_for_topics_with_endless_names_are_not_kept(version: int) -> None:
    def answer_all() -> None:
        for name in long_names():
            result = ProducePartitionResult(name, 0, 3, -1)
            body = encode_response(version, [result])
            assert decode_response(version, memoryview(body)).results == [result]

    assert kept_bytes(answer_all) < KEPT_MAX


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_requests_for_topics_with_endless_names_are_not_kept(version: int) -> None:
    def read_all() -> None:
        for name in long_names():
            part = ProducePartition(name, 0, memoryview(bytearray(b"records")))
            body = encode_request(version, ProduceRequest(None, 1, 1000, [part]))
            assert decode_request(version, memoryview(bytearray(body))).partitions[0].topic == name

    assert kept_bytes(read_all) < KEPT_MAX


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("length", [1, 126, 127, 249, 250, 300])
def test_produce_response_is_the_same_for_short_and_long_names(version: int, length: int) -> None:
    result = ProducePartitionResult("n" * length, 3, 0, 17)
    assert decode_response(version, memoryview(encode_response(version, [result]))).results == [result]


def test_endless_client_ids_are_not_kept() -> None:
    def read_all() -> None:
        for name in long_names():
            frame = memoryview(encode_request_header(ApiKey.FETCH, 12, 7, name) + b"body")
            assert usual_request_header(frame) is None, "it is read with care"
            assert decode_request_header(frame).client_id == name

    assert kept_bytes(read_all) < KEPT_MAX


@pytest.mark.parametrize("length", [0, 1, 255, 256, 30_000])
def test_client_id_of_any_length_is_read_and_bad_bytes_are_shown(length: int) -> None:
    frame = bytearray(encode_request_header(ApiKey.FETCH, 4, 7, "c" * length) + b"body")
    if length:
        frame[10] = 0xFF
    seen = decode_request_header(memoryview(frame))
    assert seen.client_id == ("\ufffd" + "c" * (length - 1) if length else "")
    assert frame[seen.body_start :] == b"body"
