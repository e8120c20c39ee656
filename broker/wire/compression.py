"""Record compression: gzip from the standard library, the others when cramjam is installed.

The broker leaves batches closed, but for lookups by time, compaction and topics with a codec of their own. Readers and
tests inflate them. Inflated size is bounded while it grows, so that a small hostile batch cannot fill the memory.
Source: KIP-110, KIP-390; org.apache.kafka.common.record.CompressionType; snappy-java's stream framing (xerial).
"""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import Final

INFLATED_BYTES_MAX: Final = 256 * 1024 * 1024
_GZIP_WINDOW_BITS: Final = 31
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_ZSTD_LEVEL: Final = 3
_LZ4_FAST: Final = 1
_LZ4_DEFAULT_LEVEL: Final = 9
_FULL: Final = "failed to write whole buffer"
"""cramjam's error text for an output that is too small."""


class Compression(IntEnum):
    """The lowest three attribute bits of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(Exception):
    """The bytes are not what their codec writes, or one of the errors below."""


class CodecMissing(CompressionError):
    """The codec is not installed."""


class InflatesTooFar(CompressionError):
    """More bytes would come out than the caller takes."""

    def __init__(self, inflated_max: int) -> None:
        super().__init__(f"inflates to more than {inflated_max} bytes")


def check_installed(codec: Compression) -> None:
    """Raises CodecMissing, saying what to install."""
    if codec not in (Compression.NONE, Compression.GZIP):
        _cramjam(codec)


def are_all_installed() -> bool:
    """Whether every codec is there: one package brings those that Python lacks. It may come while a process runs."""
    importlib.invalidate_caches()
    try:
        check_installed(Compression.ZSTD)
    except CodecMissing:
        return False
    return True


def _cramjam(codec: Compression) -> ModuleType:
    try:
        return importlib.import_module("cramjam")
    except ImportError:
        raise CodecMissing(
            f"{codec.name.lower()} needs the package cramjam, which is not installed; "
            "without it there are only none and gzip"
        ) from None


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """data as `codec` stores it. level: the codec's own, None for Kafka's default; snappy has none.

    Raises CodecMissing.
    """
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            packer = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WINDOW_BITS)
            return packer.compress(data) + packer.flush()
        case Compression.SNAPPY:
            return _xerial_frame(_cramjam(codec), bytes(data))
        case Compression.LZ4:
            return _lz4_frame(_cramjam(codec), bytes(data), level)
        case Compression.ZSTD:
            return bytes(_cramjam(codec).zstd.compress(bytes(data), level=_ZSTD_LEVEL if level is None else level))


def _lz4_frame(library: ModuleType, data: bytes, level: int | None) -> bytes:
    """Independent blocks: Kafka's own reader takes no others. Kafka's default level, 9, is its fast compressor."""
    own = _LZ4_FAST if level in (None, _LZ4_DEFAULT_LEVEL) else level
    packer = library.lz4.Compressor(level=own, content_checksum=False, block_linked=False)
    packer.compress(data)
    return bytes(packer.finish())


def decompress(codec: Compression, data: memoryview | bytes, inflated_max: int | None = None) -> bytes:
    """The inflated bytes; raises CompressionError, before more than inflated_max of them are made."""
    most = INFLATED_BYTES_MAX if inflated_max is None else inflated_max
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return _gunzip(data, most)
    library = _cramjam(codec)
    try:
        match codec:
            case Compression.SNAPPY:
                return _unsnappy(library, bytes(data), most)
            case Compression.LZ4:
                return _inflate_into(library, library.lz4.decompress_into, bytes(data), most)
            case _:
                return _inflate_into(library, library.zstd.decompress_into, bytes(data), most)
    except library.DecompressionError as error:
        raise CompressionError(f"not {codec.name.lower()}: {error}") from error


def _inflate_into(
    library: ModuleType, decompress_into: Callable[[bytes, bytearray], int], data: bytes, inflated_max: int
) -> bytes:
    """Frames do not say how much they hold, so the room for it grows until it is enough, or too much."""
    room = min(inflated_max, max(1 << 16, 4 * len(data)))
    while True:
        out = bytearray(room)
        try:
            size = decompress_into(data, out)
        except library.DecompressionError as error:
            if _FULL not in str(error):
                raise
            if room >= inflated_max:
                raise InflatesTooFar(inflated_max) from None
            room = min(inflated_max, 8 * room)
        else:
            return bytes(memoryview(out)[:size])


def _gunzip(data: memoryview | bytes, inflated_max: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    try:
        inflated = unpacker.decompress(data, inflated_max)
    except zlib.error as error:
        raise CompressionError(f"not gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise InflatesTooFar(inflated_max)
    if not unpacker.eof:
        raise CompressionError("gzip data without an end")
    return inflated


def _xerial_frame(library: ModuleType, data: bytes) -> bytes:
    framed = bytearray(_XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    for start in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(library.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_SIZE]))
        framed += struct.pack(">i", len(block)) + block
    return bytes(framed)


def _unsnappy(library: ModuleType, data: bytes, inflated_max: int) -> bytes:
    """Java clients frame their blocks, librdkafka sends one bare block."""
    inflated = bytearray()

    def take(block: bytes) -> None:
        if len(inflated) + library.snappy.decompress_raw_len(block) > inflated_max:
            raise InflatesTooFar(inflated_max)
        inflated.extend(library.snappy.decompress_raw(block))

    if not data.startswith(_XERIAL_MAGIC):
        take(data)
        return bytes(inflated)
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        if len(data) - position < 4:
            raise CompressionError("snappy block without a whole length")
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise CompressionError(f"snappy block of {length} bytes where {len(data) - position} are left")
        take(data[position : position + length])
        position += length
    return bytes(inflated)
