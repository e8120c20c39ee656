from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.api import FLEXIBLE_FROM, SUPPORTED, ApiKey, is_supported, response_header_version
from broker.wire.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from broker.wire.primitives import MalformedFrame
from tests.support.examples import examples

STILL = examples()
VERSIONS = [(api, version) for api, (first, last) in SUPPORTED.items() for version in range(first, last + 1)]


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@pytest.mark.parametrize("client_id", [None, "", "broker-1-fetcher-ab"])
def test_request_header_every_version_roundtrips(api: ApiKey, version: int, client_id: str | None) -> None:
    raw = encode_request_header(api, version, 77, client_id) + b"body"
    header = decode_request_header(memoryview(raw))
    assert header[:4] == (api, version, 77, client_id)
    assert raw[header.body_start :] == b"body"


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_response_header_every_version_roundtrips(api: ApiKey, version: int) -> None:
    raw = encode_response_header(api, version, -5) + b"body"
    header = decode_response_header(api, version, memoryview(raw))
    assert header.correlation_id == -5
    assert raw[header.body_start :] == b"body"


def test_response_header_of_api_versions_is_always_version_0() -> None:
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in range(6)] == [0] * 6
    assert response_header_version(ApiKey.PRODUCE, FLEXIBLE_FROM[ApiKey.PRODUCE]) == 1


def test_request_header_of_a_future_api_versions_is_read() -> None:
    raw = encode_request_header(ApiKey.API_VERSIONS, 99, 1, "new-client")
    assert decode_request_header(memoryview(raw)).client_id == "new-client"


def test_request_header_tagged_fields_are_skipped() -> None:
    raw = encode_request_header(ApiKey.FETCH, 12, 1, "c")[:-1] + b"\x01\x07\x02zz" + b"body"
    assert raw[decode_request_header(memoryview(raw)).body_start :] == b"body"


@pytest.mark.parametrize("raw", [b"", bytes(9), b"\0\0\0\3\0\0\0\1\0\x05ab", b"\0\0\0\3\0\0\0\1\xff\x00"])
def test_request_header_short_or_negative_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_request_header(memoryview(raw))


@STILL
@given(st.binary(max_size=40))
def test_headers_arbitrary_bytes_are_malformed_or_read(raw: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        decode_request_header(memoryview(raw))
    with contextlib.suppress(MalformedFrame):
        decode_response_header(ApiKey.FETCH, 12, memoryview(raw))


def test_is_supported_unknown_api_or_version_is_false() -> None:
    assert is_supported(ApiKey.PRODUCE, 3)
    assert not is_supported(ApiKey.PRODUCE, 2)
    assert not is_supported(9999, 0)
