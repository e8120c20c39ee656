"""Record compression: gzip from the standard library, the others when cramjam is installed.

The broker never needs this: batches stay opaque to it. Readers and tests do.
Inflated size is bounded, so that a small hostile batch cannot fill the memory.
Source: KIP-110; org.apache.kafka.common.record.CompressionType; snappy-java's stream framing (xerial).
"""

from __future__ import annotations

import importlib
import struct
import zlib
from enum import IntEnum
from types import ModuleType
from typing import Final

INFLATED_BYTES_MAX: Final = 256 * 1024 * 1024
_GZIP_WINDOW_BITS: Final = 31
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16
_XERIAL_BLOCK_SIZE: Final = 32 * 1024


class Compression(IntEnum):
    """The lowest three attribute bits of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(Exception):
    """The bytes are not what their codec writes, inflate too far, or the codec is not installed."""


def _cramjam(codec: Compression) -> ModuleType:
    try:
        return importlib.import_module("cramjam")
    except ImportError:
        raise CompressionError(
            f"{codec.name.lower()} needs the package cramjam, which is not installed; "
            "without it only none and gzip can be read"
        ) from None


def compress(codec: Compression, data: bytes | bytearray) -> bytes:
    """data as `codec` stores it."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            packer = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
            return packer.compress(data) + packer.flush()
        case Compression.SNAPPY:
            return _xerial_frame(_cramjam(codec), bytes(data))
        case Compression.LZ4:
            return bytes(_cramjam(codec).lz4.compress(bytes(data)))
        case Compression.ZSTD:
            return bytes(_cramjam(codec).zstd.compress(bytes(data)))


def decompress(codec: Compression, data: memoryview | bytes) -> bytes:
    """The inflated bytes; raises CompressionError."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return _gunzip(data)
    library = _cramjam(codec)
    try:
        match codec:
            case Compression.SNAPPY:
                inflated = _unsnappy(library, bytes(data))
            case Compression.LZ4:
                inflated = bytes(library.lz4.decompress(bytes(data)))
            case _:
                inflated = bytes(library.zstd.decompress(bytes(data)))
    except library.DecompressionError as error:
        raise CompressionError(f"not {codec.name.lower()}: {error}") from error
    if len(inflated) > INFLATED_BYTES_MAX:
        raise CompressionError(f"inflates to {len(inflated)} bytes, more than {INFLATED_BYTES_MAX}")
    return inflated


def _gunzip(data: memoryview | bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    try:
        inflated = unpacker.decompress(data, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise CompressionError(f"not gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise CompressionError(f"inflates to more than {INFLATED_BYTES_MAX} bytes")
    if not unpacker.eof:
        raise CompressionError("gzip data without an end")
    return inflated


def _xerial_frame(library: ModuleType, data: bytes) -> bytes:
    framed = bytearray(_XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    for start in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(library.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_SIZE]))
        framed += struct.pack(">i", len(block)) + block
    return bytes(framed)


def _unsnappy(library: ModuleType, data: bytes) -> bytes:
    """Java clients frame their blocks, librdkafka sends one bare block."""
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(library.snappy.decompress_raw(data))
    inflated = bytearray()
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        if len(data) - position < 4:
            raise CompressionError("snappy block without a whole length")
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise CompressionError(f"snappy block of {length} bytes where {len(data) - position} are left")
        inflated += library.snappy.decompress_raw(data[position : position + length])
        position += length
    return bytes(inflated)
