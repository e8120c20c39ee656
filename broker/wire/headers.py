"""Request and response headers.

The client id keeps its classic 16-bit length in every version, so that a broker can read the header of an ApiVersions
request in a newer version. `broker.net` reads the length before the header.
Source: RequestHeader.json, ResponseHeader.json; KIP-482; KIP-511.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from broker.wire.api import FLEXIBLE_FROM, NEVER_FLEXIBLE, request_header_version, response_header_version
from broker.wire.primitives import MalformedFrame, Reader, encode_uvarint

_FIXED = struct.Struct(">hhih")
_USUAL = struct.Struct(">Iih")
_CORRELATION_ID = struct.Struct(">i")
# As plain numbers: decoding a header is on every request's path.
_FLEXIBLE_FROM: Final = {int(api): version for api, version in FLEXIBLE_FROM.items()}
_USUAL_CLIENT_ID_MAX: Final = 255


class RequestHeader(NamedTuple):
    """body_start: where the request's body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_start: int


def decode_request_header(frame: memoryview) -> RequestHeader:
    """The header at the frame's start; raises MalformedFrame."""
    if len(frame) < _FIXED.size:
        raise MalformedFrame("request header", 0, len(frame), f"needs {_FIXED.size} bytes, so many are there")
    api_key, api_version, correlation_id, client_length = _FIXED.unpack_from(frame)
    position = _FIXED.size
    client_id: str | None = None
    if client_length >= 0:
        end = position + client_length
        if end > len(frame):
            raise MalformedFrame("client_id", 8, client_length, f"longer than the frame of {len(frame)} bytes")
        raw = bytes(frame[position:end])
        client_id = _client_id(raw) if client_length <= _USUAL_CLIENT_ID_MAX else raw.decode("utf-8", "replace")
        position = end
    elif client_length < -1:
        raise MalformedFrame("client_id", 8, client_length, "negative length")
    if api_version >= _FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE):
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            reader = Reader(frame, position)
            reader.tags("request header tags")
            position = reader.pos
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def usual_request_header(frame: memoryview) -> tuple[int, int, str, int] | None:
    """What a header nearly always is: (API key << 16 | version, correlation id, client id, where that ends).

    None for anything else, and for damaged bytes: `decode_request_header` then says what is wrong. Tags are not read.
    """
    if len(frame) < _USUAL.size:
        return None
    api, correlation_id, client_length = _USUAL.unpack_from(frame)
    end = _USUAL.size + client_length
    if not 0 <= client_length <= _USUAL_CLIENT_ID_MAX or end >= len(frame):
        return None
    return api, correlation_id, _client_id(bytes(frame[_USUAL.size : end])), end


@lru_cache(maxsize=1024)
def _client_id(raw: bytes) -> str:
    """A connection sends the same id with every request; long ones are not kept. Bytes that are not UTF-8 cannot hurt:
    it is only a label."""
    return raw.decode("utf-8", "replace")


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The bytes before a request's body."""
    tags = b"\x00" if request_header_version(api_key, api_version) == 2 else b""
    if client_id is None:
        return _FIXED.pack(api_key, api_version, correlation_id, -1) + tags
    raw = client_id.encode("utf-8")
    return _FIXED.pack(api_key, api_version, correlation_id, len(raw)) + raw + tags


class ResponseHeader(NamedTuple):
    """body_start: where the response's body begins in the frame."""

    correlation_id: int
    body_start: int


def decode_correlation_id(frame: memoryview) -> int:
    """The first four bytes, which say to which request, and so to which header version, a response belongs."""
    if len(frame) < 4:
        raise MalformedFrame("correlation_id", 0, len(frame), "needs 4 bytes, so many are there")
    correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
    return correlation_id


def decode_response_header(api_key: int, api_version: int, frame: memoryview) -> ResponseHeader:
    """The header at the frame's start; raises MalformedFrame."""
    correlation_id = decode_correlation_id(frame)
    if response_header_version(api_key, api_version) == 0:
        return ResponseHeader(correlation_id, 4)
    if len(frame) > 4 and frame[4] == 0:
        return ResponseHeader(correlation_id, 5)
    reader = Reader(frame, 4)
    reader.skip_tags("response header tags")
    return ResponseHeader(correlation_id, reader.pos)


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The bytes before a response's body."""
    header = _CORRELATION_ID.pack(correlation_id)
    if response_header_version(api_key, api_version) == 1:
        header += encode_uvarint(0)
    return header
